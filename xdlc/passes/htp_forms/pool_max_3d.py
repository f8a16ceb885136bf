"""Maximum pools of volumes."""

from __future__ import annotations

import numpy

from xdlc.ir import Op, Tensor
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms._windows import pool_max
from xdlc.passes.htp_forms.registry import MISSING, form


@form("PoolMax3d", reason=MISSING)
def _planes(w: Writer, op: Op, source: Tensor) -> bool:
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
    x = pool_max(w, x, shape, kernel[1:], stride[1:], pads[1:], rounding)
    x = w.reshape(x, (batch, depth, high * wide, channels))
    one, none = numpy.ones(1, int), numpy.zeros((1, 2), int)
    window = (numpy.append(kernel[0], one), numpy.append(stride[0], one), numpy.append(pads[:1], none, 0))
    x = pool_max(w, x, (batch, deep, high * wide, channels), *window, rounding)
    w.finish(w.reshape(x, result.shape))
    return True
