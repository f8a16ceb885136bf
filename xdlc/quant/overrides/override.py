"""One encoding from outside, in the form that all file formats are brought into."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from xdlc.errors import UsageError
from xdlc.ir import as_float32
from xdlc.quant.ranges import Range


class Grain(Enum):
    """Unit that shares a scale: a tensor, a channel or a block."""

    TENSOR = "tensor"
    CHANNEL = "channel"
    BLOCK = "block"
    EXPANSION = "block by integer scales"


@dataclass(frozen=True, slots=True)
class Override:
    """The encoding that a file has for a tensor of the source model.

    Offsets count quantized values from 0 whatever their type: ``real = (stored + offset) * scale`` with
    ``stored`` from 0 to ``2^bits - 1``.  So a symmetric encoding has the offset ``-2^(bits - 1)``, and
    zero is exact where the offset is in ``[1 - 2^bits, 0]``.

    Attributes:
        name: Name of the tensor in the source model.
        kind: ``activation`` or ``param``; None where the format does not state it.
        bits: Bits of a quantized value or float.
        is_float: The tensor is kept as floats; there are no scales then.
        grain: What shares a scale.
        scales: One; one per channel; or one per block, the blocks of a channel after one another.  An
            expansion has one per channel.
        offsets: One per scale.
        symmetric: Stored as signed integers with offset 0.
        axis: Axis of the channels in the source's tensor, negative from the end; None: that of the outputs.
        block_axis: The same of the blocks; None: that of the inputs.
        block_size: Elements along the block axis that share a scale.
        block_scales: Integers that scale blocks of an expansion, in the order of ``scales`` of blocks.
    """

    name: str
    kind: str | None
    bits: int
    is_float: bool = False
    grain: Grain = Grain.TENSOR
    scales: tuple[float, ...] = ()
    offsets: tuple[int, ...] = ()
    symmetric: bool = False
    axis: int | None = None
    block_axis: int | None = None
    block_size: int | None = None
    block_scales: tuple[int, ...] = ()
    block_scale_bits: int = 0
    where: str = field(default="", compare=False)

    @classmethod
    def of(cls, bits: int, steps: Sequence[Step], **more: Any) -> Override:
        """Return an override without a name.

        It is symmetric if all its scales are.
        """
        return cls(
            "",
            None,
            bits,
            scales=tuple(step.scale for step in steps),
            offsets=tuple(step.offset for step in steps),
            symmetric=all(step.symmetric for step in steps),
            **more,
        )

    @classmethod
    def of_scales(
        cls, stated: Stated, scales: Sequence[float], offsets: Sequence[int], where: str, **more: Any
    ) -> Override:
        """Return an override without a name from many scales and offsets of a file.

        Raises:
            UsageError: If a scale is not a positive float32 number, or zero is not exact with an offset.
        """
        steps = {
            offset: normalised(replace(stated, scale=scales[0], offset=offset), where)
            for offset in dict.fromkeys(offsets)
        }
        for scale in scales:
            if not SMALLEST <= scale <= LARGEST:
                _checked(scale, where)
        return cls(
            "",
            None,
            stated.bits,
            scales=_as_float32(scales),
            offsets=tuple([steps[offset].offset for offset in offsets]),
            symmetric=all(step.symmetric for step in steps.values()),
            **more,
        )

    def times(self, factors: Sequence[float]) -> Override | None:
        """Return the encoding of the values times a factor per output channel.

        Quantized values stay as they are, or are mirrored by a negative factor.  An encoding with an offset
        has one scale: it follows one factor, but none per channel, and the result is None.

        Args:
            factors: One per channel, or equal ones.  Channels of zeros keep their scale.
        """
        sizes = [abs(factor) or 1.0 for factor in factors]
        if not sizes:
            return None
        if max(sizes) <= min(sizes) * (1 + _EQUAL) and len({factor < 0 for factor in factors}) == 1:
            sizes = sizes[:1]
        elif not self.symmetric:
            return None
        offsets = self.offsets
        if factors[0] < 0 and not self.symmetric:
            offsets = tuple(1 - (1 << self.bits) - offset for offset in offsets)
        if self.grain is Grain.TENSOR and len(sizes) > 1:
            scales = [self.scales[0] * size for size in sizes]
            return replace(
                self,
                grain=Grain.CHANNEL,
                scales=_normal(scales),
                offsets=self.offsets * len(sizes),
                axis=None,
            )
        each = len(self.scales) / len(sizes)
        if each % 1:  # as many as no layer has: refused where the weight is known
            return self
        scales = [scale * sizes[int(place // each)] for place, scale in enumerate(self.scales)]
        return replace(self, scales=_normal(scales), offsets=offsets)

    def error(self, problem: str, fix: str) -> UsageError:
        return UsageError(problem, where=self.where, fix=fix)


SMALLEST, LARGEST = 2.0**-126, 2.0**127
"""Scales beyond these are no normal float32 numbers."""
_EQUAL = 1e-6
"""Factors that differ by less are one that was rounded."""


def _normal(scales: Sequence[float]) -> tuple[float, ...]:
    return _as_float32([min(max(scale, SMALLEST), LARGEST) for scale in scales])


def _as_float32(scales: Sequence[float]) -> tuple[float, ...]:
    return struct.unpack(f"<{len(scales)}f", struct.pack(f"<{len(scales)}f", *scales))


@dataclass(frozen=True, slots=True)
class Stated:
    """A scale as stated in a file.

    Attributes:
        bits: Bits of a quantized value.
        low: Smallest real, or None.
        high: Largest real, or None.
        scale: Step, or None.
        offset: Offset in one of the conventions, or None.
        symmetric: Whether the file calls it symmetric; None: not stated.
        zero_is_signed: Whether a symmetric offset 0 without a range is that of signed integers.
    """

    bits: int
    low: float | None = None
    high: float | None = None
    scale: float | None = None
    offset: int | None = None
    symmetric: bool | None = None
    zero_is_signed: bool = True


@dataclass(frozen=True, slots=True)
class Step:
    """A scale in the one convention of ``Override``.

    Attributes:
        scale: Step, rounded to float32.
        offset: Offset counted from 0, in ``[1 - 2^bits, 0]``.
        symmetric: Whether it is stored signed with offset 0.
    """

    scale: float
    offset: int
    symmetric: bool


def normalised(stated: Stated, where: str) -> Step:
    """Return a scale of a file in the one convention.

    Raises:
        UsageError: If it states too little, contradicts itself, or has no exact zero.

    Example:
        >>> normalised(Stated(8, scale=0.5, offset=127, symmetric=True), "f.json: 'w'")
        Step(scale=0.5, offset=-128, symmetric=True)
        >>> normalised(Stated(8, low=-1.28, high=1.27), "f.json: 'x'").offset
        -128
    """
    low, high = stated.low, stated.high
    if (low is None) != (high is None):
        raise UsageError("has only one of min and max", where=where, fix="write min and max, or neither")
    if low is not None and high is not None and not low <= high:
        raise UsageError(f"min is {low:g}, above max {high:g}", where=where, fix="swap min and max")
    if stated.scale is None:
        if low is None or high is None:
            raise UsageError(
                "has neither a scale nor a range", where=where, fix="add scale and offset, or min and max"
            )
        return _of_range(stated, Range(low, high), where)
    return _of_scale(stated, _checked(stated.scale, where), where)


def _checked(scale: float, where: str) -> float:
    if not SMALLEST <= scale <= LARGEST:
        raise UsageError(
            f"scale must be a positive float32 number, found {scale:g}",
            where=where,
            fix="correct the scale, or omit the entry: xdlc then calibrates the tensor",
        )
    return as_float32(scale)


def _of_range(stated: Stated, values: Range, where: str) -> Step:
    half = 1 << (stated.bits - 1)
    if not values.with_zero().width or not math.isfinite(values.width):
        raise UsageError(
            f"min {values.low:g} and max {values.high:g} span an empty or infinite range",
            where=where,
            fix="widen the range, or omit the entry: xdlc then calibrates the tensor",
        )
    if not stated.symmetric or values.low >= 0.0:
        steps = (1 << stated.bits) - 1
        scale = _checked(values.width / steps, where)
        offset = max(-steps, round(values.with_zero().low / scale))
        return Step(scale, offset, stated.symmetric is None and offset == -half)
    scale = values.high / (half - 1)
    # From -2^(n-1) or from the step above: both are symmetric.
    if not -half * scale * 1.00001 - scale / 2 <= values.low <= -(half - 1) * scale * 0.99999 + scale / 2:
        raise UsageError(
            f"the entry is symmetric, but min {values.low:g} and max {values.high:g} are not",
            where=where,
            fix="set is_symmetric to False, or make the range symmetric",
        )
    return Step(_checked(scale, where), -half, True)


def _of_scale(stated: Stated, scale: float, where: str) -> Step:
    half = 1 << (stated.bits - 1)
    if stated.offset is None:
        if stated.low is not None and not stated.symmetric:
            return _fitting(stated, scale, [round(stated.low / scale)], where)
        if stated.symmetric:
            return _fitting(stated, scale, [-half], where)
        raise UsageError("has a scale but no offset", where=where, fix="add the offset")
    return _fitting(stated, scale, list(_readings(stated, half)), where)


def _readings(stated: Stated, half: int) -> Iterator[int]:
    """Iterate over the possible meanings of an offset, counted from 0.

    The most usual convention is the first.
    """
    offset = stated.offset or 0
    if stated.symmetric:
        if abs(offset) in (half, half - 1):
            yield -half
        elif not offset:
            yield from (-half, 0) if stated.zero_is_signed else (0, -half)
        return
    yield offset
    yield offset - half
    yield -offset


def _fitting(stated: Stated, scale: float, readings: list[int], where: str) -> Step:
    low, high, bits = stated.low, stated.high, stated.bits
    half, steps = 1 << (bits - 1), (1 << bits) - 1
    if not readings:
        raise UsageError(
            f"is symmetric, but its offset is {stated.offset}",
            where=where,
            fix=f"write the offset as {-half}, or as 0 for signed integers, or set is_symmetric to False",
        )
    for offset in readings:
        if low is not None and high is not None:
            # Ranges may be those of the data, up to a step from the ends of the encoding.
            room = 1.01 * scale + 1e-5 * max(-low, high)
            if abs(offset * scale - low) > room or abs((offset + steps) * scale - high) > room:
                continue
        if -steps <= offset <= 0:
            return Step(scale, offset, stated.symmetric is not False and offset == -half)
        if low is None:
            break
    if low is not None and high is not None:
        raise UsageError(
            f"min {low:g} and max {high:g} contradict {bits} bits, "
            f"scale {scale:g} and offset {stated.offset}",
            where=where,
            fix="omit min and max, or scale and offset",
        )
    raise UsageError(
        f"offset is {stated.offset}; only {-steps} to 0 can represent zero",
        where=where,
        fix="write the offset as QNN does, real = (stored + offset) * scale; negate a zero point",
    )
