"""Convolutions with large kernels."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import FLOAT32
from xdlc.opdefs.elementwise_enums import ADD
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms._windows import LONGEST
from xdlc.passes.htp_forms.registry import form


@form("Conv2d")
def _halves(w: Writer, op: Op, source: Tensor) -> bool:
    """Convolve with halves of a kernel of more than 8 rows or columns where both strides are 2."""
    weight, result = op.inputs[1], op.outputs[0]
    if weight is None or {result.dtype, weight.dtype} != {FLOAT32} or list(op.param("stride")) != [2, 2]:
        return False
    if numpy.any(op.param("dilation", 1) != 1):
        return False
    axis = int(numpy.argmax(weight.shape[:2]))
    size = weight.shape[axis]
    if size <= LONGEST:
        return False
    own = op.param("pad_amount").astype(int)
    around = numpy.zeros_like(own)
    around[axis], own[axis], total = own[axis], 0, None
    source = w.padded(source, around)
    for first, last in ((0, size // 2), (size // 2, size)):
        part = w.sliced(source, 1 + axis, first, last + 2 * (result.shape[1 + axis] - 1))
        inputs = [part, w.sliced(weight, axis, first, last), *(op.inputs[2:] if first else ())]
        half = w.emit("Conv2d", inputs, result.shape, {**op.params, "pad_amount": ir.u32s(own)})
        total = half if total is None else w.binary(ADD, total, half)
    w.finish(total)
    return True
