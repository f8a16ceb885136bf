"""Transposed convolutions of groups of channels."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form

_MANY = 8
"""HTP computes some kernels of fewer channels wrongly, each of which is a group."""


@form("TransposeConv2d", "TransposeConv3d")
def _ungrouped(w: Writer, op: Op, source: Tensor) -> bool:
    """Convolve all channels, with weights of 0 between groups, where HTP computes groups wrongly."""
    weight, groups, result = op.inputs[1], int(op.param("group", 1)), op.outputs[0]
    if weight is None or weight.data is None or groups == 1:
        return False
    if op.type == "TransposeConv2d" and not _is_wrong(source, weight, groups):
        return False
    taps, encoding = weight.numpy(), weight.encoding
    *kernel, inputs, outputs = taps.shape
    zero = w.zero_of(weight)
    if zero is None:
        return False
    dense = numpy.full((*kernel, inputs, groups * outputs), zero, taps.dtype)
    for group, own in enumerate(numpy.split(taps, groups, axis=-2)):
        rows = slice(group * inputs // groups, (group + 1) * inputs // groups)
        dense[..., rows, group * outputs : (group + 1) * outputs] = own
    whole = w.like(weight, dense)
    if isinstance(encoding, ir.AxisScaleOffset):
        scales = encoding.scales * (groups if len(encoding.scales) == outputs else 1)
        whole.encoding = ir.AxisScaleOffset(dense.ndim - 1, scales, (0,) * len(scales))
    params = {**op.params, "group": ir.u32(1)}
    operands = [source, whole, *op.inputs[2:]]
    w.finish(w.emit(op.type, operands, result.shape, params, result.dtype, result.encoding))
    return True


def _is_wrong(source: Tensor, weight: Tensor, groups: int) -> bool:
    """Return whether HTP computes a plane wrongly: few single channels, or four groups and odd sizes."""
    _, rows, columns, channels = source.shape
    is_uneven = groups == 4 and rows % 8 == columns % 8 == 1 < rows * columns
    return is_uneven or (groups == channels < _MANY and weight.shape[-1] == 1)
