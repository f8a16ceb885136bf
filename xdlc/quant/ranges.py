"""Ranges of float values, affine encodings, and the types of tensors.

Formulas of the SNPE and QNN documents: ``scale = (max - min) / (2^bits - 1)``,
``offset = round(min / scale)``, ``float = (quantized + offset) * scale``.  Zero is always exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from xdlc.ir import AxisScaleOffset, BlockwiseExpansion, Encoding, Op, ScaleOffset, Tensor, as_float32
from xdlc.ir import dtype as dt
from xdlc.ir.data import Array
from xdlc.ir.derived_data import in_blocks
from xdlc.ir.dtype import DType
from xdlc.ir.quantization import as_blocks, scale_and_offset

if TYPE_CHECKING:
    from xdlc.quant.encoding_groups import EncodingGroups

MIN_WIDTH = 1e-4
"""Smallest width of an activation's range, as QNN has it."""
MIN_SCALE = 2.0**-60
"""Smallest scale of static data: products of two such scales are still normal float32 numbers."""
_EXPANDED_BITS = 4
"""Bits of weights under blockwise expansion, which has no other width."""
GIVEN = "given by an override"
"""Where an encoding came from that a tensor of floats had before."""
QuantType: TypeAlias = tuple[DType, Encoding]
Use: TypeAlias = tuple[Op, int]


@dataclass(frozen=True, slots=True)
class Range:
    """Smallest and largest of some values; ``NOTHING`` for no values."""

    low: float
    high: float

    @property
    def is_empty(self) -> bool:
        """Whether no value was seen."""
        return self.low > self.high

    @property
    def is_finite(self) -> bool:
        """Whether both ends are finite numbers."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def width(self) -> float:
        """Width of the range after it is extended to zero."""
        around_zero = self.with_zero()
        return around_zero.high - around_zero.low

    def merge(self, other: Range) -> Range:
        """Return the range of both sets of values; NaN is kept.

        Example:
            >>> Range(-1.0, 2.0).merge(NOTHING).merge(Range(0.0, 3.0))
            Range(low=-1.0, high=3.0)
        """
        if math.isnan(self.low) or math.isnan(other.low):
            return NOT_A_NUMBER
        return Range(min(self.low, other.low), max(self.high, other.high))

    def with_zero(self) -> Range:
        """Return the range extended to zero."""
        return Range(min(self.low, 0.0), max(self.high, 0.0))

    def cut(self, limit: Range) -> Range:
        """Return the range clipped to ``limit``."""
        if self.is_empty:
            return self
        return Range(min(max(self.low, limit.low), limit.high), max(min(self.high, limit.high), limit.low))

    def within(self, other: Range) -> bool:
        """Return whether every value of this range is in ``other``."""
        return self.is_empty or (other.low <= self.low and self.high <= other.high)


NOTHING = Range(math.inf, -math.inf)
EVERYTHING = Range(-math.inf, math.inf)
NOT_A_NUMBER = Range(math.nan, math.nan)


def range_of(array: Array) -> Range:
    """Return the range of an array: ``NOTHING`` if it is empty, NaN if it has NaN."""
    if array.size == 0:
        return NOTHING
    low, high = float(array.min()), float(array.max())
    return NOT_A_NUMBER if math.isnan(low) else Range(low, high)


def asymmetric(values: Range, bits: int, *, min_width: float = MIN_WIDTH) -> ScaleOffset:
    """Return the unsigned encoding that covers a range, zero exact.

    The range is widened to hold zero and to be at least ``min_width`` wide, then shifted by up to half a
    step so that zero is on a step: data of the range are off by at most half a step.

    Args:
        values: Finite range; an empty one counts as [0, 0].
        bits: Bits of a quantized value.
        min_width: Smallest width; narrower ranges grow at the end farther from zero.

    Example:
        >>> asymmetric(Range(-5.1, 5.1), 8)
        ScaleOffset(scale=0.03999999910593033, offset=-128, bits=None)
    """
    stored = Range(0.0, 0.0) if values.is_empty else values.with_zero()
    if stored.high - stored.low < min_width:
        stored = (
            Range(stored.low, stored.low + min_width)
            if stored.high >= -stored.low
            else Range(stored.high - min_width, stored.high)
        )
    steps = (1 << bits) - 1
    scale = as_float32(max((stored.high - stored.low) / steps, MIN_SCALE))
    return ScaleOffset(scale, max(-steps, min(0, round(stored.low / scale))))


def centred(values: Range, bits: int, *, min_width: float = MIN_WIDTH) -> ScaleOffset:
    """Return the unsigned encoding with its zero in the middle.

    Its offset is ``-2^(bits - 1)``.

    The upper end is half a step short, so that data of the range are off by at most that.

    Args:
        values: Finite range; an empty one counts as [0, 0].
        bits: Bits of a quantized value.
    """
    width = 0.0 if values.is_empty else 2.0 * max(-values.low, values.high)
    scale = max(max(width, min_width) / ((1 << bits) - 1), MIN_SCALE)
    return ScaleOffset(as_float32(scale), -(1 << (bits - 1)))


def second_factor(values: Range) -> ScaleOffset:
    """Return the 16-bit encoding of the second factor of a product of activations.

    The zero is in the middle, and no more than ``LARGEST_OF_BYTES`` steps above it are used.

    Args:
        values: Finite range; an empty one counts as [0, 0].
    """
    return centred(Range(min(values.low, 0.0), max(values.high, 0.0) * 0x7FFF / dt.LARGEST_OF_BYTES), 16)


def symmetric(values: Range, bits: int, *, min_width: float = MIN_WIDTH) -> ScaleOffset:
    """Return the signed encoding with offset 0 that covers a range.

    Args:
        values: Finite range; an empty one counts as [0, 0].
        bits: Bits of a quantized value.
        min_width: Smallest width of what it covers.
    """
    largest = 0.0 if values.is_empty else max(-values.low, values.high)
    return ScaleOffset(symmetric_scale(max(largest, min_width / 2), bits))


def in_type(encoding: ScaleOffset, held: DType, dtype: DType) -> ScaleOffset:
    """Return an encoding in another type that covers the same values.

    With as many bits the values are equal.
    """
    if held.bits == dtype.bits:
        # The middle of unsigned integers is the zero of signed ones.
        shift = (dtype.is_signed - held.is_signed) << (dtype.bits - 1)
        return replace(encoding, offset=encoding.offset + shift)
    values = representable(encoding, held)
    return (symmetric if dtype.is_signed else asymmetric)(values, dtype.bits)


def symmetric_scale(largest: float, bits: int) -> float:
    """Return the scale of a signed encoding for magnitudes up to ``largest``."""
    return as_float32(max(largest / ((1 << (bits - 1)) - 1), MIN_SCALE))


def unit_encoding(low: int, bits: int, top: float = 1.0) -> ScaleOffset:
    """Return the encoding of an op with results in [0, 1] or [-1, 1].

    ``low`` is 0 or -1.

    A whole power of two as HTP has it; the upper end is one step short of ``top``.

    Args:
        bits: Bits of a quantized value.
        top: Largest result, a power of two; other than 1 only beside a ``low`` of 0.
    """
    span = 1 - low
    return ScaleOffset(top * span / (1 << bits), low * ((1 << bits) // span))


def softmax_top(largest: float, bits: int) -> float:
    """Return the upper end of a Softmax's range: 1, or a smaller power of two.

    Over a thousand classes all of them may be less than a step of 1/256.  Where the largest result takes
    less than a sixteenth of the range, the range ends at the next power of two above it.  HTP's
    emulation (SDK 2.51) is within a step for scales that are powers of two down to 2^-16, and off by
    a factor for others.

    Args:
        bits: Bits of a quantized value.
    """
    if bits != 8 or not 0.0 < largest < 1 / 16:
        return 1.0
    return max(2.0 ** math.ceil(math.log2(largest)), 2.0**-8)


def quantized_limits(dtype: DType, bits: int | None = None) -> tuple[int, int]:
    """Return the smallest and the largest quantized value of some bits of a type."""
    if bits is None or bits == dtype.bits:
        return dtype.limits
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype.is_signed else (0, (1 << bits) - 1)


def representable(encoding: ScaleOffset, dtype: DType) -> Range:
    """Return the lowest and highest float value of an encoding."""
    low, high = quantized_limits(dtype, encoding.bits)
    return Range((low + encoding.offset) * encoding.scale, (high + encoding.offset) * encoding.scale)


def _spread(values: Sequence[float], encoding: ScaleOffset | AxisScaleOffset, rank: int, kind: str) -> Array:
    array = np.asarray(values, dtype=kind)
    if isinstance(encoding, AxisScaleOffset):
        return array.reshape([-1 if axis == encoding.axis else 1 for axis in range(rank)])
    return array


def used_bits(encoding: Encoding) -> int | None:
    """Return how many bits of the storage type an encoding uses; None: all of them."""
    if isinstance(encoding, BlockwiseExpansion):
        return _EXPANDED_BITS
    return getattr(encoding, "bits", None)


def to_quantized(array: Array, encoding: Encoding, dtype: DType) -> Array:
    """Return the quantized values of floats: nearest, ties to even, clipped.

    Args:
        encoding: Per tensor, per axis or per block.
        dtype: Fixed-point type; integers of four bits take a byte each.

    Raises:
        ModelError: If the encoding does not fit the array's shape.
    """
    # Steps beyond 2^24 are not all float32 numbers.
    kind = "float32" if dtype.bits <= 16 else "float64"
    blocks = as_blocks(encoding, array.shape, where="static data")
    if blocks is not None:
        parts, scale, offset = in_blocks(blocks, array.shape)
        steps, single = np.divide(array.reshape(parts), scale, dtype=kind, order="C"), False
    elif isinstance(encoding, ScaleOffset | AxisScaleOffset):
        single = isinstance(encoding, ScaleOffset)
        scales = [encoding.scale] if isinstance(encoding, ScaleOffset) else encoding.scales
        offsets = [encoding.offset] if isinstance(encoding, ScaleOffset) else encoding.offsets
        scale, offset = (_spread(values, encoding, array.ndim, kind) for values in (scales, offsets))
        steps = np.divide(array, scale[0] if single else scale, dtype=kind, order="C")
    else:
        scale, offset = scale_and_offset(encoding, array.shape, where="static data")
        steps, single = np.divide(array, scale, dtype=kind, order="C"), False
    steps = np.atleast_1d(steps)
    np.rint(steps, out=steps)
    if offset.any():
        steps -= (offset[0] if single else offset).astype(kind)
    low, high = quantized_limits(dtype, used_bits(encoding))
    np.clip(steps, low, high, out=steps)
    element = {"sfixed": np.int8, "ufixed": np.uint8}[dtype.kind] if dtype.bits == 4 else dtype.numpy
    return steps.astype(element).reshape(array.shape)


def stored_form(dtype: DType, encoding: Encoding) -> tuple[DType, Encoding]:
    """Return a form whose encoding names bits only if its type has more.

    Existing encodings are marked with their bits while the tensor is still of floats.
    """
    if isinstance(encoding, ScaleOffset | AxisScaleOffset) and encoding.bits == dtype.bits:
        return dtype, replace(encoding, bits=None)
    return dtype, encoding


def given_form(form: tuple[DType, Encoding], dtype: DType, *, is_own: bool) -> tuple[DType, Encoding]:
    """Return a form of the model in the type of its tensor, or in that of its readers."""
    held, given = form
    stays = is_own and (held.is_signed or not dtype.is_signed)
    if stays or held is dtype or not isinstance(given, ScaleOffset):
        return form
    return stored_form(dtype, in_type(given, held, dtype))


def activation_type(bits: int) -> DType:
    """Return the unsigned fixed-point type of activations: 8 or 16 bits."""
    return {8: dt.UFIXED8, 16: dt.UFIXED16}[bits]


def weight_type(bits: int) -> DType:
    """Return the signed fixed-point type of weights; 2 and 4 bits are stored in 8."""
    return {2: dt.SFIXED8, 4: dt.SFIXED8, 8: dt.SFIXED8, 16: dt.SFIXED16}[bits]


@dataclass(slots=True)
class Decision:
    """The stored form of each tensor.

    Attributes:
        activations: By tensor; those that float ops write and quantized ones read are among them.
        converted: By tensor and type: what ops that read another type do in its place.
        statics: By use, for one static tensor may be a weight here and a factor there.
        params: By op and name: parameters of UDOs that are tensors of float values.
        useful: Range that affects results, of the activations that reach them through a Softmax alone.
        sources: Where the encoding of each activation came from, in a few words for people.
        halves: Encodings of the results of both bytes, of ops whose 16-bit weights are two of 8 bits.
        groups: Which tensors share an encoding; None: a copy of the graph was decided.
        notes: Where a form is not the requested one, and why; one line each, for people.
    """

    activations: dict[Tensor, QuantType] = field(default_factory=dict)
    converted: dict[tuple[Tensor, DType], QuantType] = field(default_factory=dict)
    statics: dict[Use, QuantType] = field(default_factory=dict)
    params: dict[tuple[Op, str], QuantType] = field(default_factory=dict)
    useful: dict[Tensor, Range] = field(default_factory=dict)
    sources: dict[Tensor, str] = field(default_factory=dict)
    halves: dict[Op, tuple[ScaleOffset, ScaleOffset]] = field(default_factory=dict)
    groups: EncodingGroups | None = None
    notes: list[str] = field(default_factory=list)

    def read(self, tensor: Tensor, dtype: DType) -> QuantType | None:
        """Return the form in which ops of a type read an activation, or None."""
        return self.converted.get((tensor, dtype), self.activations.get(tensor))

    def moved(self, ops: Mapping[Op, Op], tensors: Mapping[str, Tensor], *, statics: bool = True) -> Decision:
        """Return the same decision for a copy of the graph.

        Args:
            tensors: The tensors of the copy by name.
            statics: Whether static data are among it.
        """
        return Decision(
            {tensors[tensor.name]: form for tensor, form in self.activations.items()},
            {(tensors[tensor.name], dtype): form for (tensor, dtype), form in self.converted.items()},
            {(ops[op], index): form for (op, index), form in self.statics.items() if statics},
            {(ops[op], name): form for (op, name), form in self.params.items() if statics},
            halves={ops[op]: pair for op, pair in self.halves.items() if statics},
        )
