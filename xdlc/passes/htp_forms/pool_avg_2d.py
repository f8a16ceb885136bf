"""Average pools of planes."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.data import Array
from xdlc.ir.dtype import UFIXED8, UFIXED16
from xdlc.opdefs.elementwise_enums import MULTIPLY
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms._windows import covered, reached_pads, wide
from xdlc.passes.htp_forms.registry import form

_BLOCK = 32
"""Channels above which HTP takes the first windows from other places, where rows alone are padded."""


@form("PoolAvg2d")
def _convolution_of_ones(w: Writer, op: Op, source: Tensor) -> bool:
    """Convolve floats where padding is counted, uneven, of half a window, of rows alone, or of a channel.

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
        mean = w.binary(MULTIPLY, mean, w.constant((1 / covered(op)).astype(result.dtype.numpy)))
    w.finish(mean)
    return True


def _is_narrow(result: Tensor, kernel: Array, stride: Array) -> bool:
    """Return whether HTP takes the windows of a pool without padding from other places."""
    _, rows, columns, channels = result.shape
    is_special = channels > 1 and kernel.tolist() in ([3, 3], [5, 5])
    return (stride == 1).all() and not is_special and rows > 8 and 1 < columns < 14 and channels <= _BLOCK


@form("PoolAvg2d")
def _one_plane(w: Writer, op: Op, source: Tensor) -> bool:
    """Pool fixed point as a volume of one plane, in 16 bits, where HTP counts padding wrongly.

    Volumes of 8 bits are rounded otherwise, by a step.
    """
    result, encoding = op.outputs[0], op.outputs[0].encoding
    if not result.dtype.is_fixed or _is_right(op, source):
        return False
    (batch, *sizes), (_, *results) = source.shape, result.shape
    kind, x = result.dtype, source
    if {source.dtype, kind} == {UFIXED8} and (fine := wide(result)) is not None:
        kind, encoding = UFIXED16, fine
        x = w.emit("Convert", [x], x.shape, {}, kind, source.encoding)
    window: dict[str, ir.Param] = {name: ir.u32s([1, *op.param(name)]) for name in ("filter_size", "stride")}
    window["pad_amount"] = ir.u32s([[0, 0], *op.param("pad_amount", numpy.zeros((2, 2)))])
    x = w.reshape(x, (batch, 1, *sizes))
    x = w.emit("PoolAvg3d", [x], (batch, 1, *results), {**op.params, **window}, kind, encoding)
    x = w.reshape(x, result.shape)
    if kind is not result.dtype:
        x = w.emit("Convert", [x], result.shape, {}, result.dtype, result.encoding)
    w.finish(x)
    return True


def _is_right(op: Op, source: Tensor) -> bool:
    """Return whether HTP pools fixed point as the op states it."""
    pads, reached = op.param("pad_amount", numpy.zeros((2, 2))).astype(int), reached_pads(op)
    kernel, stride = (op.param(name).astype(int) for name in ("filter_size", "stride"))
    is_like = bool((pads == pads[0, 0]).all() and (stride < kernel).all())
    if op.param("count_pad_for_edges", False):
        return is_like or not pads[:, 0].any()
    if (reached[:, 1] > pads[:, 1]).any() or (2 * pads >= kernel[:, None]).any():
        return False
    return not pads[:, 0].any() or (is_like and source.shape[-1] > 1)
