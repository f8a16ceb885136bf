"""Transposed convolutions of volumes."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form


@form("TransposeConv3d")
def _uncut(w: Writer, op: Op, source: Tensor) -> bool:
    """Cut the padding off afterwards where it differs between axes: HTP computes other numbers."""
    result, pads = op.outputs[0], op.param("pad_amount", numpy.zeros((3, 2))).astype(int)
    if (pads == pads[0, 0]).all():
        return False
    params = {**op.params, "pad_amount": ir.u32s(numpy.zeros((3, 2), int))}
    shape = (result.shape[0], *numpy.add(result.shape[1:4], pads.sum(1)).tolist(), result.shape[4])
    x = w.emit(op.type, op.inputs, shape, params, result.dtype, result.encoding)
    for axis, before in enumerate(pads[:, 0].tolist(), 1):
        x = w.sliced(x, axis, before, before + result.shape[axis])
    w.finish(x)
    return True
