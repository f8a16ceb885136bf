"""Products of activations with static weights, in integers as on HTP."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from xdlc.ir import AxisScaleOffset, Op, ScaleOffset, Tensor
from xdlc.ir.dtype import LARGEST_OF_BYTES, SFIXED8, SFIXED16, SFIXED32, UFIXED8, UFIXED16
from xdlc.ir.quantization import unpacked
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.htp_fusion import shapes_product

Array: TypeAlias = Any  # numpy.ndarray
Multiply: TypeAlias = Callable[..., str]
"""Returns the int32 product of bytes with the weights, given the ONNX values of them and of their zero.

A third argument of 1 is for the low bytes of 16-bit weights.
"""

_DEEPEST = (1 << 30) // (255 * 128)
"""Most weights of an output channel for which sums of bytes times weights stay below 2^30."""


@dataclass(frozen=True, slots=True)
class Product:
    """A convolution, or a product of matrices, with static weights.

    Attributes:
        weight: Weights, output channels first of two axes, else last.
        bias: One number per output channel, or None.
    """

    source: Tensor
    weight: Tensor
    bias: Tensor | None
    target: Tensor

    def bits(self, b: Builder) -> int | None:
        """Return the activations' bits if the host can compute like HTP, else None."""
        kind = self.source.dtype
        fits = (
            are_rounded(b, self.source, self.target)
            and kind is self.target.dtype
            and self.weight.is_static
            and (self.weight.dtype is SFIXED8 or (self.is_wide and kind is UFIXED16))
            and not any(_offsets(self.weight))
            and self._depth <= _DEEPEST
            and (self.bias is None or self._is_in_steps(self.bias))
            and (kind is UFIXED16 or not self._is_read_unrounded(b))
        )
        return kind.bits if fits else None

    @property
    def is_wide(self) -> bool:
        """Whether weights have 16 bits."""
        return self.weight.dtype is SFIXED16

    @property
    def _depth(self) -> int:
        return self.weight.size // max(self.channels, 1)

    @property
    def channels(self) -> int:
        """Number of output channels."""
        return self.weight.shape[0 if self.weight.rank == 2 else -1]

    @property
    def largest(self) -> int:
        """An upper bound of the accumulator's magnitude for 8-bit activations."""
        return self._depth * 255 * 128 + int(abs(self.added).max(initial=0))

    @property
    def offset(self) -> int:
        """Offset of the input."""
        return _single(self.source).offset

    @property
    def output_offset(self) -> int:
        """Offset of the output."""
        return _single(self.target).offset

    @property
    def multipliers(self) -> Array:
        """Input times weight scale over output scale, float64, per output channel."""
        return self._scales * (_single(self.source).scale / _single(self.target).scale)

    @property
    def added(self) -> Array:
        """The bias in steps of input scale times weight scale, int64."""
        if self.bias is None:
            return np.zeros(1, np.int64)
        return unpacked(self.bias).numpy().astype(np.int64).reshape(-1)

    @property
    def sums(self) -> Array:
        """Sum of the stored weights of each output channel, int64."""
        rank = self.weight.rank
        last = 0 if rank == 2 else rank - 1
        others = tuple(axis for axis in range(rank) if axis != last)
        return unpacked(self.weight).numpy().sum(axis=others, dtype=np.int64)

    def constant(self, b: Builder, values: Array, dtype: Any) -> str:
        """Return one number per output channel as a constant, channels on axis 1."""
        whole = np.broadcast_to(np.asarray(values, dtype), (self.channels,))
        return b.constant(whole.reshape([-1 if axis == 1 else 1 for axis in range(self.weight.rank)]))

    @property
    def _scales(self) -> Array:
        encoding = self.weight.encoding
        if isinstance(encoding, AxisScaleOffset):
            return np.asarray(encoding.scales, np.float64)
        return np.full(self.channels, _single(self.weight).scale)

    def _is_in_steps(self, bias: Tensor) -> bool:
        held = bias.encoding
        if not (bias.is_static and bias.dtype is SFIXED32) or any(_offsets(bias)):
            return False
        scales = np.asarray(held.scales if isinstance(held, AxisScaleOffset) else _single(bias).scale)
        return bool(np.allclose(scales, _single(self.source).scale * self._scales, rtol=1e-5, atol=0.0))

    def _is_read_unrounded(self, b: Builder) -> bool:
        """Return whether a fusible activation function follows (``htp_fusion``)."""
        return any(
            shapes_product(op) and op.outputs[0].encoding != self.target.encoding
            for op in b.graph.consumers(self.target)
        )


def are_rounded(b: Builder, *tensors: Tensor) -> bool:
    """Return whether the host rounds tensors as HTP: unsigned activations."""
    return not (b.native or b.stated or b.adjusted is not None) and all(
        tensor.dtype in (UFIXED8, UFIXED16)
        and not tensor.is_static
        and b.is_rounded(tensor)
        and isinstance(tensor.encoding, ScaleOffset)
        and tensor.encoding.bits in (None, tensor.dtype.bits)
        and -tensor.dtype.limits[1] <= tensor.encoding.offset <= 0
        for tensor in tensors
    )


def keeps_sums(op: Op, bits: int) -> bool:
    """Return whether HTP keeps all bits of the sums of a convolution.

    It does in depthwise ones with strides; in those of 16 bits and a single tap without.

    Args:
        bits: Of the activations.
    """
    if not op.type.startswith("DepthWise"):
        return False
    size = args.operand(op, 1).shape[:-2]
    has_strides = args.integers(op, "stride", len(size)) != [1] * len(size)
    return has_strides != (bits == 16 and math.prod(size) == 1)


def unsigned_weights(b: Builder, weight: Tensor, order: tuple[int, ...]) -> tuple[tuple[str, ...], str]:
    """Return the ONNX values of unsigned weight bytes and their zero point.

    On CPUs without VNNI, sums of two products of unsigned and signed bytes saturate at 16 bits.

    Returns:
        The weights of 8 bits, or the high and the low bytes of those of 16; the zero point.
    """
    wide = weight.dtype is SFIXED16
    names = (f"{weight.name}_high", f"{weight.name}_low") if wide else (weight.name,)
    values = []
    for name, byte in zip(names, (_high, _low) if wide else (_raised,), strict=True):
        data = unpacked(weight).transform(byte, dtype=np.dtype(np.uint8)).transpose(order)
        values.append(b.initializer(name, data))
    return tuple(values), b.constant(np.uint8(128))


def _raised(values: Array) -> Array:
    return (values.astype(np.int16) + 128).astype(np.uint8)


def _high(values: Array) -> Array:
    return ((np.minimum(values, LARGEST_OF_BYTES).astype(np.int32) + 128 >> 8) + 128).astype(np.uint8)


def _low(values: Array) -> Array:
    return (np.minimum(values, LARGEST_OF_BYTES).astype(np.int32) + 128 & 255).astype(np.uint8)


def fifteen_bits(multipliers: Array) -> Array:
    """Return multipliers rounded to 15 bits.

    Example:
        >>> float(fifteen_bits(0.004)) * 2**22
        16777.0
    """
    unit = np.exp2(np.floor(np.log2(multipliers)) - 14)
    return np.rint(multipliers / unit) * unit


def clipped(b: Builder, value: str, dtype: Any, stored: Any) -> str:
    """Return whole numbers of a float type as saturated quantized values."""
    low, high = (b.constant(np.asarray(end, dtype)) for end in (0, np.iinfo(stored).max))
    return b.cast(b.node("Clip", [value, low, high]), stored)


def _offsets(tensor: Tensor) -> tuple[int, ...]:
    """Return the offsets of a tensor's encoding; nonzero for unknown kinds."""
    encoding = tensor.encoding
    if isinstance(encoding, AxisScaleOffset):
        return tuple(encoding.offsets)
    return (encoding.offset,) if isinstance(encoding, ScaleOffset) else (1,)


def _single(tensor: Tensor) -> ScaleOffset:
    if not isinstance(tensor.encoding, ScaleOffset):
        raise ValueError(f"{tensor.name!r} has no single scale")
    return tensor.encoding
