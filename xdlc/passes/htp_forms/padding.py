"""Convolutions whose padding is as wide as the kernel."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.data import Array
from xdlc.ir.dtype import UFIXED8, UFIXED16
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms._windows import wide
from xdlc.passes.htp_forms.registry import form


@form("Conv2d", "Conv3d", "DepthWiseConv2d")
def _apart(w: Writer, op: Op, source: Tensor) -> bool:
    """Pad by a kernel of one tap where padding at the start of an axis is as wide as the kernel.

    Fixed point is wrong along the first axis of two only.
    """
    weight, axes, is_fixed = op.inputs[1], source.rank - 2, source.dtype.is_fixed
    if weight is None or not ((is_fixed and axes == 2) or (source.dtype.is_float and weight.dtype.is_float)):
        return False
    kernel = numpy.array(weight.shape[:axes])
    pads = op.param("pad_amount", numpy.zeros((axes, 2))).astype(int)
    spans = (kernel - 1) * op.param("dilation", numpy.ones(axes)).astype(int) + 1
    leading = pads[:, 0] + _padded(source)
    if (kernel == 1).all() or not (leading >= spans)[: 1 if is_fixed else axes].any():
        return False
    shape = (source.shape[0], *(source.shape[1:-1] + pads.sum(1)), source.shape[-1])
    channels, ones = source.shape[-1], [1] * axes
    params: dict[str, ir.Param] = {"stride": ir.u32s(ones), "pad_amount": ir.u32s(pads)}
    if axes == 2:
        taps = numpy.ones((*ones, 1, channels))
        kind = "DepthWiseConv2d" if channels > 1 else "Conv2d"
    else:
        taps, kind = numpy.eye(channels).reshape(*ones, channels, channels), op.type
    numbers = w.constant(taps.astype(UFIXED8.numpy if is_fixed else weight.dtype.numpy))
    if is_fixed:
        numbers.dtype, numbers.encoding = UFIXED8, ir.ScaleOffset(1.0, 0)
    x, encoding = source, wide(source) if is_fixed and source.dtype.bits == 8 else None
    if encoding is not None:  # in 8 bits, rows alone are padded wrongly
        x = w.emit("Convert", [source], source.shape, {}, UFIXED16, encoding)
    padded = w.emit(kind, [x, numbers], shape, params, x.dtype, x.encoding)
    if encoding is not None:
        padded = w.emit("Convert", [padded], shape, {}, source.dtype, source.encoding)
    result = op.outputs[0]
    own = {**op.params, "pad_amount": ir.u32s(numpy.zeros((axes, 2)))}
    w.finish(w.emit(op.type, [padded, *op.inputs[1:]], result.shape, own, result.dtype, result.encoding))
    return True


def _padded(source: Tensor) -> Array:
    """Return by how many zeros an op before pads the start of each axis of an image."""
    before = source.producer
    if before is None or before.type != "Pad" or before.package != ir.NATIVE_PACKAGE:
        return numpy.zeros(source.rank - 2, int)
    amounts: Array = before.param("pad_amount")[1:-1, 0]
    return amounts.astype(int)
