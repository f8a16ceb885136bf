"""Reader of format 3 (SNPE 1.x): one graph of package ``snpe``.

Each layer becomes an op of its raw type.  Attributes become parameters: numbers, flags and texts as
scalars, lists as tensors, nested attributes under dotted names; ``layer_id`` is the layer's own number,
which AIP records refer to.  Weights follow the op's inputs as static tensors ``<layer>.<weight>``, biases
last.  Output shapes and encodings go to the tensors and are no parameters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from xdlc.container.archive import Entry, entry_bytes
from xdlc.container.attributes3 import FORMS, by_name, children, elements, read_encodings, to_params
from xdlc.container.flatbuffer import decode
from xdlc.container.read4 import MAX_ELEMENTS, MAX_RANK, PREFIX
from xdlc.errors import ContainerError, ModelError
from xdlc.ir import (
    AxisScaleOffset,
    Encoding,
    Graph,
    MappedData,
    MappedFile,
    Model,
    Op,
    Param,
    Tensor,
    i32,
)
from xdlc.ir.dtype import FLOAT32, UINT8
from xdlc.ir.tensor import Role
from xdlc.schema._generated import dlc3_model, dlc3_params
from xdlc.schema._generated.dlc3_model import Attribute
from xdlc.schema.table import Blob

PACKAGE = "snpe"
GRAPH = "model"
UINT8_DATA, FLOAT_DATA = 6, 9
SHAPES = "OutputDims"
BUFFERS = "BufferInfos"
INPUT = "Input"


def read_layers(source: MappedFile, entries: Mapping[str, Entry], model: Model) -> None:
    """Add the layers of a file to ``model`` as one graph.

    Raises:
        ContainerError: If an entry is missing or breaks a rule: names the entry and the rule.
    """
    where = str(source.path)
    content = decode(
        entry_bytes(source, entries["model"], PREFIX), dlc3_model.Model, f"{where}: entry 'model'"
    )
    weights: dict[str | None, Sequence[dlc3_params.Weight]] = {}
    first = 0
    if "model.params" in entries:
        entry = entries["model.params"]
        first = entry.offset + PREFIX
        body = entry_bytes(source, entry, PREFIX, most=source.size)
        params = decode(body, dlc3_params.Params, f"{where}: entry 'model.params'")
        weights = {node.name: node.weights or () for node in params.nodes or ()}
    reader = _LayerReader(source, first, weights)
    try:
        model.add_graph(reader.read(content))
    except ModelError as error:
        raise ContainerError(error.problem, where=f"{where}: entry 'model'", fix=error.fix) from error


def unread(graph: Graph) -> list[Tensor]:
    """Return the tensors that ops write and none reads, the outputs of format 3."""
    return [tensor for op in graph.ops for tensor in op.outputs if not graph.consumers(tensor)]


class _LayerReader:
    def __init__(
        self, source: MappedFile, first: int, weights: dict[str | None, Sequence[dlc3_params.Weight]]
    ) -> None:
        self.source = source
        self.first = first
        self.weights = weights
        self.graph = Graph(GRAPH)

    def read(self, content: dlc3_model.Model) -> Graph:
        graph = self.graph
        shapes = _buffer_shapes(content.attributes or ())
        layers = content.nodes or ()
        unknown = self.weights.keys() - {layer.name for layer in layers}
        if unknown:
            raise ContainerError(
                f"has weights for {sorted(map(str, unknown))[0]!r}, which is no layer",
                where=f"{self.source.path}: entry 'model.params'",
            )
        for layer in layers:
            self.layer(layer, shapes)
        for tensor in unread(graph):
            graph.add_output(tensor)
        graph.verify()
        return graph

    def layer(self, layer: dlc3_model.Node, shapes: Mapping[str, tuple[int, ...]]) -> None:
        where = f"{self.source.path}: layer {layer.name!r} ({layer.type})"
        if not layer.name or not layer.type:
            raise ContainerError("has no name or no type", where=where)
        attributes = by_name(layer.attributes or (), where)
        encodings = read_encodings(attributes, where)
        own = _lists(attributes.get(SHAPES))
        outputs = []
        for index, name in enumerate(layer.outputs or ()):
            shape = shapes.get(name, own[index] if index < len(own) else None)
            if shape is None or not _is_shape(shape):
                raise ContainerError(f"has no valid shape for its output {name!r}", where=where)
            held = encodings[index] if index < len(encodings) else None
            encoding, dtype = (held.decoded(where) if held else None) or (None, FLOAT32)
            _check_axis(encoding, shape, where)
            outputs.append(Tensor(name, shape, dtype, encoding))
        others = {name: attribute for name, attribute in attributes.items() if name not in (SHAPES, *FORMS)}
        if layer.type == INPUT:
            for tensor in outputs:
                self.graph.add_input(tensor)
            return
        self.op(layer, outputs, others, where)

    def op(
        self, layer: dlc3_model.Node, outputs: list[Tensor], attributes: Mapping[str, Attribute], where: str
    ) -> None:
        inputs: list[Tensor | None] = []
        for name in layer.inputs or ():
            if name not in self.graph.tensors:
                raise ContainerError(f"reads {name!r}, which no earlier layer writes", where=where)
            inputs.append(self.graph.tensors[name])
        name = layer.name or ""
        given = sorted(self.weights.get(name, ()), key=lambda weight: weight.name == "bias")
        inputs += [self.weight(name, weight) for weight in given]
        params: dict[str, Param] = {"layer_id": i32(layer.id)}
        for key, attribute in attributes.items():
            params.update(to_params(key, attribute, name, where))
        self.graph.append(Op(layer.type or "", inputs, outputs, params, name=name, package=PACKAGE))

    def weight(self, layer: str, weight: dlc3_params.Weight) -> Tensor:
        where = f"{self.source.path}: layer {layer!r}: weight {weight.name!r}"
        elements, shape = weight.elements, tuple(weight.dims or ())
        if not weight.name or elements is None or not _is_shape(shape):
            raise ContainerError("has no name, no data or no valid shape", where=where)
        if elements.dtype not in (UINT8_DATA, FLOAT_DATA):
            raise ContainerError(
                f"has elements of type {elements.dtype}, only {UINT8_DATA} (uint8) and {FLOAT_DATA} (float32)"
                " are known",
                where=where,
            )
        dtype, blob = (UINT8, elements.octets) if elements.dtype == UINT8_DATA else (FLOAT32, elements.floats)
        attributes = by_name(weight.attributes or (), where)
        held = next(iter(read_encodings(attributes, where)), None)
        decoded = held.decoded(where) if held else None
        encoding: Encoding | None = None
        if decoded and dtype is UINT8:
            encoding, dtype = decoded
            _check_axis(encoding, shape, where)
        start, nbytes = (blob.start, len(blob)) if isinstance(blob, Blob) else (0, 0)
        if nbytes != dtype.nbytes(shape):
            raise ContainerError(
                f"has {nbytes} bytes of data, needs {dtype.nbytes(shape)} for {dtype}{list(shape)}",
                where=where,
                fix="get the file again",
            )
        data = MappedData(self.source, self.first + start, shape, dtype.numpy)
        return Tensor(f"{layer}.{weight.name}", shape, dtype, encoding, data, Role.STATIC)


def _is_shape(shape: tuple[int, ...]) -> bool:
    if len(shape) > MAX_RANK or min(shape, default=0) < 0:
        return False
    return math.prod(dim or 1 for dim in shape) <= MAX_ELEMENTS


def _lists(attribute: Attribute | None) -> list[tuple[int, ...]]:
    return [tuple(element.integers or ()) for element in elements(attribute)]


def _buffer_shapes(attributes: Sequence[Attribute]) -> dict[str, tuple[int, ...]]:
    infos = next((attribute for attribute in attributes if attribute.name == BUFFERS), None)
    return {
        name: tuple(fields["dims"].integers or ())
        for name, info in children(infos).items()
        if "dims" in (fields := children(info))
    }


def _check_axis(encoding: Encoding | None, shape: tuple[int, ...], where: str) -> None:
    if isinstance(encoding, AxisScaleOffset) and (
        encoding.axis >= len(shape) or len(encoding.scales) != shape[encoding.axis]
    ):
        raise ContainerError(
            f"has {len(encoding.scales)} scales along axis {encoding.axis} of shape {list(shape)}",
            where=where,
        )
