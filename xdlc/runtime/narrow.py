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

from xdlc.ir import NATIVE_PACKAGE, ScaleOffset, Tensor
from xdlc.ir.dtype import SFIXED8, UFIXED8
from xdlc.ir.stored import unpacked
from xdlc.runtime.builder import Builder
from xdlc.runtime.wide import Product, fifteen_bits, is_in_steps, offsets_of, scales_of

_EXACT = 1 << 24
"""Whole numbers below this are float32 numbers."""
_UNROUNDED = ("Prelu", "ElementWiseNeuron", "HardSwish", "Relu", "Relu6", "Relu1", "ReluMinMax")


def is_narrow(b: Builder, source: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor) -> bool:
    """Return whether HTP computes a product that way, and rounds it before anything else.

    Args:
        b: The builder.
        source: The input.
        weight: The weights.
        bias: The bias, if there is one.
        target: The output.
    """
    return (
        not (b.native or b.stated)
        and all(_is_byte(b, tensor) for tensor in (source, target))
        and weight.is_static
        and weight.dtype is SFIXED8
        and not any(offsets_of(weight))
        and (bias is None or is_in_steps(bias, source, weight))
        and not _is_read_unrounded(b, target)
    )


def _is_byte(b: Builder, tensor: Tensor) -> bool:
    encoding = tensor.encoding
    return (
        tensor.dtype is UFIXED8
        and not tensor.is_static
        and b.is_rounded(tensor)
        and isinstance(encoding, ScaleOffset)
        and encoding.bits in (None, 8)
        and -255 <= encoding.offset <= 0
    )


def _is_read_unrounded(b: Builder, target: Tensor) -> bool:
    """Return whether an activation function may be computed as one with the product; see ``fused``."""
    return any(
        op.package == NATIVE_PACKAGE and op.type in _UNROUNDED and op.outputs[0].encoding != target.encoding
        for op in b.graph.consumers(target)
    )


def narrow_product(
    b: Builder,
    source: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: Tensor,
    value: str,
    axis: int,
    product: Product,
    *,
    whole: bool = False,
) -> str:
    """Return the stored integers of the result of a convolution or matrix product with static weights.

    Args:
        b: The builder.
        source: The input.
        weight: Weights, output channels first of two axes, else last.
        bias: One number per output channel, or None.
        target: The output.
        value: Stored integers of the input as ``product`` takes them.
        axis: Axis of the output channels in what ``product`` gives, which has as many axes as ``value``.
        product: Multiplies bytes with the weights.
        whole: Whether the whole accumulator is kept.
    """
    import numpy as np

    entry, result = source.encoding, target.encoding
    if not isinstance(entry, ScaleOffset) or not isinstance(result, ScaleOffset):
        raise ValueError(f"{target.name!r} has no encoding")
    shape = [-1 if index == axis else 1 for index in range(weight.rank)]
    multipliers = scales_of(weight) * (entry.scale / result.scale)
    held = np.zeros(1, np.int64) if bias is None else unpacked(bias).numpy().astype(np.int64).reshape(-1)
    depth = weight.size // max(multipliers.size, 1) if weight.rank else 1
    largest = (
        depth * 255 * 128 + int(np.abs(held).max(initial=0)) + (np.abs(result.offset / multipliers).max())
    )
    kind = np.float32 if largest < _EXACT and not whole else np.float64

    def constant(values: object) -> str:
        return b.constant(np.broadcast_to(np.asarray(values, kind), multipliers.shape).reshape(shape))

    total = b.cast(product(value, b.constant(np.uint8(-entry.offset))), kind)
    if whole:
        steps = b.node("Add", [total, constant(held - np.rint(result.offset / multipliers))])
        steps = b.node("Mul", [steps, constant(fifteen_bits(multipliers))])
        placed = b.node("Floor", [b.node("Add", [steps, b.constant(kind(0.5))])])
    else:
        unit = np.exp2(-4.0 - np.floor(np.log2(multipliers)))
        factor = np.rint(multipliers * unit * 2.0**15) / 2.0**15
        if held.any():
            total = b.node("Add", [total, constant(held)])
        steps = b.node("Floor", [b.node("Mul", [total, constant(1 / unit)])])
        steps = b.node("Mul", [steps, constant(factor)])
        steps = b.node("Floor", [b.node("Add", [steps, constant(factor / 2 + 0.5)])])
        placed = b.node("Add", [steps, b.constant(kind(-result.offset))]) if result.offset else steps
    kept = b.node("Clip", [placed, b.constant(kind(0)), b.constant(kind(255))])
    return b.cast(kept, np.uint8)
