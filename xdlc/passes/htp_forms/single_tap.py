"""Depthwise convolutions of a single tap with strides."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form

_CHANNELS = 32


@form("DepthWiseConv2d")
def _taps(w: Writer, op: Op, source: Tensor) -> bool:
    """Add a tap of 0 along the axis that has a stride of 2, the other of 1, for more than 32 channels."""
    weight, strides = op.inputs[1], op.param("stride").astype(int).tolist()
    if weight is None or weight.data is None or source.shape[-1] <= _CHANNELS or sorted(strides) != [1, 2]:
        return False
    if not source.dtype.is_float or not weight.dtype.is_float or weight.shape[:2] != (1, 1):
        return False
    axis, result = strides.index(2), op.outputs[0]
    pads, around = op.param("pad_amount").astype(int), numpy.zeros((4, 2), int)
    pads[axis, 1] += 1
    around[axis, 1] = 1
    taps = w.like(weight, numpy.pad(weight.numpy(), around))
    params = {**op.params, "pad_amount": ir.u32s(pads)}
    w.finish(w.emit(op.type, [source, taps, *op.inputs[2:]], result.shape, params, result.dtype))
    return True
