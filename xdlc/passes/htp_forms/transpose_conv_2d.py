"""Depthwise transposed convolutions."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form


@form("TransposeConv2d")
def _depthwise(w: Writer, op: Op, source: Tensor) -> bool:
    """Take output padding from the padding, or add taps of 0."""
    weight, channels = op.inputs[1], source.shape[-1]
    extra = op.param("output_padding", numpy.zeros(2)).astype(int)
    if weight is None or weight.data is None or op.param("group", 1) != channels or weight.shape[-1] != 1:
        return False
    zero = w.zero_of(weight)
    if channels == 1 or not extra.any() or zero is None:
        return False
    pads, dilation = op.param("pad_amount").astype(int), op.param("dilation", numpy.ones(2)).astype(int)
    rows = -(-numpy.maximum(extra - pads[:, 1], 0) // dilation)
    pads[:, 1] += rows * dilation - extra
    taps = numpy.pad(weight.numpy(), [(0, rows[0]), (0, rows[1]), (0, 0), (0, 0)], constant_values=zero)
    params = {**op.params, "pad_amount": ir.u32s(pads), "output_padding": ir.u32s([0, 0])}
    inputs, result = [source, w.like(weight, taps), *op.inputs[2:]], op.outputs[0]
    w.finish(w.emit(op.type, inputs, result.shape, params, result.dtype, result.encoding))
    return True
