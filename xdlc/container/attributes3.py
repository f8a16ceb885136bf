"""Attributes of format 3: parameters of layers, and encodings of tensors.

Encodings are ``FxpData`` up to SNPE 1.50 or so, ``DataEncoding`` later, per channel too.  Both hold delta,
offset and bits; float value = (quantized value + offset) * delta.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdlc.errors import ContainerError
from xdlc.ir import (
    AxisScaleOffset,
    DType,
    Encoding,
    Param,
    Scalar,
    ScaleOffset,
    b8,
    f32,
    i32,
    static,
    string,
    u32,
)
from xdlc.ir.dtype import BY_NAME
from xdlc.ir.encoding import integers
from xdlc.schema._generated.dlc3_model import Attribute

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

    Args:
        name: Name of the parameter.
        layer: Name of its layer.
        where: Place for errors.

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
    import numpy

    lists = {
        FLAGS: (attribute.flags, numpy.bool_),
        POSITIONS: (attribute.positions, numpy.int32),
        INTEGERS: (attribute.integers, numpy.int32),
        REALS: (attribute.floats, numpy.float32),
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


@dataclass(frozen=True, slots=True)
class StoredEncoding:
    """An encoding as a file has it.

    Attributes:
        axis: Axis of the channels; -1 for none.
        numbers: Delta, offset and precision of each channel.
    """

    axis: int
    numbers: tuple[tuple[float, float, int], ...]

    def decoded(self, where: str) -> tuple[Encoding, DType] | None:
        """Return the encoding and its data type; None for one of a float.

        Raises:
            ContainerError: If an offset is no integer of 32 bits.
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
