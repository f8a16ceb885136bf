"""Weights of layers, which hold float32 or 8 unsigned bits, as static tensors of QNN operations."""

from __future__ import annotations

from xdlc.ir import AxisScaleOffset, Encoding, ScaleOffset, Tensor
from xdlc.ir.data import Array
from xdlc.ir.dtype import FLOAT32, SFIXED8, SFIXED32, UFIXED8
from xdlc.ir.tensor import Role

HALF = 128  # between a signed byte and its unsigned counterpart


def shifted(encoding: Encoding, by: int) -> Encoding:
    """Return an encoding with offsets moved, all bits used."""
    if isinstance(encoding, ScaleOffset):
        return ScaleOffset(encoding.scale, encoding.offset + by)
    assert isinstance(encoding, AxisScaleOffset)
    return AxisScaleOffset(
        encoding.axis, encoding.scales, tuple([offset + by for offset in encoding.offsets])
    )


def as_signed(tensor: Tensor) -> Tensor:
    """Return weights with one scale a channel and offsets of -128 as signed ones with offsets of 0.

    The numbers are the same; backends want weights with scales per channel so.
    """
    import numpy

    encoding = tensor.encoding
    if (
        tensor.dtype is not UFIXED8
        or not isinstance(encoding, AxisScaleOffset)
        or set(encoding.offsets) != {-HALF}
        or tensor.data is None
    ):
        return tensor
    data = tensor.data.transform(lambda stored: (stored ^ HALF).view(numpy.int8), dtype=numpy.int8)
    return Tensor(tensor.name, tensor.shape, SFIXED8, shifted(encoding, HALF), data, Role.STATIC)


def product_scales(source: Tensor, weight: Tensor) -> tuple[float, ...] | None:
    """Return the scales of a quantized layer's sums, one a channel or one for all; None if it has none."""
    import numpy

    held, encoding = source.encoding, weight.encoding
    if not isinstance(held, ScaleOffset) or not isinstance(encoding, ScaleOffset | AxisScaleOffset):
        return None
    scales = (encoding.scale,) if isinstance(encoding, ScaleOffset) else encoding.scales
    return tuple((numpy.float32(held.scale) * numpy.asarray(scales, numpy.float32)).tolist())


def quantized_bias(bias: Tensor, scales: tuple[float, ...] | None) -> Tensor:
    """Return a float bias of a quantized layer as integers of 32 bits, in steps of its sums."""
    import numpy

    if bias.dtype is not FLOAT32 or scales is None or bias.data is None or bias.rank != 1:
        return bias
    if len(scales) not in (1, bias.shape[0]) or min(scales) <= 0:
        return bias
    limit = float(numpy.iinfo(numpy.int32).max)
    steps = numpy.asarray(scales, numpy.float64)

    def quantize(values: Array) -> Array:
        whole = numpy.rint(numpy.nan_to_num(values.astype(numpy.float64)) / steps)
        return numpy.clip(whole, -limit, limit).astype(numpy.int32)

    encoding: Encoding = ScaleOffset(scales[0]) if len(scales) == 1 else AxisScaleOffset(0, scales)
    data = bias.data.transform(quantize, dtype=numpy.int32)
    return Tensor(bias.name, bias.shape, SFIXED32, encoding, data, Role.STATIC)
