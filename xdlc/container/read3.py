"""Reads format 3 (SNPE 1.x) as one graph of package ``snpe``, for showing and for mapping onto QNN ops.

Each layer becomes an op of its raw type.  Attributes become parameters: numbers, flags and texts as
scalars, lists as tensors, nested attributes under dotted names; ``layer_id`` is the layer's own number,
which AIP records refer to.  Weights follow the op's inputs as static tensors ``<layer>.<weight>``, biases
last.  Output shapes and encodings go to the tensors and are no parameters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from xdlc.container.archive import Entry
from xdlc.container.flatbuffer import decode
from xdlc.container.read4 import MAX_ELEMENTS, MAX_RANK, PREFIX
from xdlc.errors import ContainerError, ModelError
from xdlc.ir import (
    AxisScaleOffset,
    DType,
    Encoding,
    Graph,
    MappedData,
    MappedFile,
    Model,
    Op,
    Param,
    Scalar,
    ScaleOffset,
    Tensor,
    b8,
    f32,
    i32,
    static,
    string,
    u32,
)
from xdlc.ir.dtype import BY_NAME, FLOAT32, UINT8
from xdlc.ir.tensor import Role
from xdlc.schema._generated import dlc3_model, dlc3_params
from xdlc.schema._generated.dlc3_model import Attribute
from xdlc.schema.table import Blob

PACKAGE = "snpe"
GRAPH = "model"
FLAG, INTEGER, NATURAL, REAL, TEXT, FLAGS, POSITIONS, INTEGERS, REALS, TEXTS, NESTED = range(1, 12)
UINT8_DATA, FLOAT_DATA = 6, 9
# Two ways to write encodings: SNPE up to about 1.50, and later (per channel too).
ENCODINGS = ("FxpData", "DataEncoding")
SHAPES = "OutputDims"
BITS_MASK = 0xFF


def read_layers(source: MappedFile, entries: Mapping[str, Entry], model: Model) -> None:
    """Add the layers of a file to ``model`` as one graph.

    Raises:
        ContainerError: If an entry is missing or breaks a rule: names the entry and the rule.
    """
    where = str(source.path)
    content = decode(_body(source, entries["model"]), dlc3_model.Model, f"{where}: entry 'model'")
    weights: dict[str | None, Sequence[dlc3_params.Weight]] = {}
    first = 0
    if "model.params" in entries:
        entry = entries["model.params"]
        first = entry.offset + PREFIX
        params = decode(_body(source, entry), dlc3_params.Params, f"{where}: entry 'model.params'")
        weights = {node.name: node.weights or () for node in params.nodes or ()}
    reader = _LayerReader(source, first, weights)
    try:
        model.add_graph(reader.read(content))
    except ModelError as error:
        raise ContainerError(error.problem, where=f"{where}: entry 'model'", fix=error.fix) from error


def _body(source: MappedFile, entry: Entry) -> memoryview:
    if entry.size < PREFIX:
        raise ContainerError(f"has {entry.size} bytes", where=f"{source.path}: entry {entry.name!r}")
    return source.view(entry.offset + PREFIX, entry.size - PREFIX)


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
        for tensor in list(graph.tensors.values()):
            if not tensor.is_static and not graph.consumers(tensor) and tensor.role is Role.NATIVE:
                graph.add_output(tensor)
        graph.verify()
        return graph

    def layer(self, layer: dlc3_model.Node, shapes: Mapping[str, tuple[int, ...]]) -> None:
        where = f"{self.source.path}: layer {layer.name!r} ({layer.type})"
        if not layer.name or not layer.type:
            raise ContainerError("has no name or no type", where=where)
        attributes = _by_name(layer.attributes or (), where)
        encodings = _encodings(attributes, where)
        own = _lists(attributes.get(SHAPES))
        outputs = []
        for index, name in enumerate(layer.outputs or ()):
            shape = shapes.get(name, own[index] if index < len(own) else None)
            if shape is None or not _is_shape(shape):
                raise ContainerError(f"gives no valid shape for its output {name!r}", where=where)
            found = encodings[index] if index < len(encodings) else None
            encoding, dtype = found or (None, FLOAT32)
            _check_axis(encoding, shape, where)
            outputs.append(Tensor(name, shape, dtype, encoding))
        if layer.type == "Input":
            for tensor in outputs:
                self.graph.add_input(tensor)
            return
        inputs: list[Tensor | None] = []
        for name in layer.inputs or ():
            if name not in self.graph.tensors:
                raise ContainerError(f"reads {name!r}, which no earlier layer gives", where=where)
            inputs.append(self.graph.tensors[name])
        given = sorted(self.weights.get(layer.name, ()), key=lambda weight: weight.name == "bias")
        inputs += [self.weight(layer.name, weight) for weight in given]
        params: dict[str, Param] = {"layer_id": i32(layer.id)}
        for name, attribute in attributes.items():
            if name != SHAPES and name not in ENCODINGS:
                params.update(_params(name, attribute, layer.name, where))
        self.graph.append(Op(layer.type, inputs, outputs, params, name=layer.name, package=PACKAGE))

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
        dtype, blob = (UINT8, elements.octets) if elements.dtype == UINT8_DATA else (FLOAT32, elements.reals)
        encodings = _encodings(_by_name(weight.attributes or (), where), where)
        encoding: Encoding | None = None
        if encodings and encodings[0] and dtype is UINT8:
            encoding, dtype = encodings[0]
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
    return math.prod(extent or 1 for extent in shape) <= MAX_ELEMENTS


def _by_name(attributes: Sequence[Attribute], where: str) -> dict[str, Attribute]:
    named: dict[str, Attribute] = {}
    for attribute in attributes:
        if attribute.name is None or attribute.name in named:
            raise ContainerError(f"has two attributes named {attribute.name!r}, or no name", where=where)
        named[attribute.name] = attribute
    return named


def _children(attribute: Attribute | None) -> dict[str, Attribute]:
    return {child.name or "": child for child in (attribute.attributes or ())} if attribute else {}


def _array(attribute: Attribute | None) -> Iterator[Attribute]:
    """Yield the elements of an array, which are named by their index."""
    children = _children(attribute)
    index = 0
    while str(index) in children:
        yield children[str(index)]
        index += 1


def _lists(attribute: Attribute | None) -> list[tuple[int, ...]]:
    return [tuple(element.integers or ()) for element in _array(attribute)]


def _buffer_shapes(attributes: Sequence[Attribute]) -> dict[str, tuple[int, ...]]:
    infos = next((attribute for attribute in attributes if attribute.name == "BufferInfos"), None)
    return {
        name: tuple(fields["dims"].integers or ())
        for name, info in _children(infos).items()
        if "dims" in (fields := _children(info))
    }


def _encodings(attributes: Mapping[str, Attribute], where: str) -> list[tuple[Encoding, DType] | None]:
    """Return the encoding and the data type of each output of a layer, or of a weight."""
    found = []
    for element in _array(attributes.get("FxpData")):
        found.append(_encoding([element], -1, where))
    if not found:
        for element in _array(attributes.get("DataEncoding")):
            fields = _children(element)
            axis = fields["axis"].integer if "axis" in fields else -1
            found.append(_encoding(list(_array(fields.get("DataEncodingElement"))), axis, where))
    return found


def _encoding(elements: Sequence[Attribute], axis: int, where: str) -> tuple[Encoding, DType] | None:
    if not elements:
        return None
    fields = [_children(element) for element in elements]
    try:
        scales = tuple([field["delta"].real for field in fields])
        offsets = tuple([int(field["offset"].real) for field in fields])
        bits = fields[0]["precision"].natural & BITS_MASK
    except (KeyError, ValueError, OverflowError) as error:
        raise ContainerError(
            "has an encoding without 'delta', 'offset' or 'precision', or with an impossible one", where=where
        ) from error
    dtype = BY_NAME.get(f"ufixed{bits}")
    if dtype is None:
        return None  # a float layer of a quantized model
    if axis < 0:
        return ScaleOffset(scales[0], offsets[0]), dtype
    return AxisScaleOffset(axis, scales, offsets), dtype


def _check_axis(encoding: Encoding | None, shape: tuple[int, ...], where: str) -> None:
    if isinstance(encoding, AxisScaleOffset) and (
        encoding.axis >= len(shape) or len(encoding.scales) != shape[encoding.axis]
    ):
        raise ContainerError(
            f"has {len(encoding.scales)} scales along axis {encoding.axis} of shape {list(shape)}",
            where=where,
        )


def _params(name: str, attribute: Attribute, layer: str, where: str) -> dict[str, Param]:
    """Return the parameters for an attribute: one, or one for each leaf below it."""
    kind = attribute.type
    if kind == NESTED:
        found: dict[str, Param] = {}
        for child_name, child in _by_name(attribute.attributes or (), where).items():
            found.update(_params(f"{name}.{child_name}", child, layer, where))
        return found
    if kind == TEXTS:
        return {f"{name}.{index}": string(text) for index, text in enumerate(attribute.texts or ())}
    scalar = _scalar(attribute)
    if scalar is not None:
        return {name: scalar}
    import numpy

    lists = {
        FLAGS: (attribute.flags, numpy.bool_),
        POSITIONS: (attribute.positions, numpy.int32),
        INTEGERS: (attribute.integers, numpy.int32),
        REALS: (attribute.reals, numpy.float32),
    }
    if kind not in lists:
        raise ContainerError(f"has an attribute {name!r} of type {kind}, only 1 to 11 are known", where=where)
    values, dtype = lists[kind]
    return {name: static(f"{layer}_{name}", numpy.asarray(() if values is None else values, dtype))}


def _scalar(attribute: Attribute) -> Scalar | None:
    kind = attribute.type
    if kind == FLAG:
        return b8(attribute.flag)
    if kind == INTEGER:
        return i32(attribute.integer)
    if kind == NATURAL:
        return u32(attribute.natural)
    if kind == REAL:
        return f32(attribute.real)
    return string(attribute.text or "") if kind == TEXT else None
