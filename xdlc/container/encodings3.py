"""Encodings of format 3: ``FxpData`` up to SNPE 1.50 or so, ``DataEncoding`` later, per channel too.

Both say delta, offset, bits and the smallest and largest number; real = (stored + offset) * delta.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdlc.container.attributes3 import INTEGER, NATURAL, REAL, array, children, elements, nested
from xdlc.errors import ContainerError
from xdlc.ir import AxisScaleOffset, DType, Encoding, ScaleOffset, Tensor
from xdlc.ir.dtype import BY_NAME
from xdlc.ir.encoding import as_float32
from xdlc.schema._generated.dlc3_model import Attribute

OLD, NEW = "FxpData", "DataEncoding"
FORMS = (OLD, NEW)
ELEMENT = "DataEncodingElement"
NO_AXIS = -1
BITS_MASK = 0xFF
PRECISION = 0x200  # added to the bits in every file known
REALS = ("delta", "max", "min", "offset")
FLOAT_LIMIT = 3.4028234663852886e38


@dataclass(frozen=True, slots=True)
class Held:
    """An encoding as a file has it.

    Attributes:
        form: ``FxpData`` or ``DataEncoding``.
        axis: Axis of the channels; -1 for none.
        numbers: Delta, max, min, offset and precision of each channel.
    """

    form: str
    axis: int
    numbers: tuple[tuple[float, float, float, float, int], ...]

    def decoded(self, where: str) -> tuple[Encoding, DType] | None:
        """Return the encoding and the data type that it is of; None for one of a float.

        Raises:
            ContainerError: If an offset is no number.
        """
        if not self.numbers:
            return None
        try:
            offsets = tuple([int(offset) for _, _, _, offset, _ in self.numbers])
        except (ValueError, OverflowError) as error:
            raise ContainerError("has an encoding with an impossible offset", where=where) from error
        dtype = BY_NAME.get(f"ufixed{self.numbers[0][4] & BITS_MASK}")
        if dtype is None:
            return None  # a float layer of a quantized model
        scales = tuple([delta for delta, *_ in self.numbers])
        if self.axis < 0:
            return ScaleOffset(scales[0], offsets[0]), dtype
        return AxisScaleOffset(self.axis, scales, offsets), dtype


def read_encodings(attributes: Mapping[str, Attribute], where: str) -> list[Held]:
    """Return the encoding of each output of a layer, or of a weight.

    Raises:
        ContainerError: If a number is missing.
    """
    found = [Held(OLD, NO_AXIS, (_numbers(item, where),)) for item in elements(attributes.get(OLD))]
    if found:
        return found
    for item in elements(attributes.get(NEW)):
        fields = children(item)
        axis = fields["axis"].integer if "axis" in fields else NO_AXIS
        numbers = tuple([_numbers(element, where) for element in elements(fields.get(ELEMENT))])
        found.append(Held(NEW, axis, numbers))
    return found


def _numbers(element: Attribute, where: str) -> tuple[float, float, float, float, int]:
    fields = children(element)
    missing = [name for name in ("delta", "offset", "precision") if name not in fields]
    if missing:
        raise ContainerError(f"has an encoding without {', '.join(map(repr, missing))}", where=where)
    delta, high, low, offset = (fields[name].real if name in fields else 0.0 for name in REALS)
    return delta, high, low, offset, fields["precision"].natural


def made(tensor: Tensor, form: str, where: str) -> Held | None:
    """Return how a file has the encoding of a tensor; None for real numbers.

    Raises:
        ContainerError: If format 3 has no form for it.
    """
    encoding, dtype = tensor.encoding, tensor.dtype
    if encoding is None:
        return None
    if (
        dtype.kind != "ufixed"
        or not isinstance(encoding, ScaleOffset | AxisScaleOffset)
        or encoding.bits is not None
    ):
        raise ContainerError(
            f"is {dtype} with {type(encoding).__name__}; format 3 holds unsigned numbers of which all bits"
            " are used, with scales for a tensor or along an axis",
            where=where,
        )
    top, precision = dtype.limits[1], PRECISION | dtype.bits

    def numbers(delta: float, offset: int) -> tuple[float, float, float, float, int]:
        return delta, _real((top + offset) * delta), _real(offset * delta), float(offset), precision

    if isinstance(encoding, ScaleOffset):
        return Held(form, NO_AXIS, (numbers(encoding.scale, encoding.offset),))
    channels = zip(encoding.scales, encoding.offsets, strict=True)
    return Held(NEW, encoding.axis, tuple([numbers(*channel) for channel in channels]))


def _real(value: float) -> float:
    return as_float32(min(max(value, -FLOAT_LIMIT), FLOAT_LIMIT))


def write_encodings(held: Sequence[Held | None]) -> Iterator[Attribute]:
    """Yield the attribute for the encodings of outputs, in order; none if none has one."""
    known = [item for item in held if item]
    if not known:
        return
    if len(known) == len(held) and all(item.form == OLD for item in known):
        yield array(OLD, [_element(item.numbers[0]) for item in known])
        return
    last = max(index for index, item in enumerate(held) if item)
    yield array(NEW, [_channels(item) for item in held[: last + 1]])


def _channels(held: Held | None) -> Attribute:
    numbers, axis = (held.numbers, held.axis) if held else ((), NO_AXIS)
    return nested(
        "", [array(ELEMENT, list(map(_element, numbers))), Attribute("axis", INTEGER, integer=axis)]
    )


def _element(numbers: tuple[float, float, float, float, int]) -> Attribute:
    reals = [Attribute(name, REAL, real=value) for name, value in zip(REALS, numbers, strict=False)]
    return nested("", [*reals, Attribute("precision", NATURAL, natural=numbers[4])])
