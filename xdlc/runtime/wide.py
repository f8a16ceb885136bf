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

from collections.abc import Callable
from typing import Any, TypeAlias

from xdlc.ir import AxisScaleOffset, ScaleOffset, Tensor
from xdlc.ir.dtype import SFIXED8, SFIXED32, UFIXED16
from xdlc.ir.stored import unpacked
from xdlc.runtime.builder import Builder

Array: TypeAlias = Any  # numpy.ndarray
Product: TypeAlias = Callable[[str, str], str]
"""Returns the int32 product of bytes with the weights, given the ONNX values of them and of their zero."""

_LIFT = 1 << 22
"""Added to a quotient so that dividing rounds down; times 256 it is 2^30."""


def is_wide(b: Builder, source: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor) -> bool:
    """Return whether HTP computes a product that way.

    Args:
        b: The builder.
        source: The input.
        weight: The weights.
        bias: The bias, if there is one.
        target: The output.
    """
    return (
        are_wide(b, source, target)
        and weight.is_static
        and weight.dtype is SFIXED8
        and not any(offsets_of(weight))
        and (bias is None or is_in_steps(bias, source, weight))
        and weight.size // max(_channels(weight), 1) * 255 * 128 < 256 * _LIFT
    )


def are_wide(b: Builder, *tensors: Tensor) -> bool:
    """Return whether activations are 16-bit ones that the host rounds as HTP does."""
    return not (b.native or b.stated) and all(
        tensor.dtype is UFIXED16
        and not tensor.is_static
        and b.is_rounded(tensor)
        and isinstance(tensor.encoding, ScaleOffset)
        and -65535 <= tensor.encoding.offset <= 0
        for tensor in tensors
    )


def is_in_steps(bias: Tensor, source: Tensor, weight: Tensor) -> bool:
    """Return whether a bias is stored in steps of input scale times weight scale."""
    import numpy as np

    held, entry = bias.encoding, source.encoding
    if not (bias.is_static and bias.dtype is SFIXED32 and isinstance(entry, ScaleOffset)):
        return False
    if not isinstance(held, ScaleOffset | AxisScaleOffset) or any(offsets_of(bias)):
        return False
    scales = held.scale if isinstance(held, ScaleOffset) else np.asarray(held.scales)
    return bool(np.allclose(scales, entry.scale * scales_of(weight), rtol=1e-5, atol=0.0))


def offsets_of(weight: Tensor) -> tuple[int, ...]:
    """Return the offsets of a tensor's encoding; one that is not 0 for encodings of other kinds."""
    encoding = weight.encoding
    if isinstance(encoding, AxisScaleOffset):
        return tuple(encoding.offsets)
    return (encoding.offset,) if isinstance(encoding, ScaleOffset) else (1,)


def _channels(weight: Tensor) -> int:
    return weight.shape[0] if weight.rank == 2 else weight.shape[-1]


def wide_product(
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
    integers = unpacked(weight).numpy().astype(np.int64)
    last = 0 if weight.rank == 2 else weight.rank - 1
    sums = integers.sum(axis=tuple(index for index in range(weight.rank) if index != last))
    held = np.int64(0) if bias is None else unpacked(bias).numpy().astype(np.int64).reshape(-1)
    multipliers = scales_of(weight) * (entry.scale / result.scale)
    shape = [-1 if index == axis else 1 for index in range(weight.rank)]
    zero = -entry.offset
    high, low = bytes_of(b, b.cast(value, np.int32))
    high = product(high, b.constant(np.uint8(zero >> 8)))
    low = product(low, b.constant(np.uint8(zero & 255)))
    if whole:
        # The products have the input's offset taken off already.
        total = b.node("Add", [_times(b, b.cast(high, np.float64), 256.0), b.cast(low, np.float64)])
        rest = held - np.rint(result.offset / multipliers)
        steps = _scaled(b, total, rest, fifteen_bits(multipliers), shape)
        placed = b.node("Floor", [b.node("Add", [steps, b.constant(np.float64(0.5))])])
    else:
        quotient = _shifted(b, low, (zero & 255) * sums, shape)
        total = b.cast(b.node("Add", [high, quotient]), np.float64)
        rest = (zero >> 8) * sums - _LIFT + half_down(entry.offset * sums / 256) + np.trunc(held / 256)
        steps = _scaled(b, total, rest, 256.0 * multipliers, shape)
        placed = b.node("Add", [b.node("Round", [steps]), b.constant(np.float64(-result.offset))])
    return clipped(b, placed)


def unsigned_weights(b: Builder, weight: Tensor, order: tuple[int, ...]) -> tuple[str, str]:
    """Return the ONNX values of 8-bit weights and of their zero point, unsigned.

    On CPUs without VNNI, sums of two products of unsigned and signed bytes saturate at 16 bits.
    """
    import numpy as np

    data = unpacked(weight).transform(_raised, dtype=np.dtype(np.uint8)).transpose(order)
    return b.initializer(weight.name, data), b.constant(np.uint8(128))


def _raised(values: Array) -> Array:
    import numpy as np

    return (values.astype(np.int16) + 128).astype(np.uint8)


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


def fifteen_bits(multipliers: Array) -> Array:
    """Return multipliers rounded to 15 bits.

    Example:
        >>> float(fifteen_bits(0.004)) * 2**22
        16777.0
    """
    import numpy as np

    unit = np.exp2(np.floor(np.log2(multipliers)) - 14)
    return np.rint(multipliers / unit) * unit


def clipped(b: Builder, value: str) -> str:
    """Return whole float64 numbers as uint16, those beyond as the nearest."""
    import numpy as np

    kept = b.node("Clip", [value, b.constant(np.float64(0)), b.constant(np.float64(65535))])
    return b.cast(kept, np.uint16)


def _shifted(b: Builder, value: str, added: Array, shape: list[int]) -> str:
    """Return ``floor((value + added) / 256) + _LIFT``; the lift makes division round down."""
    import numpy as np

    lifted = b.constant((added + 256 * _LIFT).astype(np.int32).reshape(shape))
    return b.node("Div", [b.node("Add", [value, lifted]), b.constant(256, np.int32)])


def _scaled(b: Builder, value: str, added: Array, factor: Array, shape: list[int]) -> str:
    import numpy as np

    whole = b.node("Add", [value, b.constant(np.asarray(added, np.float64).reshape(shape))])
    return b.node("Mul", [whole, b.constant(np.asarray(factor, np.float64).reshape(shape))])


def _times(b: Builder, value: str, factor: float) -> str:
    import numpy as np

    return b.node("Mul", [value, b.constant(np.float64(factor))])


def scales_of(weight: Tensor) -> Array:
    """Return the scale of each output channel of weights, float64."""
    import numpy as np

    encoding = weight.encoding
    if isinstance(encoding, AxisScaleOffset):
        return np.asarray(encoding.scales, np.float64)
    return np.full(_channels(weight), encoding.scale if isinstance(encoding, ScaleOffset) else 1.0)
