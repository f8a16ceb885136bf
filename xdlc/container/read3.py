"""Reader of format 3 (SNPE 1.x): one graph of package ``snpe``.

Each layer becomes an op of its raw type.  Attributes become parameters: numbers, flags and texts as
scalars, lists as tensors, nested attributes under dotted names; ``layer_id`` is the layer's own number,
which AIP records refer to.  Weights follow the op's inputs as static tensors ``<layer>.<weight>``, biases
last.  Output shapes and encodings go to the tensors and are no parameters.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from xdlc.container.archive import Entry, entry_bytes
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
    string,
    u32,
)
from xdlc.ir.data import numbers_data
from xdlc.ir.dtype import BOOL8, BY_NAME, FLOAT32, INT32, UINT8
from xdlc.ir.encoding import integers
from xdlc.ir.tensor import Role
from xdlc.records import record
from xdlc.schema._generated import dlc3_model, dlc3_params
from xdlc.schema._generated.dlc3_model import Attribute
from xdlc.schema.table import Blob

FLAG, INTEGER, NATURAL, REAL, TEXT, FLAGS, POSITIONS, INTEGERS, REALS, TEXTS, NESTED = range(1, 12)
OLD, NEW = "FxpData", "DataEncoding"
FORMS = (OLD, NEW)
ELEMENT = "DataEncodingElement"
NO_AXIS = -1
BITS_MASK = 0xFF  # the other bits are 0x200 in every file known


def by_name(attributes: Sequence[Attribute], where: str) -> dict[str, Attribute]:
    """Return attributes by their names.

    Raises:
        ContainerError: If one has no name, or two have the same.
    """
    named: dict[str, Attribute] = {}
    for attribute in attributes:
        if attribute.name is None or attribute.name in named:
            raise ContainerError(f"has two attributes named {attribute.name!r}, or no name", where=where)
        named[attribute.name] = attribute
    return named


def children(attribute: Attribute | None) -> dict[str, Attribute]:
    """Return the nested attributes of an attribute by name."""
    return {child.name or "": child for child in (attribute.attributes or ())} if attribute else {}


def elements(attribute: Attribute | None) -> Iterator[Attribute]:
    """Yield the elements of an array, which are named by their index."""
    held = children(attribute)
    index = 0
    while str(index) in held:
        yield held[str(index)]
        index += 1


def to_params(name: str, attribute: Attribute, layer: str, where: str) -> dict[str, Param]:
    """Return an attribute's parameters: one for each leaf, under dotted names.

    Raises:
        ContainerError: If a type is not known, or a name comes twice.
    """
    kind = attribute.type
    if kind == NESTED:
        found: dict[str, Param] = {}
        for child_name, child in by_name(attribute.attributes or (), where).items():
            found.update(to_params(f"{name}.{child_name}", child, layer, where))
        return found
    if kind == TEXTS:
        return {f"{name}.{index}": string(text) for index, text in enumerate(attribute.texts or ())}
    scalar = _scalar(attribute)
    if scalar is not None:
        return {name: scalar}
    lists: dict[int, tuple[Sequence[float] | None, DType]] = {
        FLAGS: (attribute.flags, BOOL8),
        POSITIONS: (attribute.positions, INT32),
        INTEGERS: (attribute.integers, INT32),
        REALS: (attribute.floats, FLOAT32),
    }
    if kind not in lists:
        raise ContainerError(f"has an attribute {name!r} of type {kind}; only 1 to 11 are known", where=where)
    values, dtype = lists[kind]
    data = numbers_data(() if values is None else values, dtype)
    return {name: Tensor(f"{layer}_{name}", data.shape, dtype, None, data, Role.STATIC)}


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


@record(frozen=True)
class StoredEncoding:
    """An encoding as it is stored in a file.

    Attributes:
        axis: Axis of the channels; -1 for none.
        numbers: Delta, offset and precision of each channel.
    """

    axis: int
    numbers: tuple[tuple[float, float, int], ...]

    def decoded(self, where: str) -> tuple[Encoding, DType] | None:
        """Return the encoding and its data type; None for the encoding of a float.

        Raises:
            ContainerError: If an offset is not an integer of 32 bits.
        """
        if not self.numbers:
            return None
        try:
            offsets = integers([int(offset) for _, offset, _ in self.numbers])
        except (ValueError, OverflowError) as error:
            raise ContainerError("has an encoding with an impossible offset", where=where) from error
        dtype = BY_NAME.get(f"ufixed{self.numbers[0][2] & BITS_MASK}")
        if dtype is None:
            return None  # a float layer of a quantized model
        scales = tuple([delta for delta, *_ in self.numbers])
        if self.axis < 0:
            return ScaleOffset(scales[0], offsets[0]), dtype
        return AxisScaleOffset(self.axis, scales, tuple(offsets)), dtype


def read_encodings(attributes: Mapping[str, Attribute], where: str) -> list[StoredEncoding]:
    """Return the encoding of each output of a layer, or of a weight.

    Raises:
        ContainerError: If a number is missing.
    """
    encodings = [StoredEncoding(NO_AXIS, (_numbers(item, where),)) for item in elements(attributes.get(OLD))]
    if encodings:
        return encodings
    for item in elements(attributes.get(NEW)):
        fields = children(item)
        axis = fields["axis"].integer if "axis" in fields else NO_AXIS
        numbers = tuple([_numbers(element, where) for element in elements(fields.get(ELEMENT))])
        encodings.append(StoredEncoding(axis, numbers))
    return encodings


def _numbers(element: Attribute, where: str) -> tuple[float, float, int]:
    fields = children(element)
    missing = [name for name in ("delta", "offset", "precision") if name not in fields]
    if missing:
        raise ContainerError(f"has an encoding without {', '.join(map(repr, missing))}", where=where)
    return fields["delta"].real, fields["offset"].real, fields["precision"].natural


PACKAGE = "snpe"
GRAPH = "model"
UINT8_DATA, FLOAT_DATA = 6, 9
SHAPES = "OutputDims"
BUFFERS = "BufferInfos"
INPUT = "Input"


def read_layers(source: MappedFile, entries: Mapping[str, Entry], model: Model) -> None:
    """Add a file's layers to ``model`` as one graph.

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
                f"has weights for {sorted(map(str, unknown))[0]!r}, which is not a layer",
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
                f"has elements of type {elements.dtype}; only {UINT8_DATA} (uint8) and "
                f"{FLOAT_DATA} (float32) are known",
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
                f"has {nbytes} bytes of data, but {dtype}{list(shape)} needs {dtype.nbytes(shape)}",
                where=where,
                fix="get the file again",
            )
        data = MappedData(self.source, self.first + start, shape, dtype)
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
