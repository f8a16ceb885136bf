"""Encodings of weights and biases: symmetric, per output channel where the operation allows it."""

from __future__ import annotations

from dataclasses import dataclass

from xdlc.errors import ModelError
from xdlc.ir import AxisScaleOffset, BlockwiseExpansion, Encoding, ScaleOffset, Tensor
from xdlc.ir.data import Array
from xdlc.ir.dtype import LARGEST_OF_BYTES
from xdlc.quant.affine import MIN_SCALE, symmetric_scale
from xdlc.quant.options import QuantOptions
from xdlc.quant.range_methods import Fit, Steps
from xdlc.quant.ranges import NOTHING, Range, range_of

_CHUNK = 1 << 20
"""Elements that a method looks at in one go, so that its copies stay small."""


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
    return Channels(_finite(whole, tensor), largest)


def checked_range(array: Array, tensor: Tensor) -> Range:
    """Return the range of an array.

    Args:
        array: Some or all of the data of ``tensor``.
        tensor: Where it comes from, for the error.

    Raises:
        ModelError: If there are NaN or infinite values in it.
    """
    return _finite(range_of(array), tensor)


def _finite(values: Range, tensor: Tensor) -> Range:
    if values != NOTHING and not values.is_finite:
        raise ModelError(
            "holds NaN or infinite values, which no encoding can hold",
            where=f"static tensor {tensor.name!r}",
            fix="correct the weights in the source model",
        )
    return values


def weight_steps(bits: int, options: QuantOptions) -> Steps:
    """Return the integers that symmetric weights are stored as.

    Below eight bits all of them, for the one more below zero improves accuracy there; from eight bits on
    as many below as above.  ``restrict_quantization_steps`` narrows them, or names the lowest too.

    Args:
        options: The steps that the user restricts them to.
    """
    high = (1 << (bits - 1)) - 1
    low, given = -high - 1, options.restrict_quantization_steps
    if given is not None:
        low, high = max(low, given[0]), min(high, given[1])
    elif bits >= 8:
        high = min(high, LARGEST_OF_BYTES)
        low = -high
    return Steps(low, high, options.percentile_calibration_value)


def channel_scales(tensor: Tensor, axis: int | None, steps: Steps, fit: Fit) -> Array:
    """Return the scales, float64, that a method finds for static data; 0 for channels of zeros.

    Args:
        axis: Channel axis, or None for one scale.
        steps: The integers that weights are stored as.

    Raises:
        ModelError: If the data hold NaN or infinite values.
    """
    if tensor.data is None:
        raise ValueError(f"tensor {tensor.name!r} is not static")
    import numpy as np

    array = tensor.numpy()
    rows = array.reshape(1, -1) if axis is None else np.moveaxis(array, axis, 0)
    found = row_scales(rows, tensor, steps, fit)
    tensor.data.release()
    return found


def row_scales(rows: Array, tensor: Tensor, steps: Steps, fit: Fit) -> Array:
    """Return the scales, float64, that a method finds for each index of the first axis of an array.

    Args:
        rows: Floats of any shape, read piece by piece.
        tensor: Where they come from, for errors.
        steps: The integers that they are stored as.

    Raises:
        ModelError: If there are NaN or infinite values among them.
    """
    import numpy as np

    count = max(1, _CHUNK * len(rows) // max(rows.size, 1))
    found = [np.zeros(len(rows) if not rows.size else 0)]
    for at in range(0, len(rows) if rows.size else 0, count):
        part = np.ascontiguousarray(rows[at : at + count], np.float32)
        checked_range(part, tensor)
        found.append(fit(part.reshape(len(part), -1), steps))
    return np.concatenate(found)


def weight_encoding(
    scales: Array, axis: int | None, bits: int, floor: Array | None = None
) -> ScaleOffset | AxisScaleOffset:
    """Return the symmetric encoding of a weight.

    A channel of zeros alone takes the scale of the largest channel: any scale holds it exactly.

    Args:
        scales: What ``channel_scales`` found, one per channel or one for the whole.
        axis: Channel axis, or None for one scale.
        bits: 2, 4, 8 or 16; fewer than eight are marked in the encoding.
        floor: Smallest scale of each output channel, so that a bias in steps of input scale times
            weight scale stays within 32 bits.
    """
    import numpy as np

    chosen = np.maximum(np.where(scales > 0, scales, scales.max(initial=0.0)), MIN_SCALE)
    if floor is not None:
        # One scale for several channels has to serve the largest bias.
        chosen = np.maximum(chosen, floor if floor.size == chosen.size else floor.max(initial=0.0))
    marked = bits if bits < 8 else None
    if axis is None:
        return ScaleOffset(float(chosen[0]), 0, marked)
    return AxisScaleOffset(axis, tuple(chosen.tolist()), bits=marked)


def bias_encoding(
    values: Channels, size: int, input_scale: float | None, weight: Encoding | None
) -> ScaleOffset | AxisScaleOffset:
    """Return the 32-bit encoding of a bias: scale of the input times that of the weight, offset 0.

    Where there are no such scales the bias has its own range.

    Args:
        values: Range of the bias.
        size: Number of its elements.
        weight: Encoding of input 1, or None.
    """
    if input_scale is not None and isinstance(weight, ScaleOffset):
        return ScaleOffset(input_scale * weight.scale)
    if (
        input_scale is not None
        and isinstance(weight, AxisScaleOffset | BlockwiseExpansion)
        and size == len(weight.scales)
    ):
        return AxisScaleOffset(0, tuple(input_scale * scale for scale in weight.scales))
    top = 0.0 if values.whole.is_empty else max(abs(values.whole.low), abs(values.whole.high))
    return ScaleOffset(symmetric_scale(top, 32))


def clipped_biases(values: Channels, encoding: ScaleOffset | AxisScaleOffset) -> int:
    """Return how many channels of a bias are beyond what 32 bits hold.

    Args:
        values: Range of the bias, per channel or of the whole.
        encoding: What ``bias_encoding`` made of it.
    """
    import numpy as np

    scales = encoding.scale if isinstance(encoding, ScaleOffset) else np.asarray(encoding.scales)
    # Less than a millionth beyond is the rounding of the scale to float32.
    return int((values.largest / scales > 2.0**31 * (1 + 1e-6)).sum())
