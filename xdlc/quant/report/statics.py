"""Quality of static data as stored."""

from __future__ import annotations

from xdlc.ir import AxisScaleOffset, BlockScaleOffset, BlockwiseExpansion, Encoding, Op, ScaleOffset, Tensor
from xdlc.ir.data import Array
from xdlc.ir.dtype import DType
from xdlc.ir.quantization import float_data, quantized_limits, scale_and_offset, to_float, to_quantized
from xdlc.quant.calibration.statistics import Histogram
from xdlc.quant.noise_power import Noise
from xdlc.quant.op_specs import rule_of
from xdlc.quant.ranges import range_of
from xdlc.quant.report.comparison import Subject
from xdlc.quant.report.model import Bars, ChannelRanges, TensorReport
from xdlc.quant.report.quality import spread

MOST = 80
"""Most bins of a picture."""


def bars(histogram: Histogram) -> Bars | None:
    """Return a histogram with neighbouring bins joined until ``MOST`` are left; None of an empty one.

    Example:
        >>> import numpy as np
        >>> bars(Histogram.of(np.float32([0.0, 0.5, 0.75]))).counts[0]
        1
    """
    import numpy as np

    if not histogram.counts.size:
        return None
    # Whole numbers of bins are joined, so that counts stay exact.
    joined = -(-histogram.counts.size // MOST)
    counts = np.add.reduceat(histogram.counts, np.arange(0, histogram.counts.size, joined))
    width = histogram.width * joined
    return Bars(histogram.first * histogram.width, width, tuple(int(count) for count in counts))


CHANNELS = 128
"""Most ranges that are kept of a weight's channels; more are joined, neighbour to neighbour."""


def used_bits(dtype: DType, encoding: Encoding | None) -> int | None:
    """Return the bits that a quantized value uses, None for other types."""
    if not dtype.is_fixed:
        return None
    return getattr(encoding, "bits", None) or dtype.bits


def report_static(
    subject: Subject, op: Op, index: int, order: int, sensitivity: float | None = None
) -> TensorReport:
    """Return what becomes of a static tensor of an op.

    Args:
        order: Place of the op in the order of execution.
        sensitivity: That of all static data of the op.
    """
    twin = subject.reference_ops[op.name]
    tensor, stored = twin.inputs[index], subject.stored_statics[op.name, index]
    if tensor is None or tensor.data is None:
        raise ValueError(f"input {index} of op {op.name!r} is not static")
    source = tensor if not tensor.dtype.is_fixed else None
    values = (tensor.numpy() if source is not None else float_data(tensor).numpy()).reshape(tensor.shape)
    role = _role(op, index)
    dtype, encoding = subject.statics[op, index]
    form = Tensor(stored.name, tensor.shape, dtype, encoding)
    # A corrected bias differs on purpose; what is reported of biases is their rounding.
    held = (
        to_float(to_quantized(values, form), encoding, where=f"tensor {tensor.name!r}")
        if role == "bias"
        else float_data(stored).numpy()
    )
    noise = Noise()
    noise.add(values, held.reshape(values.shape))
    scale, offset = scale_and_offset(encoding, tensor.shape, where=f"tensor {tensor.name!r}")
    low, high = quantized_limits(form)
    ends = [(low + offset) * scale, (high + offset) * scale]
    seen = range_of(values)
    return TensorReport(
        tensor.name,
        op.name,
        order,
        role,
        tensor.shape,
        str(dtype),
        bits=used_bits(dtype, encoding),
        granularity=_granularity(encoding),
        scale=float(scale.max()),
        scale_low=None if isinstance(encoding, ScaleOffset) else float(scale.min()),
        offset=encoding.offset if isinstance(encoding, ScaleOffset) else None,
        grid_low=float(ends[0].min()),
        grid_high=float(ends[1].max()),
        seen_low=None if seen.is_empty else seen.low,
        seen_high=None if seen.is_empty else seen.high,
        isolated=noise.db,
        sensitivity=sensitivity if role == "weight" else None,
        source=_source(subject, op, index),
        histogram=bars(Histogram.of(spread(values))),
        channels=channel_ranges(values, encoding),
    )


def _role(op: Op, index: int) -> str:
    rule = rule_of(op)
    if rule is not None and rule.is_weighted and index in (1, 2):
        return "weight" if index == 1 else "bias"
    return "constant"


def _source(subject: Subject, op: Op, index: int) -> str:
    tensor, options = op.inputs[index], subject.plan.options
    if tensor in subject.plan.decision.sources:
        return subject.plan.decision.sources[tensor]
    if tensor is not None and tensor.encoding is not None:
        return "given"
    if _role(op, index) == "bias" and subject.statics[op, index][0].bits == 32:
        return "scale of the input times that of the weight"
    return f"range method {options.param_quantizer_calibration} on its data"


def _granularity(encoding: Encoding) -> str:
    if isinstance(encoding, BlockScaleOffset | BlockwiseExpansion):
        return "block"
    return "channel" if isinstance(encoding, AxisScaleOffset) else "tensor"


def channel_ranges(values: Array, encoding: Encoding) -> ChannelRanges | None:
    """Return the ranges along the axis that an encoding divides, None if it divides none."""
    import numpy as np

    axis = getattr(encoding, "axis", None)
    if axis is None or not values.size:
        return None
    rows = np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)
    starts = np.arange(0, len(rows), -(-len(rows) // CHANNELS))
    lows = np.minimum.reduceat(rows.min(axis=1), starts)
    highs = np.maximum.reduceat(rows.max(axis=1), starts)
    return ChannelRanges(axis, len(rows), tuple(map(float, lows)), tuple(map(float, highs)))
