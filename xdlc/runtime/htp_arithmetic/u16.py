"""Fixed-point products of 16-bit activations with the roundings of HTP.

Measured on the vendor's emulation (SDK 2.51; SM8550, SM8650 and SM8750 alike), with the quantized values x of
the input, w of 8-bit weights, b of the bias (in steps of input scale times weight scale) and the multiplier
m = input scale * weight scale / output scale:

    accumulator = floor(sum(w * x) / 256) + round(offset * sum(w) / 256) + trunc(b / 256)
    result      = round(256 * m * accumulator) - output offset, clipped

So eight bits of the accumulator are lost, which is steps of the output where weights are few or small.  Here
x = 256 * high + low, and ``floor(sum(w * x) / 256) = sum(w * high) + floor(sum(w * low) / 256)``: two
integer products of bytes compute the same numbers to the bit.

Depthwise convolutions with strides, or of a single tap, but not both, keep the whole accumulator and 15 bits
of m:

    result = round(M * (sum(w * (x + offset)) + b - round(output offset / m)))

The product of two 16-bit activations loses 16 bits; the second is read as w = stored + 32768, of which no
more than 0x7F7F:

    result = round(65536 * m * (floor(sum(w * x) / 65536) + round(offset * sum(w) / 65536))) - output offset

Weights of 16 bits lose as many; depthwise convolutions that keep all are computed in floats:

    accumulator = floor(sum(w * x) / 65536) + round(offset * sum(w) / 65536) + round(b / 65536)
    result      = round(65536 * m * accumulator) - output offset

Halves are rounded down in the terms with an offset.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xdlc.ir import ScaleOffset, Tensor
from xdlc.ir.dtype import LARGEST_OF_BYTES
from xdlc.runtime.builder import Builder
from xdlc.runtime.htp_arithmetic import Array, Multiply, Product, clipped, fifteen_bits

_LIFT = 1 << 22
"""Added to a quotient so that dividing rounds down; times 256 it is 2^30."""


def u16_results(b: Builder, product: Product, value: str, multiply: Multiply, *, whole: bool = False) -> str:
    """Return the quantized product of 16-bit activations with static weights.

    Args:
        value: Quantized values of the input, in the form of ``multiply``.
        multiply: Multiplies bytes with the weights; channels of its result are on axis 1.
        whole: Whether the whole accumulator is kept.
    """
    if product.is_wide:
        return _wide_results(b, product, value, multiply)
    zero = -product.offset
    high, low = bytes_of(b, b.cast(value, np.int32))
    high = multiply(high, b.constant(np.uint8(zero >> 8)))
    low = multiply(low, b.constant(np.uint8(zero & 255)))
    if whole:
        # The products have the input's offset taken off already.
        upper = b.node("Mul", [b.cast(high, np.float64), b.constant(np.float64(256))])
        total = b.node("Add", [upper, b.cast(low, np.float64)])
        rest = product.added - np.rint(product.output_offset / product.multipliers)
        factor = fifteen_bits(product.multipliers)
    else:
        lifted = product.constant(b, (zero & 255) * product.sums + 256 * _LIFT, np.int32)
        # The lift makes division round down.
        quotient = b.node("Div", [b.node("Add", [low, lifted]), b.constant(256, np.int32)])
        total = b.cast(b.node("Add", [high, quotient]), np.float64)
        rest = (zero >> 8) * product.sums - _LIFT + half_down(product.offset * product.sums / 256)
        rest = rest + np.trunc(product.added / 256)
        factor = 256.0 * product.multipliers
    total = b.node("Add", [total, product.constant(b, rest, np.float64)])
    steps = b.node("Mul", [total, product.constant(b, factor, np.float64)])
    if whole:
        placed = b.node("Floor", [b.node("Add", [steps, b.constant(np.float64(0.5))])])
    else:
        placed = b.node("Add", [b.node("Round", [steps]), b.constant(np.float64(-product.output_offset))])
    return clipped(b, placed, np.float64, np.uint16)


def _wide_results(b: Builder, operands: Product, value: str, multiply: Multiply) -> str:
    """Return the quantized product with 16-bit weights, exact in float64."""
    zero = -operands.offset
    zeros = b.constant(np.uint8(zero >> 8)), b.constant(np.uint8(zero & 255))
    total = operands.constant(b, zero * operands.sums / 65536, np.float64)
    for place, byte in enumerate(bytes_of(b, b.cast(value, np.int32))):
        for part in (0, 1):
            product = b.cast(multiply(byte, zeros[place], part), np.float64)
            total = b.node("Add", [total, _times(b, product, 256.0 ** -(place + part))])
    rest = half_down(operands.offset * operands.sums / 65536) + np.rint(operands.added / 65536)
    total = b.node("Add", [b.node("Floor", [total]), operands.constant(b, rest, np.float64)])
    steps = b.node("Mul", [total, operands.constant(b, 65536.0 * operands.multipliers, np.float64)])
    placed = b.node("Add", [b.node("Round", [steps]), b.constant(np.float64(-operands.output_offset))])
    return clipped(b, placed, np.float64, np.uint16)


def bytes_of(b: Builder, value: str) -> tuple[str, str]:
    """Return the high and the low bytes of int32 values below 2^16, as uint8."""
    base = b.constant(256, np.int32)
    high = b.node("Div", [value, base])
    low = b.node("Sub", [value, b.node("Mul", [high, base])])
    return b.cast(high, np.uint8), b.cast(low, np.uint8)


def half_down(values: Array) -> Array:
    """Return values rounded to the nearest integer; halves are rounded down."""
    return np.ceil(np.asarray(values, np.float64) - 0.5)


_MIDDLE = 32768


def is_centred(tensor: Tensor) -> bool:
    """Return whether the zero of a 16-bit activation is in the middle, as for HTP."""
    return (
        isinstance(tensor.encoding, ScaleOffset) and tensor.encoding.offset == -_MIDDLE and tensor.rank >= 2
    )


def write_u16_matmul(
    b: Builder, first: Tensor, second: Tensor, target: Tensor, orders: Sequence[tuple[int, ...]]
) -> None:
    """Write the product of two activations.

    Args:
        orders: Axis orders in which the factors are multiplied.
    """
    entry, second_entry, result = first.encoding, second.encoding, target.encoding
    if not (
        isinstance(entry, ScaleOffset)
        and isinstance(second_entry, ScaleOffset)
        and isinstance(result, ScaleOffset)
    ):
        raise ValueError(f"{target.name!r} has no encoding")
    high, low = bytes_of(b, b.cast(b.read_stored_as(first, orders[0]), np.int32))
    stored = b.cast(b.read_stored_as(second, orders[1]), np.int32)
    whole = b.node("Sub", [stored, b.constant(_MIDDLE, np.int32)])
    whole = b.node("Min", [whole, b.constant(LARGEST_OF_BYTES, np.int32)])
    # Bytes plus 128, the high one of the number plus 128: unsigned times signed saturates without VNNI.
    raised = b.node("Add", [whole, b.constant(_MIDDLE + 128, np.int32)])
    upper, lower = bytes_of(b, raised)
    zeros = [b.constant(np.uint8(0)), b.constant(np.uint8(128))]

    def product(left: str, right: str) -> str:
        return b.cast(b.node("MatMulInteger", [left, right, *zeros]), np.float64)

    # In float64 all of this is exact.
    crossed = b.node("Add", [product(high, lower), product(low, upper)])
    part = b.node("Add", [_times(b, crossed, 1 / 256), _times(b, product(low, lower), 1 / 65536)])
    total = b.node("Add", [product(high, upper), b.node("Floor", [part])])
    if entry.offset:
        axes = b.ints(-2)
        sums = b.node("ReduceSum", [b.cast(whole, np.float64), axes], keepdims=1)
        shift = b.node("Sub", [_times(b, sums, entry.offset / 65536), b.constant(np.float64(0.5))])
        total = b.node("Add", [total, b.node("Ceil", [shift])])
    steps = _times(b, total, 65536.0 * entry.scale * second_entry.scale / result.scale)
    placed = b.node("Add", [b.node("Round", [steps]), b.constant(np.float64(-result.offset))])
    b.write_stored(target, clipped(b, placed, np.float64, np.uint16), tuple(range(target.rank)))


def _times(b: Builder, value: str, factor: float) -> str:
    return b.node("Mul", [value, b.constant(np.float64(factor))])
