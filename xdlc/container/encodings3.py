"""Encodings of format 3: ``FxpData`` up to SNPE 1.50 or so, ``DataEncoding`` later, per channel too.

Both hold delta, offset and bits; float value = (quantized value + offset) * delta.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdlc.container.attributes3 import children, elements
from xdlc.errors import ContainerError
from xdlc.ir import AxisScaleOffset, DType, Encoding, ScaleOffset
from xdlc.ir.dtype import BY_NAME
from xdlc.schema._generated.dlc3_model import Attribute

OLD, NEW = "FxpData", "DataEncoding"
FORMS = (OLD, NEW)
ELEMENT = "DataEncodingElement"
NO_AXIS = -1
BITS_MASK = 0xFF  # the other bits are 0x200 in every file known


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
            ContainerError: If an offset is no number.
        """
        if not self.numbers:
            return None
        try:
            offsets = tuple([int(offset) for _, offset, _ in self.numbers])
        except (ValueError, OverflowError) as error:
            raise ContainerError("has an encoding with an impossible offset", where=where) from error
        dtype = BY_NAME.get(f"ufixed{self.numbers[0][2] & BITS_MASK}")
        if dtype is None:
            return None  # a float layer of a quantized model
        scales = tuple([delta for delta, *_ in self.numbers])
        if self.axis < 0:
            return ScaleOffset(scales[0], offsets[0]), dtype
        return AxisScaleOffset(self.axis, scales, offsets), dtype


def read_encodings(attributes: Mapping[str, Attribute], where: str) -> list[StoredEncoding]:
    """Return the encoding of each output of a layer, or of a weight.

    Raises:
        ContainerError: If a number is missing.
    """
    found = [StoredEncoding(NO_AXIS, (_numbers(item, where),)) for item in elements(attributes.get(OLD))]
    if found:
        return found
    for item in elements(attributes.get(NEW)):
        fields = children(item)
        axis = fields["axis"].integer if "axis" in fields else NO_AXIS
        numbers = tuple([_numbers(element, where) for element in elements(fields.get(ELEMENT))])
        found.append(StoredEncoding(axis, numbers))
    return found


def _numbers(element: Attribute, where: str) -> tuple[float, float, int]:
    fields = children(element)
    missing = [name for name in ("delta", "offset", "precision") if name not in fields]
    if missing:
        raise ContainerError(f"has an encoding without {', '.join(map(repr, missing))}", where=where)
    return fields["delta"].real, fields["offset"].real, fields["precision"].natural
