"""The stored form of one weight: which integers, and how many scales."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdlc.ir import Op, ScaleOffset, Tensor
from xdlc.ir.data import Array
from xdlc.ir.dtype import UFIXED8
from xdlc.quant.affine import asymmetric, weight_type
from xdlc.quant.block_scales import LPBQ_BITS, block_encoding, block_scales, lpbq_encoding, why_no_blocks
from xdlc.quant.calibration.statistics import Histogram, Statistics
from xdlc.quant.decision import Form
from xdlc.quant.options import QuantOptions
from xdlc.quant.range_methods import Grid, find_range_method, legacy
from xdlc.quant.ranges import Range
from xdlc.quant.weight_methods import find_weight_method, weight_method_name
from xdlc.quant.weights import channel_scales, checked_range, weight_encoding, weight_steps


@dataclass(frozen=True, slots=True)
class Around:
    """What the form of a weight depends on beside its data.

    Attributes:
        axis: Axis of the output channels; None: the op takes one scale only.
        bits: 2, 4, 8 or 16.
        floor: Smallest scale of each output channel that keeps the bias within 32 bits, or None.
    """

    axis: int | None
    bits: int
    floor: Array | None = None


def weight_form(op: Op, tensor: Tensor, around: Around, options: QuantOptions, notes: list[str]) -> Form:
    """Return the stored form of an op's weight.

    Args:
        op: The op.
        tensor: Its weight, static floats.
        around: What it depends on beside the data.
        options: Granularity, range method, schema and steps.
        notes: Gets a line where the form is not the one that was asked for.

    Raises:
        ModelError: If the weight holds NaN or infinite values.
        UsageError: If there is no such range method.
    """
    axis = around.axis if _wants_channels(op, options) else None
    if options.weights_block_size is not None and axis is not None:
        reason = _why_not_in_blocks(op, tensor, around, options)
        if reason is None:
            return _in_blocks(op, tensor, around, options)
        notes.append(f"weights of {op.name!r} have one scale per channel, not per block: {reason}")
    schema = legacy(options.param_quantizer_calibration)[1]
    if schema != "symmetric":
        schema = options.param_quantizer_schema
    if axis is None and around.bits == 8 and schema == "asymmetric":
        return UFIXED8, asymmetric(_asymmetric_range(tensor, options), 8, min_width=0.0)
    steps = weight_steps(around.bits, options)
    fit = find_weight_method(symmetric_method(options, around.bits), around.bits)
    scales = channel_scales(tensor, axis, steps, fit)
    encoding = weight_encoding(scales, axis, around.bits, around.floor)
    if isinstance(encoding, ScaleOffset) and around.bits == 8 and schema == "unsignedsymmetric":
        return UFIXED8, replace(encoding, offset=-128)
    return weight_type(around.bits), encoding


def _wants_channels(op: Op, options: QuantOptions) -> bool:
    if op.type in ("FullyConnected", "MatMul"):
        return options.use_per_row_quantization
    # HTP wants as many scales of the bias as the weight has, which groups make unequal.
    grouped = op.type.startswith("TransposeConv") and op.param("group", 1) != 1
    return options.use_per_channel_quantization and not grouped


def _asymmetric_range(tensor: Tensor, options: QuantOptions) -> Range:
    name = options.param_quantizer_calibration
    method = find_range_method(weight_method_name(name, 8), "param_quantizer_calibration")
    array = tensor.numpy()
    seen = checked_range(array, tensor)
    statistics = Statistics.of(seen, Histogram.of(array) if method.histogram else None)
    found = method.find(statistics, Grid(8, percentile=options.percentile_calibration_value))
    if tensor.data is not None:
        tensor.data.release()
    return found


def _why_not_in_blocks(op: Op, tensor: Tensor, around: Around, options: QuantOptions) -> str | None:
    if options.use_lpbq and around.bits != LPBQ_BITS:
        return f"LPBQ is for weights of {LPBQ_BITS} bits, these have {around.bits}"
    return why_no_blocks(op, tensor, options.weights_block_size or 1)


def _in_blocks(op: Op, tensor: Tensor, around: Around, options: QuantOptions) -> Form:
    size, name = options.weights_block_size or 1, symmetric_method(options, around.bits)
    steps, fit = weight_steps(around.bits, options), find_weight_method(name, around.bits)
    scales = block_scales(op, tensor, size, steps, fit)
    dtype = weight_type(around.bits)
    if not options.use_lpbq:
        return dtype, block_encoding(scales, tensor, size, around.bits)
    return dtype, lpbq_encoding(scales, tensor, clips=name != "min-max", floor=around.floor)


def symmetric_method(options: QuantOptions, bits: int) -> str:
    """Return the range method of symmetric weights; restricted steps have to hold all data."""
    name = weight_method_name(options.param_quantizer_calibration, bits)
    return name if options.restrict_quantization_steps is None else "min-max"
