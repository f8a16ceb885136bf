"""Average pools of volumes."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.opdefs.elementwise_enums import MULTIPLY
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms._windows import covered
from xdlc.passes.htp_forms.registry import form


@form("PoolAvg3d")
def _counted(w: Writer, op: Op, source: Tensor) -> bool:
    """Count no padding, and multiply by the part of each window that covers none."""
    result, pads = op.outputs[0], op.param("pad_amount", numpy.zeros((3, 2))).astype(int)
    dtype = result.dtype
    if not op.param("count_pad_for_edges", False):
        return False
    params = {**op.params, "count_pad_for_edges": ir.b8(False)}
    kernel, stride = (op.param(name).astype(int) for name in ("filter_size", "stride"))
    part = covered(source.shape[1:4], result.shape[1:4], kernel, stride, pads)[None, ..., None]
    if (part == 1).all():
        w.finish(w.emit("PoolAvg3d", [source], result.shape, params, dtype, result.encoding))
        return True
    mean = w.emit("PoolAvg3d", [source], result.shape, params, dtype, source.encoding)
    largest = dtype.limits[1] if dtype.is_fixed else 1
    factor = w.constant((numpy.rint(part * largest) if dtype.is_fixed else part).astype(dtype.numpy))
    if dtype.is_fixed:
        factor.dtype, factor.encoding = dtype, ir.ScaleOffset(1 / largest, 0)
    w.finish(w.binary(MULTIPLY, mean, factor, dtype, result.encoding))
    return True


@form("PoolAvg3d")
def _depth_alone(w: Writer, op: Op, source: Tensor) -> bool:
    """Pad the end of the width too where the start of the depth alone is padded, and cut that off."""
    result, pads = op.outputs[0], op.param("pad_amount", numpy.zeros((3, 2))).astype(int)
    if not pads[0, 0] or pads[1:].any():
        return False
    kernel, stride = (op.param(name).astype(int) for name in ("filter_size", "stride"))
    overhang = (numpy.array(result.shape[1:4]) - 1) * stride + kernel - source.shape[1:4] - pads[:, 0]
    pads[:, 1] = numpy.maximum(pads[:, 1], overhang)
    pads[2, 1] = overhang[2] + stride[2]
    params = {**op.params, "pad_amount": ir.u32s(pads), "rounding_mode": ir.u32(0)}
    *sizes, columns, channels = result.shape
    x = w.emit(op.type, [source], (*sizes, columns + 1, channels), params, result.dtype, result.encoding)
    w.finish(w.sliced(x, 3, 0, columns))
    return True
