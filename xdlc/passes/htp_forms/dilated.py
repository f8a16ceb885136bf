"""Convolutions with dilated kernels."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import MISSING, form


@form("DepthWiseConv2d", "TransposeConv3d", reason=MISSING)
def _spread(w: Writer, op: Op, source: Tensor) -> bool:
    """Write the zeros between the weights out."""
    weight, dilation = op.inputs[1], op.param("dilation", numpy.ones(1)).astype(int)
    strides = op.param("stride", numpy.ones(1))
    if weight is None or weight.data is None or (dilation == 1).all():
        return False
    if op.type == "DepthWiseConv2d" and (strides == 1).all():
        return False
    axes = len(dilation)
    array = weight.numpy()
    zero = w.zero_of(weight)
    if zero is None:
        return False
    shape = ((numpy.array(array.shape[:axes]) - 1) * dilation + 1).tolist()
    spread = numpy.full((*shape, *array.shape[axes:]), zero, array.dtype)
    spread[tuple(slice(None, None, int(step)) for step in dilation)] = array
    params = {**op.params, "dilation": ir.u32s([1] * axes)}
    inputs = [source, w.like(weight, spread), *op.inputs[2:]]
    w.graph.replace_op(op, Op(op.type, inputs, op.outputs, params, name=op.name, origin=op.origin))
    return True
