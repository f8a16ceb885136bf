"""The sum of two 8-bit activations as HTP computes it.

Read off the vendor's emulation (SDK 2.51, SM8650), over all 65,536 pairs of stored integers and 18 sets of
encodings.  With the ratios p and q of the operands' scales to that of the result, and k = 13 -
floor(log2(p + q)):

    P = round(p * 2^k), Q = round(q * 2^k), C = 256 * round((P * offset1 + Q * offset2) / 256)
    result = floor((P * x1 + Q * x2 + C) / 2^k + 1/2) - output offset
"""

from __future__ import annotations

from xdlc.ir import ScaleOffset, Tensor
from xdlc.ir.dtype import UFIXED8
from xdlc.runtime.builder import Builder, Perm
from xdlc.runtime.products import are_rounded, clipped


def is_narrow_sum(b: Builder, first: Tensor, second: Tensor, target: Tensor) -> bool:
    """Return whether HTP computes a sum that way."""
    return are_rounded(b, first, second, target) and all(
        tensor.dtype is UFIXED8 for tensor in (first, second, target)
    )


def write_sum(b: Builder, first: Tensor, second: Tensor, target: Tensor, order: Perm | None) -> None:
    """Write the sum of two activations.

    Args:
        b: The builder.
        first: An operand.
        second: The other one.
        target: The sum.
        order: Axis order of the operands' values; None: each in its own.
    """
    import math

    import numpy as np

    entries = [tensor.encoding for tensor in (first, second)]
    result = target.encoding
    one, other = entries
    if not (
        isinstance(one, ScaleOffset) and isinstance(other, ScaleOffset) and isinstance(result, ScaleOffset)
    ):
        raise ValueError(f"{target.name!r} has no encoding")
    ratios = one.scale / result.scale, other.scale / result.scale
    unit = 2.0 ** (13 - math.floor(math.log2(sum(ratios))))
    factors = [round(ratio * unit) for ratio in ratios]
    constant = 256 * round((factors[0] * one.offset + factors[1] * other.offset) / 256)
    # Less than 24 bits each: all of this is exact in float32.
    parts = []
    for tensor, factor in zip((first, second), factors, strict=True):
        stored = b.read_stored_as(tensor, order or tuple(range(tensor.rank)))
        parts.append(b.node("Mul", [b.cast(stored, np.float32), b.constant(np.float32(factor / unit))]))
    total = b.node("Add", [b.node("Add", parts), b.constant(np.float32(constant / unit + 0.5))])
    placed = b.node("Add", [b.node("Floor", [total]), b.constant(np.float32(-result.offset))])
    b.write_stored(target, clipped(b, placed, np.float32, np.uint8), order or tuple(range(target.rank)))
