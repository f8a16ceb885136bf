"""Maximum pools of planes."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.data import Array
from xdlc.passes._writing import Writer
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
    tall = _pool(w, source, (batch, rows, source.shape[2], channels), kernel, stride, pads, 0)
    w.finish(_pool(w, tall, (batch, rows, columns, channels), kernel, stride, pads, 1))
    return True


def _pool(
    w: Writer, x: Tensor, shape: tuple[int, ...], kernel: Array, stride: Array, pads: Array, axis: int
) -> Tensor:
    """Insert a pool along one axis."""
    params: dict[str, ir.Param] = {}
    for name, values, neutral in (("filter_size", kernel, 1), ("stride", stride, 1), ("pad_amount", pads, 0)):
        own = numpy.full_like(values, neutral)
        own[axis] = values[axis]
        params[name] = ir.u32s(own)
    return w.emit("PoolMax2d", [x], shape, params, x.dtype)
