"""Products of 16-bit activations, computed as HTP computes them.

Read off the vendor's emulation (SDK 2.51; SM8550, SM8650 and SM8750 alike), with the stored integers x of
the input, w of 8-bit weights, b of the bias (in steps of input scale times weight scale) and the multiplier
m = input scale * weight scale / output scale:

    accumulator = floor(sum(w * x) / 256) + round(offset * sum(w) / 256) + trunc(b / 256)
    result      = round(256 * m * accumulator) - output offset, clipped

So eight bits of the accumulator are lost, which is steps of the output where weights are few or small.  Here
x = 256 * high + low, and ``floor(sum(w * x) / 256) = sum(w * high) + floor(sum(w * low) / 256)``: two
integer products of bytes give the same numbers to the bit.

Depthwise convolutions with strides, or of a single tap, but not both, keep the whole accumulator and 15 bits
of m:

    result = round(M * (sum(w * (x + offset)) + b - round(output offset / m)))

The product of two 16-bit activations loses 16 bits; the second is read as w = stored + 32768, of which no
more than 0x7F7F:

    result = round(65536 * m * (floor(sum(w * x) / 65536) + round(offset * sum(w) / 65536))) - output offset

Halves are rounded down in the terms with an offset.
"""

from __future__ import annotations

from xdlc.runtime.builder import Builder
from xdlc.runtime.htp_arithmetic.products import Array, Multiply, Product, clipped, fifteen_bits

_LIFT = 1 << 22
"""Added to a quotient so that dividing rounds down; times 256 it is 2^30."""


def wide_results(b: Builder, held: Product, value: str, multiply: Multiply, *, whole: bool = False) -> str:
    """Return the stored integers of the result of a product of 16-bit activations with static weights.

    Args:
        b: The builder.
        held: The product.
        value: Stored integers of the input as ``multiply`` takes them.
        multiply: Multiplies bytes with the weights; channels of its result are on axis 1.
        whole: Whether the whole accumulator is kept.
    """
    import numpy as np

    zero = -held.offset
    high, low = bytes_of(b, b.cast(value, np.int32))
    high = multiply(high, b.constant(np.uint8(zero >> 8)))
    low = multiply(low, b.constant(np.uint8(zero & 255)))
    if whole:
        # The products have the input's offset taken off already.
        upper = b.node("Mul", [b.cast(high, np.float64), b.constant(np.float64(256))])
        total = b.node("Add", [upper, b.cast(low, np.float64)])
        rest = held.added - np.rint(held.output_offset / held.multipliers)
        factor = fifteen_bits(held.multipliers)
    else:
        lifted = held.constant(b, (zero & 255) * held.sums + 256 * _LIFT, np.int32)
        # The lift makes division round down.
        quotient = b.node("Div", [b.node("Add", [low, lifted]), b.constant(256, np.int32)])
        total = b.cast(b.node("Add", [high, quotient]), np.float64)
        rest = (zero >> 8) * held.sums - _LIFT + half_down(held.offset * held.sums / 256)
        rest = rest + np.trunc(held.added / 256)
        factor = 256.0 * held.multipliers
    total = b.node("Add", [total, held.constant(b, rest, np.float64)])
    steps = b.node("Mul", [total, held.constant(b, factor, np.float64)])
    if whole:
        placed = b.node("Floor", [b.node("Add", [steps, b.constant(np.float64(0.5))])])
    else:
        placed = b.node("Add", [b.node("Round", [steps]), b.constant(np.float64(-held.output_offset))])
    return clipped(b, placed, np.float64, np.uint16)


def bytes_of(b: Builder, value: str) -> tuple[str, str]:
    """Return the high and the low bytes of int32 values below 2^16, as uint8."""
    import numpy as np

    base = b.constant(256, np.int32)
    high = b.node("Div", [value, base])
    low = b.node("Sub", [value, b.node("Mul", [high, base])])
    return b.cast(high, np.uint8), b.cast(low, np.uint8)


def half_down(values: Array) -> Array:
    """Return whole numbers next to real ones, the lower of two that are as near."""
    import numpy as np

    return np.ceil(np.asarray(values, np.float64) - 0.5)
