"""Readable text form of graphs and models, which parses back.

One op a line::

    graph main {
      input %x float32[1,8]
      static %w float32[4,8] = sha256:9f86...
      fc = FullyConnected(%x, %w, _) {keep_dims=bool8 false} -> %y float32[1,4] from "Gemm_0"
      return %y
    }

A tensor is declared where it first appears, with its type, and only named later; ``_`` is an omitted
input.  The package ``qti.aisw`` is implied, others read ``Erf@xdlc``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Literal

from xdlc.ir.data import Array, Elided, TensorData
from xdlc.ir.dtype import from_numpy
from xdlc.ir.encoding import Encoding
from xdlc.ir.graph import NATIVE_PACKAGE, Graph, Op
from xdlc.ir.literals import (
    ENCODING_NAMES,
    INLINE_ELEMENTS,
    data_shape,
    float_text,
    name_text,
    numbers_text,
    scalar_text,
)
from xdlc.ir.model import Model
from xdlc.ir.parser import parse
from xdlc.ir.tensor import Role, Tensor

__all__ = ["parse", "to_text"]

DataMode = Literal["elided", "inline"]


def to_text(model_or_graph: Model | Graph, *, data: DataMode = "elided") -> str:
    """Return the text form.

    Args:
        model_or_graph: What to print.
        data: What to do with data of more than 64 elements and with records: ``elided`` writes
            their sha256, ``inline`` their bytes in hexadecimal.

    Example:
        >>> from xdlc.ir import Tensor, dtype, make_op
        >>> graph = Graph("main")
        >>> x = graph.add_input(Tensor("x", (2,), dtype.FLOAT32))
        >>> y = graph.append(make_op(graph, "Relu", [x], [Tensor("y", (2,), dtype.FLOAT32)])).outputs[0]
        >>> print(to_text(graph), end="")
        graph main {
          input %x float32[2]
          Relu = Relu(%x) -> %y float32[2]
        }
    """
    if isinstance(model_or_graph, Graph):
        lines = list(_graph_lines(model_or_graph, data))
    else:
        lines = [line for graph in model_or_graph.graphs.values() for line in _graph_lines(graph, data)]
        if model_or_graph.metadata:
            lines.insert(0, f"metadata {json.dumps(model_or_graph.metadata)}")
        for name, record in model_or_graph.records.items():
            lines.append(f"record {name_text(name)} {record.nbytes} {_bytes_text(record, data)}")
    return "".join(f"{line}\n" for line in lines)


def _graph_lines(graph: Graph, mode: DataMode) -> Iterator[str]:
    yield f"graph {name_text(graph.name)} {{"
    declared: set[Tensor] = set()
    produced = {tensor for op in graph.ops for tensor in op.outputs}
    outputs = set(graph.outputs)

    def declaration(keyword: str, tensor: Tensor) -> str:
        declared.add(tensor)
        default = {"input": Role.INPUT, "static": Role.STATIC}.get(keyword, Role.NATIVE)
        role = Role.OUTPUT if tensor in outputs else default
        return f"  {keyword} {_reference(tensor)} {_spec(tensor, role, mode)}"

    def output(tensor: Tensor) -> str:
        if tensor in declared:
            return _reference(tensor)
        declared.add(tensor)
        role = Role.OUTPUT if tensor in outputs else Role.NATIVE
        return f"{_reference(tensor)} {_spec(tensor, role, mode)}"

    def keyword(tensor: Tensor) -> str:
        return "tensor" if tensor.data is None else "static"

    for tensor in graph.inputs:
        yield declaration("input", tensor)
    for op in graph.ops:
        for source in op.inputs:
            if source is not None and source not in declared and source not in produced:
                yield declaration(keyword(source), source)
        results = ", ".join([output(tensor) for tensor in op.outputs])
        yield _op_line(op, results, mode)
    for tensor in graph.tensors.values():
        if tensor not in declared:
            yield declaration(keyword(tensor), tensor)
    if graph.outputs:
        yield f"  return {', '.join(_reference(tensor) for tensor in graph.outputs)}"
    yield "}"


def _op_line(op: Op, results: str, mode: DataMode) -> str:
    package = "" if op.package == NATIVE_PACKAGE else f"@{name_text(op.package)}"
    sources = ", ".join("_" if source is None else _reference(source) for source in op.inputs)
    line = f"  {name_text(op.name)} = {name_text(op.type)}{package}({sources})"
    if op.params:
        line += f" {{{', '.join(_param(op, key, mode) for key in op.params)}}}"
    if results:
        line += f" -> {results}"
    if op.origin.nodes:
        line += f" from {', '.join(json.dumps(node) for node in op.origin.nodes)}"
    if op.origin.reason is not None:
        line += f" because {json.dumps(op.origin.reason)}"
    return line


def _param(op: Op, key: str, mode: DataMode) -> str:
    param = op.params[key]
    if not isinstance(param, Tensor):
        return f"{name_text(key)}={param.dtype} {scalar_text(param.dtype, param.value)}"
    name = "" if param.name == f"{op.name}_{key}" else f"{_reference(param)} "
    return f"{name_text(key)}={name}{_spec(param, Role.STATIC, mode)}"


def _reference(tensor: Tensor) -> str:
    return f"%{name_text(tensor.name)}"


def _spec(tensor: Tensor, default_role: Role, mode: DataMode) -> str:
    text = f"{tensor.dtype}{_shape(tensor.shape)}"
    if tensor.dynamic_axes:
        text += f" dynamic={_shape(tensor.dynamic_axes)}"
    if tensor.role is not default_role:
        text += f" role={tensor.role.name.lower()}"
    if tensor.encoding is not None:
        text += f" {_encoding(tensor.encoding)}"
    if tensor.data is not None:
        text += f" = {_data(tensor, tensor.data, mode)}"
    return text


def _shape(shape: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"


def _encoding(encoding: Encoding) -> str:
    words = []
    for field in fields(encoding):
        value = getattr(encoding, field.name)
        if any(value) if field.name == "offsets" else value != field.default:
            words.append(f"{field.name}={_field_text(value)}")
    return f"{ENCODING_NAMES[type(encoding)]}({', '.join(words)})"


def _field_text(value: float | Sequence[float]) -> str:
    if isinstance(value, Sequence):
        return f"[{','.join(map(_field_text, value))}]"
    return float_text(value) if isinstance(value, float) else str(int(value))


def _data(tensor: Tensor, data: TensorData, mode: DataMode) -> str:
    plain = (
        tensor.dtype.kind not in ("string", "undefined")
        and data.shape == data_shape(tensor.dtype, tensor.shape)
        and data.dtype == tensor.dtype.numpy
    )
    if not plain:
        stored = from_numpy(data.dtype)
        return f"{stored}{_shape(data.shape)} {_bytes_text(data, mode)}"
    if tensor.size <= INLINE_ELEMENTS and not isinstance(data, Elided):
        numbers = numbers_text(tensor.dtype, tensor.size, data.numpy())
        return numbers or _bytes_text(data, "inline")
    return _bytes_text(data, mode)


def _bytes_text(data: TensorData, mode: DataMode) -> str:
    if isinstance(data, Elided):
        return f"sha256:{data.digest}"
    import numpy

    array: Array = numpy.ascontiguousarray(data.numpy())
    content = memoryview(array.reshape(-1).view(numpy.uint8))
    text = f"hex:{content.hex()}" if mode == "inline" else f"sha256:{hashlib.sha256(content).hexdigest()}"
    del content
    data.release()
    return text
