"""Encodings and integers of weights and biases.

They are symmetric, and per output channel where the operation allows it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from xdlc.errors import ModelError
from xdlc.ir import AxisScaleOffset, BlockScaleOffset, BlockwiseExpansion, Encoding, Op, ScaleOffset, Tensor
from xdlc.ir.data import Array
from xdlc.ir.dtype import LARGEST_OF_BYTES, UFIXED8
from xdlc.passes.convolve_blocks import block_parts
from xdlc.quant.calibration.statistics import Histogram, Statistics
from xdlc.quant.options import QuantOptions
from xdlc.quant.range_methods import Fit, Grid, RangeMethod, Steps, find_range_method, legacy
from xdlc.quant.ranges import (
    MIN_SCALE,
    NOTHING,
    QuantType,
    Range,
    asymmetric,
    range_of,
    symmetric_scale,
    weight_type,
)

_CHUNK = 1 << 20
"""Elements that a method looks at in one go, so that its copies stay small."""
LPBQ_BITS = 4
"""Bits of weights and of block scales in blockwise expansion."""
_TOP = 1 << LPBQ_BITS


@dataclass(frozen=True, slots=True)
class Channels:
    """Range of static data, and magnitudes by channel.

    Attributes:
        largest: Largest magnitude of each channel, float64; one element for a whole tensor.
    """

    whole: Range
    largest: Array


def channel_ranges(tensor: Tensor, axis: int | None) -> Channels:
    """Return the ranges of static data by channel; the data are released.

    Args:
        axis: Channel axis, or None for the whole tensor.

    Raises:
        ModelError: If the data hold NaN or infinite values.
    """
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
            "the tensor holds NaN or infinite values, which no encoding can hold",
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
    """Return the scales by channel that a method finds for static data, float64.

    Those of zeros are 0.

    Args:
        axis: Channel axis, or None for one scale.
        steps: The integers that weights are stored as.

    Raises:
        ModelError: If the data hold NaN or infinite values.
    """
    if tensor.data is None:
        raise ValueError(f"tensor {tensor.name!r} is not static")
    array = tensor.numpy()
    rows = array.reshape(1, -1) if axis is None else np.moveaxis(array, axis, 0)
    found = row_scales(rows, tensor, steps, fit)
    tensor.data.release()
    return found


def row_scales(rows: Array, tensor: Tensor, steps: Steps, fit: Fit) -> Array:
    """Return the scales that a method finds for each row of an array, float64.

    Args:
        rows: Floats of any shape, read piece by piece.
        tensor: Where they come from, for errors.
        steps: The integers that they are stored as.

    Raises:
        ModelError: If there are NaN or infinite values among them.
    """
    count = max(1, _CHUNK * len(rows) // max(rows.size, 1))
    scales = [np.zeros(len(rows) if not rows.size else 0)]
    for at in range(0, len(rows) if rows.size else 0, count):
        part = np.ascontiguousarray(rows[at : at + count], np.float32)
        checked_range(part, tensor)
        scales.append(fit(part.reshape(len(part), -1), steps))
    return np.concatenate(scales)


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
    """Return the 32-bit encoding of a bias: the input's scale times the weight's.

    Where there are no such scales the bias has its own range.

    Args:
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
    """Return the number of channels of a bias that do not fit in 32 bits.

    Args:
        values: Range of the bias, per channel or of the whole.
        encoding: What ``bias_encoding`` made of it.
    """
    scales = encoding.scale if isinstance(encoding, ScaleOffset) else np.asarray(encoding.scales)
    # Less than a millionth beyond is the rounding of the scale to float32.
    return int((values.largest / scales > 2.0**31 * (1 + 1e-6)).sum())


def why_no_blocks(op: Op, weight: Tensor, size: int) -> str | None:
    """Return why a weight cannot have scales per block; None if it can.

    A block has ``size`` input channels.
    """
    if op.type == "FullyConnected":
        dim = weight.shape[1]
    elif op.type == "Conv2d" and weight.shape[:2] == (1, 1) and op.param("group", 1) == 1:
        dim = weight.shape[2]
    else:
        return "only 1x1 Conv2d without groups and FullyConnected support scales per block"
    if dim % size:
        return f"its {dim} input channels are not a multiple of {size}"
    return None


def block_scales(op: Op, weight: Tensor, size: int, steps: Steps, fit: Fit) -> Array:
    """Return the scales of blocks, float64, [channels out, blocks]; 0 for zeros.

    Args:
        op: An op for which ``why_no_blocks`` has no reason.
        steps: The integers that weights are stored as.

    Raises:
        ModelError: If the weight holds NaN or infinite values.
    """
    if weight.data is None:
        raise ValueError(f"tensor {weight.name!r} is not static")
    array = weight.numpy()
    rows = array if weight.rank == 2 else array[0, 0].T
    outputs = rows.shape[0]
    found = row_scales(rows.reshape(-1, size), weight, steps, fit).reshape(outputs, -1)
    weight.data.release()
    return found


def block_encoding(scales: Array, weight: Tensor, size: int, bits: int) -> BlockScaleOffset:
    """Return the encoding with one real scale per block, as float16 holds it.

    Args:
        scales: What ``block_scales`` found.
        bits: 2, 4, 8 or 16; fewer than eight are marked.
    """
    steps = _without_zeros(scales).astype(np.float32)
    with np.errstate(over="ignore"):
        half = steps.astype(np.float16).astype(np.float32)
    steps = np.where(np.isfinite(half) & (steps >= np.finfo(np.float16).tiny), half, steps)
    shape = (1, size) if weight.rank == 2 else (1, 1, size, 1)
    # Row-major over the blocks: FullyConnected has channels out first, Conv2d last.
    ordered = steps if weight.rank == 2 else steps.T
    return BlockScaleOffset(shape, ordered.reshape(-1), (), bits if bits < 8 else None)


def lpbq_encoding(scales: Array, weight: Tensor, *, clips: bool, floor: Array | None) -> BlockwiseExpansion:
    """Return the encoding with integer block scales over one real scale per channel.

    A block takes the next larger multiple of its channel's scale, or the nearest one if its own scale
    clips anyway.

    Args:
        scales: What ``block_scales`` found.
        clips: Whether the range method that found them clips.
        floor: Smallest scale of each output channel, so that a bias stays within 32 bits.
    """
    block_scales = _without_zeros(scales)
    channels = block_scales.max(axis=1) / _TOP
    if floor is not None:
        channels = np.maximum(channels, floor if floor.size == channels.size else floor.max(initial=0.0))
    channels = channels.astype(np.float32).astype(np.float64)
    ratios = block_scales / channels[:, None]
    # A hair less, so that a scale which is a multiple but for its last bit does not take the next one.
    integers = np.clip(np.rint(ratios) if clips else np.ceil(ratios * (1 - 2.0**-20)), 1, _TOP)
    return BlockwiseExpansion(
        3 if weight.rank == 4 else 0,
        tuple(channels.tolist()),
        (0,) * len(channels),
        block_scales.shape[1],
        LPBQ_BITS,
        tuple(integers.astype(int).reshape(-1).tolist()),
    )


def _without_zeros(scales: Array) -> Array:
    """Return scales in which blocks of zeros have that of the largest block."""
    return np.maximum(np.where(scales > 0, scales, scales.max(initial=0.0)), MIN_SCALE)


@dataclass(slots=True, eq=False)
class WeightFit:
    """Inputs for choosing a weight's form besides its data, and the chosen scales.

    Attributes:
        axis: Axis of the output channels; None: the op takes one scale only.
        bits: 2, 4, 8 or 16.
        floor: Smallest scale of each output channel that keeps the bias within 32 bits, or None.
        scales: Scale of each channel before floors raise it; None: no floor raises it.
        clipped: Number of values beyond the ends of their scales.
        largest: Largest value in units of its end.
    """

    axis: int | None
    bits: int
    floor: Array | None = None
    scales: Array | None = None
    clipped: int = 0
    largest: float = 0.0

    def counting(self, fit: Fit) -> Fit:
        """Return a range method that also counts the values that it clips."""

        def counted(rows: Array, steps: Steps) -> Array:
            scales = fit(rows, steps)
            each = np.maximum(scales, MIN_SCALE)
            ends = np.maximum(rows.max(axis=1) / steps.high, rows.min(axis=1) / steps.low) / each
            far = rows[ends > 1.0] / each[ends > 1.0, None]
            self.clipped += int(((far > steps.high + 0.5) | (far < steps.low - 0.5)).sum())
            self.largest = max(self.largest, float(ends.max()))
            return scales

        return counted


def weight_form(
    op: Op, tensor: Tensor, fitted: WeightFit, options: QuantOptions, notes: list[str]
) -> QuantType:
    """Return the stored form of an op's weight.

    Args:
        fitted: What it depends on beside the data; gets what the range method chose.
        options: Granularity, range method, schema and steps.
        notes: Gets a line where the form is not the requested one.

    Raises:
        ModelError: If the weight holds NaN or infinite values.
        UsageError: If there is no such range method.
    """
    axis = fitted.axis if _wants_channels(op, options) else None
    if options.weights_block_size is not None and axis is not None:
        reason = _why_not_in_blocks(op, tensor, fitted, options)
        if reason is None:
            notes += _note_on_parts(op, tensor, options)
            return _in_blocks(op, tensor, fitted, options)
        notes.append(f"weights of {op.name!r} get one scale per channel, not per block: {reason}")
    schema = legacy(options.param_quantizer_calibration)[1]
    if schema != "symmetric":
        schema = options.param_quantizer_schema
    if axis is None and fitted.bits == 8 and schema == "asymmetric":
        return UFIXED8, asymmetric(_asymmetric_range(tensor, options), 8, min_width=0.0)
    steps = weight_steps(fitted.bits, options)
    scales = channel_scales(tensor, axis, steps, fitted.counting(symmetric_method(options).fit))
    fitted.scales = scales
    encoding = weight_encoding(scales, axis, fitted.bits, fitted.floor)
    if isinstance(encoding, ScaleOffset) and fitted.bits == 8 and schema == "unsignedsymmetric":
        return UFIXED8, replace(encoding, offset=-128)
    return weight_type(fitted.bits), encoding


def _wants_channels(op: Op, options: QuantOptions) -> bool:
    if op.type in ("FullyConnected", "MatMul"):
        return bool(options.use_per_row_quantization)
    # HTP wants as many scales of the bias as the weight has, which groups make unequal.
    grouped = op.type.startswith("TransposeConv") and op.param("group", 1) != 1
    return bool(options.use_per_channel_quantization) and not grouped


def _asymmetric_range(tensor: Tensor, options: QuantOptions) -> Range:
    method = find_range_method(options.param_quantizer_calibration, weights=True)
    array = tensor.numpy()
    seen = checked_range(array, tensor)
    statistics = Statistics.of(seen, Histogram.of(array) if method.histogram else None)
    found = method.find(statistics, Grid(8, options.percentile_calibration_value))
    if tensor.data is not None:
        tensor.data.release()
    return found


def _why_not_in_blocks(op: Op, tensor: Tensor, fitted: WeightFit, options: QuantOptions) -> str | None:
    if options.use_lpbq and fitted.bits != LPBQ_BITS:
        return f"LPBQ needs weights of {LPBQ_BITS} bits, but these have {fitted.bits}"
    return why_no_blocks(op, tensor, options.weights_block_size or 1)


def _note_on_parts(op: Op, tensor: Tensor, options: QuantOptions) -> list[str]:
    """Return a note if HTP computes blockwise weights as weights of 8 bits."""
    size, features = options.weights_block_size or 1, tensor.shape[1 if tensor.rank == 2 else 2]
    if not options.use_lpbq or block_parts(size, features // size):
        return []
    return [
        f"HTP computes blocks of {size} of {features} channels wrongly: xdlc prepares weights of "
        f"{op.name!r} with 8 bits and a scale per channel; for 4 bits use blocks of 16 or 32, and a "
        "multiple of 32 channels"
    ]


def _in_blocks(op: Op, tensor: Tensor, fitted: WeightFit, options: QuantOptions) -> QuantType:
    size, method = options.weights_block_size or 1, symmetric_method(options)
    fit = fitted.counting(method.fit)
    scales = block_scales(op, tensor, size, weight_steps(fitted.bits, options), fit)
    dtype = weight_type(fitted.bits)
    if not options.use_lpbq:
        return dtype, block_encoding(scales, tensor, size, fitted.bits)
    fitted.scales = scales.max(axis=1) / _TOP
    return dtype, lpbq_encoding(scales, tensor, clips=method.name != "min-max", floor=fitted.floor)


def symmetric_method(options: QuantOptions) -> RangeMethod:
    """Return the range method of symmetric weights.

    Restricted steps have to hold all data.
    """
    method = find_range_method(options.param_quantizer_calibration, weights=True)
    return method if options.restrict_quantization_steps is None else find_range_method("min-max")
