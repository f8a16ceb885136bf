"""Pools of planes and volumes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.data import Array
from xdlc.ir.dtype import SFIXED8, UFIXED8, UFIXED16
from xdlc.opdefs.elementwise_enums import MULTIPLY, SQRT
from xdlc.passes._writing import Writer, widened
from xdlc.passes.avoid_faults import MISSING, form

_BLOCK = 32
"""Channels above which HTP takes the first windows from other places, where rows alone are padded."""


@form("PoolAvg2d")
def _convolution_of_ones(w: Writer, op: Op, source: Tensor) -> bool:
    """Write an average pool of floats as a convolution with ones.

    That holds where padding is counted, uneven, of half a window, of rows alone, or of a
    channel.

    Without padding, convolve where a result has few columns and channels, many rows and strides of 1.

    What the last window covers beyond the end, where a size is rounded up, is padding as well.
    """
    result, kernel, stride = (
        op.outputs[0],
        op.param("filter_size").astype(int),
        op.param("stride").astype(int),
    )
    counted = bool(op.param("count_pad_for_edges", False))
    before, channels = source.producer, source.shape[-1]
    if not result.dtype.is_float:
        return False
    pads = op.param("pad_amount", numpy.zeros((2, 2))).astype(int)
    is_padded = before is not None and before.type == "Pad" and before.package == ir.NATIVE_PACKAGE
    if before is not None and is_padded and channels == 1 and not pads.any():
        amounts = before.param("pad_amount").astype(int)
        fill = before.params.get("pad_constant_value", ir.f32(0.0))
        if before.param("scheme") or not isinstance(fill, ir.Scalar) or fill.value or amounts[[0, 3]].any():
            return False
        assert before.inputs[0] is not None
        source, pads, counted = before.inputs[0], amounts[1:3], True
    ends = (numpy.array(result.shape[1:3]) - 1) * stride + kernel - source.shape[1:3] - pads[:, 0]
    is_even = (ends <= pads[:, 1]).all() and (pads[:, 0] == pads[:, 1]).all()
    pads[:, 1] = numpy.maximum(pads[:, 1], ends)
    is_even = is_even and bool(channels <= _BLOCK or pads[1].any())
    if not pads.any():
        if not _is_narrow(result, kernel, stride):
            return False
    elif is_even and not counted and (2 * pads[:, 0] < kernel).all():
        return False
    if (pads >= kernel[:, None]).any():
        return False
    weight = w.constant(numpy.full((*kernel, 1, channels), 1 / kernel.prod(), result.dtype.numpy))
    params: dict[str, ir.Param] = {"stride": ir.u32s(stride), "pad_amount": ir.u32s(pads)}
    mean = w.emit("DepthWiseConv2d", [source, weight], result.shape, params, result.dtype)
    if not counted and pads.any():
        mean = w.binary(MULTIPLY, mean, w.constant((1 / _covered(op)).astype(result.dtype.numpy)))
    w.finish(mean)
    return True


def _is_narrow(result: Tensor, kernel: Array, stride: Array) -> bool:
    """Return whether HTP misplaces the windows of a pool without padding."""
    _, rows, columns, channels = result.shape
    is_special = channels > 1 and kernel.tolist() in ([3, 3], [5, 5])
    return (stride == 1).all() and not is_special and rows > 8 and 1 < columns < 14 and channels <= _BLOCK


@form("PoolAvg2d")
def _one_plane(w: Writer, op: Op, source: Tensor) -> bool:
    """Pool fixed point as a volume with one plane, in 16 bits.

    HTP counts the padding of planes wrongly.

    Volumes of 8 bits are rounded otherwise, by a step.
    """
    result, encoding = op.outputs[0], op.outputs[0].encoding
    if not result.dtype.is_fixed or _is_right(op, source):
        return False
    (batch, *sizes), (_, *results) = source.shape, result.shape
    kind, x = result.dtype, source
    if {source.dtype, kind} == {UFIXED8} and (fine := widened(result)) is not None:
        kind, encoding = UFIXED16, fine
        x = w.convert(x, kind, source.encoding)
    window: dict[str, ir.Param] = {name: ir.u32s([1, *op.param(name)]) for name in ("filter_size", "stride")}
    window["pad_amount"] = ir.u32s([[0, 0], *op.param("pad_amount", numpy.zeros((2, 2)))])
    x = w.reshape(x, (batch, 1, *sizes))
    x = w.emit("PoolAvg3d", [x], (batch, 1, *results), {**op.params, **window}, kind, encoding)
    x = w.reshape(x, result.shape)
    w.finish(w.convert(x, result.dtype, result.encoding))
    return True


def _is_right(op: Op, source: Tensor) -> bool:
    """Return whether HTP pools fixed point as the op specifies."""
    pads, reached = op.param("pad_amount", numpy.zeros((2, 2))).astype(int), _reached_pads(op)
    kernel, stride = (op.param(name).astype(int) for name in ("filter_size", "stride"))
    is_like = bool((pads == pads[0, 0]).all() and (stride < kernel).all())
    if op.param("count_pad_for_edges", False):
        return is_like or not pads[:, 0].any()
    if (reached[:, 1] > pads[:, 1]).any() or (2 * pads >= kernel[:, None]).any():
        return False
    return not pads[:, 0].any() or (is_like and source.shape[-1] > 1)


@form("PoolAvg3d")
def _counted_padding(w: Writer, op: Op, source: Tensor) -> bool:
    """Pad before the pool, and count no padding."""
    if not op.param("count_pad_for_edges", False):
        return False
    params: dict[str, ir.Param] = {"count_pad_for_edges": ir.b8(False), "rounding_mode": ir.u32(0)}
    params["pad_amount"] = ir.u32s(numpy.zeros((3, 2), int))
    w.finish(w.again([w.padded(source, _reached_pads(op))], op.outputs[0].shape, **params))
    return True


@form("PoolAvg3d")
def _no_columns(w: Writer, op: Op, source: Tensor) -> bool:
    """Pad the end of the width too, and slice the result.

    HTP is wrong where other axes alone are padded.

    Padding at the end of the depth is right in floats.
    """
    result, stated = op.outputs[0], op.param("pad_amount", numpy.zeros((3, 2))).astype(int)
    is_wrong = stated[:2, 0].any() or (result.dtype.is_fixed and stated[0, 1])
    if not is_wrong or stated[2].any():
        return False
    pads = _reached_pads(op)
    pads[2, 1] += op.param("stride").astype(int)[2]
    *sizes, columns, channels = result.shape
    window: dict[str, ir.Param] = {"pad_amount": ir.u32s(numpy.maximum(pads, 0)), "rounding_mode": ir.u32(0)}
    x = w.again([source], (*sizes, columns + 1, channels), **window)
    w.finish(w.sliced(x, 3, 0, columns))
    return True


@form("PoolAvg3d")
def _unsigned(w: Writer, op: Op, source: Tensor) -> bool:
    """Pool signed 8-bit fixed point as unsigned 16 bits.

    HTP rounds it by up to two steps.
    """
    result, before, after = op.outputs[0], widened(source), widened(op.outputs[0])
    if source.dtype is not SFIXED8 or before is None or after is None:
        return False
    x = w.convert(source, UFIXED16, before)
    x = w.emit(op.type, [x], result.shape, op.params, UFIXED16, after)
    w.finish(w.convert(x, result.dtype, result.encoding))
    return True


@form("L2Pool2d", reason=MISSING)
def _root_of_average(w: Writer, op: Op, source: Tensor) -> bool:
    """Multiply the root of the average of squares by that of their number."""
    result, kernel = op.outputs[0], op.param("filter_size")
    if not source.dtype.is_float:
        return False
    params = {**op.params, "count_pad_for_edges": ir.b8(True)}
    mean = w.emit("PoolAvg2d", [w.binary(MULTIPLY, source, source)], result.shape, params, source.dtype)
    number = w.number(math.sqrt(kernel.prod()), source.dtype)
    w.finish(w.binary(MULTIPLY, w.unary(SQRT, mean), number))
    return True


@form("PoolMax2d")
def _maximum_by_axis(w: Writer, op: Op, source: Tensor) -> bool:
    """Pool rows, then columns.

    HTP is wrong for strides of 2, an even width and an odd padding of columns.
    """
    kernel, stride = (op.param(name).astype(int) for name in ("filter_size", "stride"))
    pads = op.param("pad_amount", numpy.zeros((2, 2))).astype(int)
    if not source.dtype.is_float or stride.tolist() != [2, 2] or kernel[1] % 2 or pads[1, 0] % 2 == 0:
        return False
    if op.param("rounding_mode", 0):
        return False
    batch, rows, columns, channels = op.outputs[0].shape
    down, across = numpy.array([True, False]), numpy.array([False, True])

    def along(x: Tensor, width: int, axis: Array) -> Tensor:
        window = (numpy.where(axis, kernel, 1), numpy.where(axis, stride, 1), pads * axis[:, None])
        return _pool_max(w, x, (batch, rows, width, channels), *window)

    w.finish(along(along(source, source.shape[2], down), columns, across))
    return True


@form("PoolMax3d", reason=MISSING)
def _maximum_of_planes(w: Writer, op: Op, source: Tensor) -> bool:
    """Pool planes of height and width, then pool along the depth."""
    result = op.outputs[0]
    if source.encoding != result.encoding:
        return False
    kernel, stride = (op.param(name).astype(int) for name in ("filter_size", "stride"))
    pads = op.param("pad_amount", numpy.zeros((3, 2))).astype(int)
    batch, depth, height, width, channels = source.shape
    _, deep, high, wide, _ = result.shape
    x = w.reshape(source, (batch * depth, height, width, channels))
    shape, rounding = (batch * depth, high, wide, channels), int(op.param("rounding_mode", 0))
    x = _pool_max(w, x, shape, kernel[1:], stride[1:], pads[1:], rounding)
    x = w.reshape(x, (batch, depth, high * wide, channels))
    one, none = numpy.ones(1, int), numpy.zeros((1, 2), int)
    window = (numpy.append(kernel[0], one), numpy.append(stride[0], one), numpy.append(pads[:1], none, 0))
    x = _pool_max(w, x, (batch, deep, high * wide, channels), *window, rounding)
    w.finish(w.reshape(x, result.shape))
    return True


def _pool_max(
    w: Writer, x: Tensor, shape: Sequence[int], kernel: Array, stride: Array, pads: Array, rounding: int = 0
) -> Tensor:
    """Insert a PoolMax2d with the encoding of its input."""
    windows = {"filter_size": kernel, "stride": stride, "pad_amount": pads}
    params: dict[str, ir.Param] = {name: ir.u32s(numbers) for name, numbers in windows.items()}
    params["rounding_mode"] = ir.u32(rounding)
    return w.emit("PoolMax2d", [x], shape, params, x.dtype, x.encoding)


def _covered(op: Op) -> Array:
    """Return the share of each pooling window that covers no padding."""
    kernel, stride = (op.param(name).astype(int) for name in ("filter_size", "stride"))
    assert op.inputs[0] is not None
    parts = []
    for axis, before in enumerate(_pads(op)[:, 0]):
        start = numpy.arange(op.outputs[0].shape[axis + 1]) * stride[axis] - before
        stop = numpy.minimum(start + kernel[axis], op.inputs[0].shape[axis + 1])
        parts.append((stop - numpy.maximum(start, 0)) / kernel[axis])
    return reduce(numpy.multiply.outer, parts)[None, ..., None]


def _reached_pads(op: Op) -> Array:
    """Return the padding that the windows of a pool reach.

    It is negative where they miss the end.
    """
    pads = _pads(op)
    kernel, stride = (op.param(name).astype(int) for name in ("filter_size", "stride"))
    assert op.inputs[0] is not None
    spans = (numpy.array(op.outputs[0].shape[1:-1]) - 1) * stride + kernel
    pads[:, 1] = spans - op.inputs[0].shape[1:-1] - pads[:, 0]
    return pads


def _pads(op: Op) -> Array:
    axes = len(op.param("filter_size"))
    return op.param("pad_amount", numpy.zeros((axes, 2))).astype(int)
