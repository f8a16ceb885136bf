"""Products of 8-bit activations with static weights, computed as HTP computes them.

Read off the vendor's emulation (SDK 2.51; SM8550, SM8650 and SM8750 alike), sweeping the accumulator through
its values.  With the multiplier m = input scale * weight scale / output scale and the power of two g that
brings m * g into [1/16, 1/8):

    result = floor(M * (floor(accumulator / g) + 1/2) + 1/2) - output offset,  M = m * g in steps of 2^-15

So a few low bits of the accumulator are lost, and some 2 % of the results are one step off.  Depthwise
convolutions with strides keep the whole accumulator, and 15 bits of m:

    result = floor(M * (accumulator - round(output offset / m)) + 1/2)
"""

from __future__ import annotations

from xdlc.runtime.builder import Builder
from xdlc.runtime.htp_arithmetic.products import Array, Multiply, Product, clipped, fifteen_bits

_EXACT = 1 << 24
"""Whole numbers below this are float32 numbers."""


def narrow_results(b: Builder, held: Product, value: str, multiply: Multiply, *, whole: bool = False) -> str:
    """Return the stored integers of the result of a product of 8-bit activations with static weights.

    Args:
        b: The builder.
        held: The product.
        value: Stored integers of the input as ``multiply`` takes them.
        multiply: Multiplies bytes with the weights; channels of its result are on axis 1.
        whole: Whether the whole accumulator is kept.
    """
    import numpy as np

    kind = np.float32 if held.largest < _EXACT and not whole else np.float64
    total = b.cast(multiply(value, b.constant(np.uint8(-held.offset))), kind)
    multipliers = held.multipliers
    if whole:
        rest = held.added - np.rint(held.output_offset / multipliers)
        steps = b.node("Add", [total, held.constant(b, rest, kind)])
        steps = b.node("Mul", [steps, held.constant(b, fifteen_bits(multipliers), kind)])
        placed = b.node("Floor", [b.node("Add", [steps, b.constant(kind(0.5))])])
        return clipped(b, placed, kind, np.uint8)
    unit, factor = dropped(multipliers)
    if held.added.any():
        total = b.node("Add", [total, held.constant(b, held.added, kind)])
    steps = b.node("Floor", [b.node("Mul", [total, held.constant(b, 1 / unit, kind)])])
    steps = b.node("Mul", [steps, held.constant(b, factor, kind)])
    placed = b.node("Floor", [b.node("Add", [steps, held.constant(b, factor / 2 + 0.5, kind)])])
    if held.output_offset:
        placed = b.node("Add", [placed, b.constant(kind(-held.output_offset))])
    return clipped(b, placed, kind, np.uint8)


def dropped(multipliers: Array) -> tuple[Array, Array]:
    """Return g and M of the formula, per channel."""
    import numpy as np

    unit = np.exp2(-4.0 - np.floor(np.log2(multipliers)))
    return unit, np.rint(multipliers * unit * 2.0**15) / 2.0**15
