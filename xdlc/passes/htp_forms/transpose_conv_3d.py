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


@form("TransposeConv3d")
def _ungrouped(w: Writer, op: Op, source: Tensor) -> bool:
    """Convolve all channels, with weights of 0 between groups: HTP computes groups wrongly."""
    weight, groups, result = op.inputs[1], int(op.param("group", 1)), op.outputs[0]
    if weight is None or weight.data is None or groups == 1:
        return False
    taps, encoding = weight.numpy(), weight.encoding
    *kernel, inputs, outputs = taps.shape
    zero = w.zero_of(weight)
    if zero is None:
        return False
    dense = numpy.full((*kernel, inputs, groups * outputs), zero, taps.dtype)
    for group, own in enumerate(numpy.split(taps, groups, axis=3)):
        rows = slice(group * inputs // groups, (group + 1) * inputs // groups)
        dense[..., rows, group * outputs : (group + 1) * outputs] = own
    whole = w.like(weight, dense)
    if isinstance(encoding, ir.AxisScaleOffset):
        scales = encoding.scales * (groups if len(encoding.scales) == outputs else 1)
        whole.encoding = ir.AxisScaleOffset(4, scales, (0,) * len(scales))
    params = {**op.params, "group": ir.u32(1)}
    operands = [source, whole, *op.inputs[2:]]
    w.finish(w.emit(op.type, operands, result.shape, params, result.dtype, result.encoding))
    return True
