"""Encodings of weights and biases: symmetric, per output channel where the operation allows it."""

from __future__ import annotations

from dataclasses import dataclass

from xdlc.errors import ModelError
from xdlc.ir import AxisScaleOffset, Encoding, ScaleOffset, Tensor
from xdlc.ir.data import Array
from xdlc.quant.grid import symmetric_scale
from xdlc.quant.ranges import NOTHING, Range, range_of


@dataclass(frozen=True, slots=True)
class Channels:
    """What is kept of static data after one reading.

    Attributes:
        whole: Range of all elements.
        largest: Largest magnitude of each channel, float64; one element for a whole tensor.
    """

    whole: Range
    largest: Array


def channel_ranges(tensor: Tensor, axis: int | None) -> Channels:
    """Return the ranges of static data, read once and let go.

    Args:
        tensor: Static tensor of floats.
        axis: Channel axis, or None for the whole tensor.

    Raises:
        ModelError: If the data hold NaN or infinite values.
    """
    import numpy as np

    if tensor.data is None:
        raise ValueError(f"tensor {tensor.name!r} is not static")
    array = tensor.numpy()
    if axis is None or not array.size:
        whole = range_of(array)
        count = 1 if axis is None else tensor.shape[axis]
        largest = np.full(count, 0.0 if whole.is_empty else max(abs(whole.low), abs(whole.high)))
    else:
        others = tuple(index for index in range(array.ndim) if index != axis)
        low = np.asarray(array.min(axis=others), np.float64)
        high = np.asarray(array.max(axis=others), np.float64)
        whole, largest = range_of(low).merge(range_of(high)), np.maximum(high, -low)
    del array
    tensor.data.release()
    if whole != NOTHING and not whole.is_finite:
        raise ModelError(
            "holds NaN or infinite values, which no encoding can hold",
            where=f"static tensor {tensor.name!r}",
            fix="mend the weights in the source model",
        )
    return Channels(whole, largest)


def weight_encoding(
    channels: Channels, axis: int | None, bits: int, floor: Array | None = None
) -> ScaleOffset | AxisScaleOffset:
    """Return the symmetric encoding of a weight.

    A channel of zeros alone takes the scale of the largest channel: any scale holds it exactly.

    Args:
        channels: Ranges of the weight, per channel or of the whole.
        axis: Channel axis, or None for one scale.
        bits: 4, 8 or 16; four bits are marked in the encoding.
        floor: Smallest scale of each output channel, so that a bias in steps of input scale times
            weight scale stays within 32 bits.
    """
    import numpy as np

    top = float(channels.largest.max(initial=0.0))
    scales = [symmetric_scale(float(value) or top, bits) for value in channels.largest]
    if floor is not None:
        # One scale for several channels has to serve the largest bias.
        least = floor if floor.size == len(scales) else floor.max(initial=0.0)
        scales = [float(value) for value in np.maximum(scales, least)]
    marked = bits if bits == 4 else None
    if axis is None:
        return ScaleOffset(scales[0], 0, marked)
    return AxisScaleOffset(axis, tuple(scales), bits=marked)


def bias_encoding(
    values: Channels, size: int, input_scale: float | None, weight: Encoding | None
) -> ScaleOffset | AxisScaleOffset:
    """Return the 32-bit encoding of a bias: scale of the input times that of the weight, offset 0.

    Where there are no such scales the bias has its own range.

    Args:
        values: Range of the bias.
        size: Number of its elements.
        input_scale: Scale of input 0, or None.
        weight: Encoding of input 1, or None.
    """
    if input_scale is not None and isinstance(weight, ScaleOffset):
        return ScaleOffset(input_scale * weight.scale)
    if input_scale is not None and isinstance(weight, AxisScaleOffset) and size == len(weight.scales):
        return AxisScaleOffset(0, tuple(input_scale * scale for scale in weight.scales))
    top = 0.0 if values.whole.is_empty else max(abs(values.whole.low), abs(values.whole.high))
    return ScaleOffset(symmetric_scale(top, 32))
