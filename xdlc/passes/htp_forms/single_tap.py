"""Depthwise convolutions of small kernels with strides."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form

_BLOCK = 32
"""Channels that HTP computes at a time."""
_FEW = 4


@form("DepthWiseConv2d")
def _taps(w: Writer, op: Op, source: Tensor) -> bool:
    """Add taps of 0 at the end.

    Single taps of floats get one along the axis that has a stride of 2, the other of 1, for more than 32
    channels; 2x2 taps of 8 bits with strides of 2 get one along each axis, for 1 to 4 channels beyond a
    multiple of 32.
    """
    weight, strides, channels = op.inputs[1], op.param("stride").astype(int), source.shape[-1]
    if weight is None or weight.data is None:
        return False
    kernel = weight.shape[:2]
    if source.dtype.is_float and weight.dtype.is_float:
        is_wrong = channels > _BLOCK and kernel == (1, 1) and sorted(strides) == [1, 2]
    else:
        is_few = channels > 1 and 0 < channels % _BLOCK <= _FEW
        is_wrong = source.dtype.bits == 8 and is_few and kernel == (2, 2) and (strides == 2).all()
    zero = w.zero_of(weight)
    if not is_wrong or zero is None:
        return False
    more, pads, result = strides - 1, op.param("pad_amount").astype(int), op.outputs[0]
    pads[:, 1] += more
    around = [(0, more[0]), (0, more[1]), (0, 0), (0, 0)]
    taps = w.like(weight, numpy.pad(weight.numpy(), around, constant_values=zero))
    params, inputs = {**op.params, "pad_amount": ir.u32s(pads)}, [source, taps, *op.inputs[2:]]
    w.finish(w.emit(op.type, inputs, result.shape, params, result.dtype, result.encoding))
    return True
