"""Scales that old generations of HTP multiply by exactly.

A product of quantized values is brought to the steps of its result by one factor: scale of the input times
scale of the weights over scale of the result.  v68 and v69 round it to 11 significant bits (emulation of
SDK 2.51).  The zero of a 16-bit result is multiplied too, so that all its values are off by up to 16 steps.
Scales of weights that are larger by at most a thousandth make the factor one of 11 bits.  It is no power of
two: beside some of these a strided depthwise convolution returns the lowest value for half of its results.

All generations have a least factor: below 2^-24, or 2^-32 with 16-bit weights, the result is the lowest
value.  Depthwise convolutions with strides, or of a single tap, but not both, shift the sums of 32 channels
to the least factor of any of these.  A result that is 2^31 times that factor overflows, before it saturates.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from xdlc.ir import AxisScaleOffset, BlockwiseExpansion, Encoding, Op, ScaleOffset
from xdlc.ir.data import Array
from xdlc.ir.dtype import UFIXED16
from xdlc.ir.encoding import as_float32
from xdlc.quant.op_specs import numbers
from xdlc.quant.ranges import Decision, Range, representable
from xdlc.targets import Soc

_ROUNDING = (68, 69)
"""Generations that round the factor."""

_BITS = 11
_POWER = 1 << (_BITS - 1)
_EXACT = 1e-3
"""Part of a step of the last bit that counts as zero: scales are float32 numbers."""

LEAST_FACTOR = 2.0**-22
"""Least factor of a product: below 2^-24 HTP returns the lowest value."""

LEAST_BEFORE_PRELU = 2.0**-17
"""Least factor that any slopes of a fused Prelu are right after: below 2^-18 small ones are not."""

LEAST_OF_SHIFTED = 2.0**-14
"""Least factor where sums are shifted and results are below 2^16: half of what overflows."""

_TOGETHER = 32
"""Channels that share the shift of their sums."""


def rounds(soc: Soc | None) -> bool:
    """Return whether a target rounds the factor of products; None: any SoC."""
    return soc is not None and soc.arch in _ROUNDING


def shifts_sums(op: Op) -> bool:
    """Return whether HTP shifts 32-bit sums of products of an op, which can overflow."""
    weight = op.inputs[1] if op.type == "DepthWiseConv2d" else None
    if weight is None:
        return False
    is_strided, is_wide = max(numbers(op, "stride", (1, 1))) > 1, max(weight.shape[:2]) > 1
    return is_strided is is_wide


def least_factor(op: Op, source: ScaleOffset, result: ScaleOffset, bits: int = 8) -> Array:
    """Return the least factor of products that HTP computes right.

    It is one, or one for each channel.

    Args:
        source: Encoding of its first input, 16 bits.
        result: Encoding of its result, 16 bits.
        bits: Bits of the weights; more than 8 are computed as two products of 8.
    """
    if bits > 8:
        return np.full(1, LEAST_FACTOR / 256)
    if not shifts_sums(op):
        return np.full(1, LEAST_FACTOR)
    largest = _largest_results(op, representable(source, UFIXED16)) / result.scale - result.offset
    starts = np.arange(0, len(largest), _TOGETHER)
    groups = np.maximum.reduceat(largest, starts).repeat(_TOGETHER)[: len(largest)]
    return LEAST_OF_SHIFTED * np.maximum(groups / 2.0**16, 1.0)


def least_before(prelu: Op, product: ScaleOffset, result: ScaleOffset) -> Array:
    """Return the least factor of a product that a Prelu follows, for each slope.

    Negative sums have a factor of their own: that of the product in steps of the Prelu's result, times the
    slope.  Where that is below 2^-24 and the product's below 2^-18, the result is the lowest value or any
    (emulation of SDK 2.51, v73 to v79; v68 and v69 have no such fault).

    Args:
        prelu: The Prelu; of slopes that differ along several axes, the smallest of each channel counts.
        product: Encoding of the product, 16 bits.
        result: Encoding of the Prelu's result, 16 bits.
    """
    slopes = prelu.inputs[1]
    if slopes is None or slopes.data is None or not slopes.dtype.is_float:
        return np.full(1, LEAST_BEFORE_PRELU)
    sizes = np.abs(np.asarray(slopes.numpy(), np.float64)).reshape(-1, slopes.shape[-1] if slopes.rank else 1)
    slopes.data.release()
    least = np.where(sizes > 0.0, sizes, np.inf).min(axis=0)
    return np.minimum(LEAST_BEFORE_PRELU, LEAST_FACTOR * result.scale / product.scale / least)


def _largest_results(op: Op, values: Range) -> Array:
    """Return the largest results of a depthwise convolution by channel, unclipped."""
    weight, bias = op.inputs[1], op.inputs[2] if len(op.inputs) > 2 else None
    if weight is None or weight.data is None or not weight.dtype.is_float:
        return np.zeros(1)
    array = np.asarray(weight.numpy(), np.float64)
    low, high = array * values.low, array * values.high
    ends = [np.maximum(low, high).sum(axis=(0, 1, 2)), -np.minimum(low, high).sum(axis=(0, 1, 2))]
    weight.data.release()
    if bias is not None and bias.data is not None and bias.dtype.is_float:
        ends = [ends[0] + bias.numpy(), ends[1] - bias.numpy()]
    return np.maximum(*ends)


def rest_of(op: Op, decision: Decision) -> float:
    """Return the scale of an op's 16-bit first input over that of its result, or 0."""
    source, result = op.inputs[0], decision.activations.get(op.outputs[0])
    form = decision.statics.get((op, 0))
    if form is None and source is not None:
        form = decision.read(source, UFIXED16)
    if form is None or result is None:
        return 0.0
    read, written = form[1], result[1]
    if not (isinstance(read, ScaleOffset) and isinstance(written, ScaleOffset)):
        return 0.0
    return read.scale / written.scale


def exact(encoding: Encoding, rest: float) -> Encoding:
    """Return an encoding with slightly larger scales, for which factors are exact.

    Args:
        encoding: That of weights, or of the second activation of a product; one with real scales of blocks
            stays.
        rest: Scale of what it is multiplied by over that of the result.

    Example:
        >>> exact(ScaleOffset(0.3001, -7), 1.0)
        ScaleOffset(scale=0.30029296875, offset=-7, bits=None)
    """
    if isinstance(encoding, ScaleOffset):
        return replace(encoding, scale=_exact(encoding.scale, rest))
    if isinstance(encoding, AxisScaleOffset | BlockwiseExpansion):
        return replace(encoding, scales=tuple(_exact(scale, rest) for scale in encoding.scales))
    return encoding


def _exact(scale: float, rest: float) -> float:
    fraction, exponent = math.frexp(scale * rest)
    steps = math.ceil(math.ldexp(fraction, _BITS) - _EXACT)
    if steps in (_POWER, 2 * _POWER):
        steps += steps // _POWER
    return as_float32(math.ldexp(steps, exponent - _BITS) / rest) if rest > 0.0 and steps else scale
