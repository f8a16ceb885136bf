"""Output padding of transposed convolutions."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form


@form("TransposeConv2d", "TransposeConv3d")
def _reached(w: Writer, op: Op, source: Tensor) -> bool:
    """Take output padding from the padding where HTP computes it wrongly, and add taps of 0.

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
