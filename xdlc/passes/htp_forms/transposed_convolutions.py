"""Transposed convolutions."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form

_MANY = 8
"""HTP computes some kernels of fewer channels wrongly, each of which is a group."""


@form("TransposeConv2d", "TransposeConv3d")
def _output_padding(w: Writer, op: Op, source: Tensor) -> bool:
    """Subtract output padding from the padding, and append taps of 0.

    HTP computes some output padding wrongly.

    It leaves results of which no tap reaches an input to whatever the memory holds.
    """
    weight, channels, axes = op.inputs[1], source.shape[-1], source.rank - 2
    extra = op.param("output_padding", numpy.zeros(axes)).astype(int)
    pads, dilation = op.param("pad_amount").astype(int), op.param("dilation", numpy.ones(axes)).astype(int)
    taps = -(-numpy.maximum(extra - pads[:, 1], 0) // dilation)
    if weight is None or w.zero_of(weight) is None:
        return False
    is_depthwise = 1 < channels == op.param("group", 1) and weight.shape[-1] == 1
    if not taps.any() and not (is_depthwise and extra.any()):
        return False
    pads[:, 1] += taps * dilation - extra
    longer = w.padded(weight, numpy.stack([numpy.zeros(axes, int), taps], 1), 0)
    params = {**op.params, "pad_amount": ir.u32s(pads), "output_padding": ir.u32s([0] * axes)}
    inputs, result = [source, longer, *op.inputs[2:]], op.outputs[0]
    w.finish(w.emit(op.type, inputs, result.shape, params, result.dtype, result.encoding))
    return True


@form("TransposeConv3d")
def _uneven_padding(w: Writer, op: Op, source: Tensor) -> bool:
    """Cut padding off afterwards where it differs between axes.

    HTP computes other numbers.
    """
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


@form("TransposeConv2d", "TransposeConv3d")
def _groups(w: Writer, op: Op, source: Tensor) -> bool:
    """Convolve all channels, with weights of 0 between groups.

    HTP computes some groups wrongly.
    """
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
    """Return whether HTP computes a grouped plane wrongly.

    These are few single channels, and four groups with odd sizes.
    """
    _, rows, columns, channels = source.shape
    is_uneven = groups == 4 and rows % 8 == columns % 8 == 1 < rows * columns
    return is_uneven or (groups == channels < _MANY and weight.shape[-1] == 1)
