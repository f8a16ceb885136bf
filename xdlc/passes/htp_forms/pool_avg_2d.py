"""Average pools of planes."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.data import Array
from xdlc.opdefs.elementwise_enums import MULTIPLY
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms._windows import covered
from xdlc.passes.htp_forms.registry import form


@form("PoolAvg2d")
def _convolution_of_ones(w: Writer, op: Op, source: Tensor) -> bool:
    """Convolve where padding is counted, uneven or wider than half the window, or padded is one channel.

    Without padding, convolve where a result has few columns and channels, many rows and strides of 1.

    What the last window covers beyond the end, where a size is rounded up, is padding as well.
    """
    result, kernel, stride = (
        op.outputs[0],
        op.param("filter_size").astype(int),
        op.param("stride").astype(int),
    )
    pads = op.param("pad_amount", numpy.zeros((2, 2))).astype(int)
    counted = bool(op.param("count_pad_for_edges", False))
    before, channels = source.producer, source.shape[-1]
    if not result.dtype.is_float:
        return channels == 1 and pads.any() and not counted and _two_channels(w, op, source)
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
        share = 1 / covered(source.shape[1:3], result.shape[1:3], kernel, stride, pads)
        mean = w.binary(MULTIPLY, mean, w.constant(share[None, ..., None].astype(result.dtype.numpy)))
    w.finish(mean)
    return True


def _is_narrow(result: Tensor, kernel: Array, stride: Array) -> bool:
    """Return whether HTP takes the windows of a pool without padding from other places."""
    _, rows, columns, channels = result.shape
    is_special = channels > 1 and kernel.tolist() in ([3, 3], [5, 5])
    return (stride == 1).all() and not is_special and rows > 8 and 1 < columns < 14 and channels <= 32


def _two_channels(w: Writer, op: Op, source: Tensor) -> bool:
    """Pool a channel twice, for that of a single one counts the padding."""
    result = op.outputs[0]
    both, shape = w.joined([source] * 2, 3), (*result.shape[:-1], 2)
    means = w.emit("PoolAvg2d", [both], shape, op.params, result.dtype, result.encoding)
    w.finish(w.sliced(means, 3, 0, 1))
    return True
