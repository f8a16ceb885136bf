"""Depthwise convolutions."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.opdefs.elementwise_enums import ADD
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms._windows import LONGEST
from xdlc.passes.htp_forms.registry import form

_WRONG_STRIDES = [1, 2], [3, 3]


@form("DepthWiseConv2d")
def _one_channel(w: Writer, op: Op, source: Tensor) -> bool:
    """Convolve one channel as a whole, which for each is the same."""
    if source.shape[-1] != 1 or not source.dtype.is_float:
        return False
    params = {**op.params, "group": ir.u32(1)}
    w.graph.replace_op(op, Op("Conv2d", op.inputs, op.outputs, params, name=op.name, origin=op.origin))
    return True


@form("DepthWiseConv2d")
def _bias_apart(w: Writer, op: Op, source: Tensor) -> bool:
    """Add the bias of floats after a dilated kernel of more than 8 rows or columns."""
    weight, result = op.inputs[1], op.outputs[0]
    bias = op.inputs[2] if len(op.inputs) > 2 else None
    if weight is None or bias is None or not source.dtype.is_float:
        return False
    dilation = op.param("dilation", numpy.ones(2)).astype(int)
    if max(weight.shape[:2]) <= LONGEST or dilation.max() == 1:
        return False
    product = w.emit(op.type, [source, weight], result.shape, op.params, result.dtype)
    w.finish(w.binary(ADD, product, bias))
    return True


@form("DepthWiseConv2d")
def _several_of_each(w: Writer, op: Op, source: Tensor) -> bool:
    """Convolve groups of one channel where each has several results: HTP has wrong ones.

    It has those of fixed point, and those of floats with strides of 3, or of 1 and 2.
    """
    if op.outputs[0].shape[-1] == source.shape[-1]:
        return False
    if not source.dtype.is_fixed and sorted(op.param("stride").tolist()) not in _WRONG_STRIDES:
        return False
    params = {**op.params, "group": ir.u32(source.shape[-1])}
    w.graph.replace_op(op, Op("Conv2d", op.inputs, op.outputs, params, name=op.name, origin=op.origin))
    return True
