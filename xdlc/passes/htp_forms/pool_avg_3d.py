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
    if not result.dtype.is_float or not op.param("count_pad_for_edges", False) or not pads.any():
        return False
    if op.param("rounding_mode", 0):
        return False
    params = {**op.params, "count_pad_for_edges": ir.b8(False)}
    mean = w.emit("PoolAvg3d", [source], result.shape, params, result.dtype)
    kernel, stride = (op.param(name).astype(int) for name in ("filter_size", "stride"))
    part = covered(source.shape[1:4], result.shape[1:4], kernel, stride, pads)
    w.finish(w.binary(MULTIPLY, mean, w.constant(part[None, ..., None].astype(result.dtype.numpy))))
    return True
