"""Maximum pools of planes."""

from __future__ import annotations

import numpy

from xdlc.ir import Op, Tensor
from xdlc.ir.data import Array
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms._windows import pool_max
from xdlc.passes.htp_forms.registry import form


@form("PoolMax2d")
def _by_axis(w: Writer, op: Op, source: Tensor) -> bool:
    """Pool rows, then columns, where strides are 2, the width even and an odd number of columns is padded."""
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
        return pool_max(w, x, (batch, rows, width, channels), *window)

    w.finish(along(along(source, source.shape[2], down), columns, across))
    return True
