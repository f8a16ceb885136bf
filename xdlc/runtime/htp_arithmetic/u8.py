"""Fixed-point products and sums of 8-bit activations with the roundings of HTP.

Measured on the vendor's emulation (SDK 2.51; SM8550, SM8650 and SM8750 alike), sweeping the accumulator
through its values.  With the multiplier m = input scale * weight scale / output scale and the power of two g
that brings m * g into [1/16, 1/8):

    result = floor(M * (floor(accumulator / g) + 1/2) + 1/2) - output offset,  M = m * g in steps of 2^-15

So a few low bits of the accumulator are lost, and some 2 % of the results are one step off.  Depthwise
convolutions with strides keep the whole accumulator, and 15 bits of m:

    result = floor(M * (accumulator - round(output offset / m)) + 1/2)

Sums were measured over all 65,536 pairs of quantized values and 18 sets of encodings.  With the ratios p and
q of the operands' scales to that of the result, and k = 13 - floor(log2(p + q)):

    P = round(p * 2^k), Q = round(q * 2^k), C = 256 * round((P * offset1 + Q * offset2) / 256)
    result = floor((P * x1 + Q * x2 + C) / 2^k + 1/2) - output offset
"""

from __future__ import annotations

import math

import numpy as np

from xdlc.ir import ScaleOffset, Tensor
from xdlc.ir.dtype import UFIXED8
from xdlc.runtime.builder import Builder
from xdlc.runtime.htp_arithmetic import Array, Multiply, Product, are_rounded, clipped, fifteen_bits
from xdlc.runtime.onnx_emitter import Perm

_EXACT = 1 << 24
"""Whole numbers below this are float32 numbers."""


def u8_results(b: Builder, product: Product, value: str, multiply: Multiply, *, whole: bool = False) -> str:
    """Return the quantized product of 8-bit activations with static weights.

    Args:
        value: Quantized values of the input, in the form of ``multiply``.
        multiply: Multiplies bytes with the weights; channels of its result are on axis 1.
        whole: Whether the whole accumulator is kept.
    """
    total = multiply(value, b.constant(np.uint8(-product.offset)))
    multipliers = product.multipliers
    if not whole and product.largest < _EXACT:
        return _placed(b, product, total)
    kind = np.float64
    total = b.cast(total, kind)
    if whole:
        rest = product.added - np.rint(product.output_offset / multipliers)
        steps = b.node("Add", [total, product.constant(b, rest, kind)])
        steps = b.node("Mul", [steps, product.constant(b, fifteen_bits(multipliers), kind)])
        placed = b.node("Floor", [b.node("Add", [steps, b.constant(kind(0.5))])])
        return clipped(b, placed, kind, np.uint8)
    unit, factor = dropped(multipliers)
    if product.added.any():
        total = b.node("Add", [total, product.constant(b, product.added, kind)])
    steps = b.node("Floor", [b.node("Mul", [total, product.constant(b, 1 / unit, kind)])])
    steps = b.node("Mul", [steps, product.constant(b, factor, kind)])
    placed = b.node("Floor", [b.node("Add", [steps, product.constant(b, factor / 2 + 0.5, kind)])])
    if product.output_offset:
        placed = b.node("Add", [placed, b.constant(kind(-product.output_offset))])
    return clipped(b, placed, kind, np.uint8)


def _placed(b: Builder, product: Product, total: str) -> str:
    """Return the results of sums that float32 holds exactly, by few nodes.

    M has at most 12 significant bits.  So M times half an odd number is never a tie of QuantizeLinear, and is
    exact unless the result saturates.
    """
    if product.added.any():
        total = b.node("Add", [total, product.constant(b, product.added, np.int32)])
    unit, factor = dropped(product.multipliers)
    mean, variance = np.zeros_like(unit), np.ones_like(unit)
    columns = (1 / unit, factor, factor / 2, mean, variance)
    scale, *terms = (b.constant(column, np.float32) for column in columns)
    steps = b.node("Floor", [b.node("DequantizeLinear", [total, scale], axis=1)])
    value = b.node("BatchNormalization", [steps, *terms], epsilon=0.0)
    zero = b.constant(np.uint8(-product.output_offset))
    return b.node("QuantizeLinear", [value, b.constant(np.float32(1)), zero])


def dropped(multipliers: Array) -> tuple[Array, Array]:
    """Return g and M of the formula, per channel."""
    unit = np.exp2(-4.0 - np.floor(np.log2(multipliers)))
    return unit, np.rint(multipliers * unit * 2.0**15) / 2.0**15


def is_u8_sum(b: Builder, first: Tensor, second: Tensor, target: Tensor) -> bool:
    """Return whether HTP computes a sum that way."""
    return are_rounded(b, first, second, target) and all(
        tensor.dtype is UFIXED8 for tensor in (first, second, target)
    )


def write_u8_sum(b: Builder, first: Tensor, second: Tensor, target: Tensor, order: Perm | None) -> None:
    """Write the sum of two activations.

    Args:
        order: Axis order of the operands' values; None: each in its own.
    """
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
    ratios = [_encoding(tensor).scale / _encoding(target).scale for tensor in (first, second)]
    shift = 13 - math.floor(math.log2(sum(ratios)))
    one, other = (round(ratio * 2.0**shift) for ratio in ratios)
    constant = 256 * round((one * _encoding(first).offset + other * _encoding(second).offset) / 256)
    return (one, other), constant, shift


def _encoding(tensor: Tensor) -> ScaleOffset:
    if not isinstance(tensor.encoding, ScaleOffset):
        raise ValueError(f"{tensor.name!r} has no encoding")
    return tensor.encoding
