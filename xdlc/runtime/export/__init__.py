"""Export of IR graphs as ONNX files, by the lowering that also runs them."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from onnx import GraphProto, ModelProto, TensorProto, helper, numpy_helper

from xdlc.errors import UnsupportedOp
from xdlc.ir import Graph, Model, Op, Param, Tensor
from xdlc.ir.dtype import FLOAT32, DType
from xdlc.opdefs.control_flow import outer_graphs
from xdlc.opdefs.model import order_of
from xdlc.opdefs.op_view import plain_value
from xdlc.options import spell

if TYPE_CHECKING:
    from xdlc.ir import TensorData
    from xdlc.ir.files import Writer
    from xdlc.opdefs.model import OpDef, TensorDef
    from xdlc.runtime.builder import Builder

_log = logging.getLogger(__name__)
_ONNX = ("", "ai.onnx", "com.microsoft")

LARGEST = (1 << 31) - 1
"""Bytes of the largest protobuf message."""
ALIGNMENT = 64
_MODEL_GRAPH, _GRAPH_INITIALIZER, _TENSOR_RAW_DATA = 7, 5, 9
_BYTES = 2
_OVERHEAD = 64  # bytes around a weight: tags, lengths, type, dims; its name comes on top


def export(
    model: Model | Graph,
    path: str | os.PathLike[str],
    *,
    graph: str | None = None,
    encodings: str = "qdq",
    external_data: bool = False,
) -> tuple[Path, ...]:
    """Write a graph as an ONNX model for onnxruntime.

    Inputs, outputs, nodes and intermediate values keep the names of the graph's tensors and ops, and
    the inputs and outputs their shapes.  Fixed-point inputs and outputs are float32.  A UDO becomes
    a node of a domain of its package's name, which onnxruntime has only if it is registered.
    The same model results in the same bytes.  Memory holds no more than one weight at a time.

    Args:
        path: The ``.onnx`` file; an existing one is replaced in one step.
        graph: Name of the graph to write; default: the model's first.
        encodings: What becomes of encodings: ``qdq`` QuantizeLinear and DequantizeLinear nodes,
            ``aimet`` a float model and the file ``<path>.encodings`` beside it (AIMET's format 1.0.0),
            ``none`` a float model.
        external_data: Write weights to ``<path>.data`` beside the model; always so where they are too
            large for one protobuf message (2 GiB).

    Returns:
        The files written, the model first.

    Raises:
        UnsupportedOp: If an op has no form in ONNX; several make a ProblemList.
        ModelError: If the graph is not valid.
        UsageError: If there is no such graph.
        StorageError: If a file cannot be written.
    """
    from xdlc.ir.files import replace_file, together
    from xdlc.runtime.export import parts
    from xdlc.runtime.export.aimet import encodings_file
    from xdlc.runtime.export.naming import carry_names
    from xdlc.runtime.lower import lower
    from xdlc.runtime.plan import came_quantized

    graphs = model.graphs if isinstance(model, Model) else None
    others = outer_graphs(model)[1:] if isinstance(model, Model) and graph is None else []
    if others:
        names = ", ".join(other.name for other in others)
        _log.warning("xdlc writes the first graph; choose another graph with %s: %s", spell("graph"), names)
    lowered = lower(
        model if isinstance(model, Graph) else model.graph_named(graph),
        quantized=encodings == "qdq",
        native=True,
        graphs=graphs,
        stated=isinstance(model, Model) and came_quantized(model),
        udos=_udos(model),
    )
    proto, held = carry_names(lowered)
    files = parts(proto, lowered.initializers, path, external_data=external_data)
    if encodings == "aimet":
        files.insert(0, encodings_file(lowered.graph, held, path))
    with together():
        for file, write in files:
            replace_file(file, write)
    return tuple(file for file, _ in reversed(files))


def _udos(model: Model | Graph) -> dict[tuple[str, str], OpDef]:
    from xdlc.container import udo

    if isinstance(model, Graph):
        return {}
    packages = udo.definitions(model)
    return {(name, opdef.name): opdef for name, held in packages.items() for opdef in held.opdefs}


def write_node(op: Op, b: Builder, definition: OpDef | None) -> None:
    """Write a UDO as an ONNX node; its package is the domain.

    Operands whose layout the definition states are transposed to the order of a source whose channels are
    axis 1: there a converter with the same definition finds them.  Enumerations are written by name.

    Args:
        b: Where the node goes.
        definition: The op's definition in the model, if there is one.

    Raises:
        UnsupportedOp: If the package has the name of a domain that means something else.
    """
    if op.package in _ONNX:
        raise UnsupportedOp(f"package {op.package!r} is a domain of ONNX", fix="rename the package")
    b.require_opset(op.package, 1)
    inputs, outputs = (definition.inputs, definition.outputs) if definition is not None else ((), ())
    operands = [
        "" if tensor is None else b.read(tensor, _perm(inputs, index, tensor), dtype=_type(tensor))
        for index, tensor in enumerate(op.inputs)
    ]
    made = b.nodes_out(op.type, operands, len(op.outputs), domain=op.package)
    for name, param in op.params.items():
        b.nodes[-1].attribute.append(helper.make_attribute(name, _attribute(definition, name, param)))
    for index, (tensor, value) in enumerate(zip(op.outputs, made, strict=True)):
        b.write(tensor, value, _perm(outputs, index, tensor), dtype=_type(tensor))


def _perm(places: tuple[TensorDef, ...], index: int, tensor: Tensor) -> tuple[int, ...]:
    """Return the axes of a tensor in the order of the source."""
    layout = places[min(index, len(places) - 1)].layout if places else ""
    order = order_of(layout, tensor.rank)
    return tuple(order.index(axis) for axis in range(tensor.rank))


def _type(tensor: Tensor) -> Any:
    dtype: DType = FLOAT32 if tensor.dtype.is_fixed else tensor.dtype
    return dtype.numpy


def _attribute(definition: OpDef | None, name: str, param: Param) -> Any:
    if not isinstance(param, Tensor):
        value = plain_value(definition, name, param) if definition is not None else param.value
        return int(value) if isinstance(value, bool) else value
    known = definition.params.get(name) if definition is not None else None
    array = param.numpy().transpose(_perm((known,) if known is not None else (), 0, param))
    if array.ndim == 1 and array.dtype.name in ("int32", "uint32", "int64", "float32"):
        return array.tolist()
    return numpy_helper.from_array(array)


def parts(
    proto: ModelProto,
    weights: Mapping[str, TensorData],
    path: str | os.PathLike[str],
    *,
    external_data: bool = False,
) -> list[tuple[Path, Writer]]:
    """Return the files of a model with the functions that write them, the model last.

    Args:
        proto: The model; the initializers that ``weights`` holds have types and shapes only.
        weights: Data of the large initializers by name.
        external_data: Write the weights to ``<path>.data``; always so where they are too large.
    """
    target = Path(path)
    inside = proto.ByteSize() + sum(
        data.nbytes + _OVERHEAD + len(name.encode()) for name, data in weights.items()
    )
    if weights and (external_data or inside > LARGEST):
        beside = target.with_name(f"{target.name}.data")
        _refer(proto, weights, beside.name)
        return [
            (beside, lambda file: _write_data(file, weights)),
            (target, lambda file: _write(file, proto, {})),
        ]
    return [(target, lambda file: _write(file, proto, weights))]


def _refer(proto: ModelProto, weights: Mapping[str, TensorData], location: str) -> None:
    """Let the initializers name the ranges of the file that ``_write_data`` writes."""
    offsets, position = {}, 0
    for name, data in weights.items():
        offsets[name] = position
        position += _aligned(data.nbytes)
    for tensor in proto.graph.initializer:
        if tensor.name in offsets:
            del tensor.external_data[:]
            entries = {
                "location": location,
                "offset": str(offsets[tensor.name]),
                "length": str(weights[tensor.name].nbytes),
            }
            for key, value in entries.items():
                tensor.external_data.add(key=key, value=value)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _write_data(file: IO[bytes], weights: Mapping[str, TensorData]) -> None:
    for data in weights.values():
        data.write_to(file)
        data.release()
        file.write(bytes(_aligned(data.nbytes) - data.nbytes))


def _write(file: IO[bytes], proto: ModelProto, weights: Mapping[str, TensorData]) -> None:
    around, graph = ModelProto(), GraphProto()
    around.CopyFrom(proto)
    around.ClearField("graph")
    graph.CopyFrom(proto.graph)
    large = [tensor for tensor in graph.initializer if tensor.name in weights]
    small = [tensor for tensor in graph.initializer if tensor.name not in weights]
    headers = [_header(tensor, weights[tensor.name].nbytes) for tensor in large]
    del graph.initializer[:]
    graph.initializer.extend(small)
    rest = graph.SerializeToString(deterministic=True)
    size = len(rest)
    for tensor, header in zip(large, headers, strict=True):
        content = len(header) + weights[tensor.name].nbytes
        size += len(_prefix(_GRAPH_INITIALIZER, content)) + content
    file.write(around.SerializeToString(deterministic=True))
    file.write(_prefix(_MODEL_GRAPH, size) + rest)
    for tensor, header in zip(large, headers, strict=True):
        data = weights[tensor.name]
        file.write(_prefix(_GRAPH_INITIALIZER, len(header) + data.nbytes) + header)
        data.write_to(file)
        data.release()


def _header(tensor: TensorProto, nbytes: int) -> bytes:
    """Return a tensor's encoded fields up to its data, and the length of the data."""
    bare = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    fields: bytes = bare.SerializeToString(deterministic=True)
    return fields + _prefix(_TENSOR_RAW_DATA, nbytes)


def _prefix(number: int, size: int) -> bytes:
    """Return tag and length of a field of bytes."""
    return _varint(number << 3 | _BYTES) + _varint(size)


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
