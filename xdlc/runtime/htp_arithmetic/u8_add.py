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
from xdlc.runtime.htp_arithmetic.products import are_rounded, clipped


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
    import numpy as np

    factors, constant, shift = sum_factors(first, second, target)
    unit, offset = 2.0**shift, _encoding(target).offset
    # Less than 24 bits each: all of this is exact in float32.
    parts = []
    for tensor, factor in zip((first, second), factors, strict=True):
        stored = b.read_stored_as(tensor, order or tuple(range(tensor.rank)))
        parts.append(b.node("Mul", [b.cast(stored, np.float32), b.constant(np.float32(factor / unit))]))
    total = b.node("Add", [b.node("Add", parts), b.constant(np.float32(constant / unit + 0.5))])
    placed = b.node("Add", [b.node("Floor", [total]), b.constant(np.float32(-offset))])
    b.write_stored(target, clipped(b, placed, np.float32, np.uint8), order or tuple(range(target.rank)))


def sum_factors(first: Tensor, second: Tensor, target: Tensor) -> tuple[tuple[int, int], int, int]:
    """Return P and Q, C, and k of the formula."""
    import math

    ratios = [_encoding(tensor).scale / _encoding(target).scale for tensor in (first, second)]
    shift = 13 - math.floor(math.log2(sum(ratios)))
    one, other = (round(ratio * 2.0**shift) for ratio in ratios)
    constant = 256 * round((one * _encoding(first).offset + other * _encoding(second).offset) / 256)
    return (one, other), constant, shift


def _encoding(tensor: Tensor) -> ScaleOffset:
    if not isinstance(tensor.encoding, ScaleOffset):
        raise ValueError(f"{tensor.name!r} has no encoding")
    return tensor.encoding
