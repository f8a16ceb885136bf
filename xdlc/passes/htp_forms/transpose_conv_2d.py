"""Depthwise transposed convolutions."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.data import Array
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form

_DENSE = 8
"""HTP computes some kernels of fewer channels wrongly."""


@form("TransposeConv2d")
def _depthwise(w: Writer, op: Op, source: Tensor) -> bool:
    """Take output padding from the padding or add taps of 0, and convolve few channels as a whole."""
    weight, channels = op.inputs[1], source.shape[-1]
    extra = op.param("output_padding", numpy.zeros(2)).astype(int)
    if weight is None or weight.data is None or op.param("group", 1) != channels or weight.shape[-1] != 1:
        return False
    if channels == 1 or not (extra.any() or channels < _DENSE):
        return False
    taps, encoding = weight.numpy(), weight.encoding
    zero = w.zero_of(weight)
    if zero is None:
        return False
    pads, dilation = op.param("pad_amount").astype(int), op.param("dilation", numpy.ones(2)).astype(int)
    rows = -(-numpy.maximum(extra - pads[:, 1], 0) // dilation)
    pads[:, 1] += rows * dilation - extra
    taps = numpy.pad(taps, [(0, rows[0]), (0, rows[1]), (0, 0), (0, 0)], constant_values=zero)
    params = {**op.params, "pad_amount": ir.u32s(pads), "output_padding": ir.u32s([0, 0])}
    if channels < _DENSE:
        params["group"], taps = ir.u32(1), _dense(taps, zero)
        if isinstance(encoding, ir.AxisScaleOffset):
            scales = numpy.broadcast_to(encoding.scales, channels)
            encoding = ir.AxisScaleOffset(3, tuple(scales), (0,) * channels)
    whole = w.like(weight, taps)
    whole.encoding = encoding
    inputs, result = [source, whole, *op.inputs[2:]], op.outputs[0]
    w.finish(w.emit(op.type, inputs, result.shape, params, result.dtype, result.encoding))
    return True


def _dense(taps: Array, zero: int) -> Array:
    """Return weights of all pairs of channels, of which those on the diagonal are not 0."""
    channels = taps.shape[2]
    dense = numpy.full((*taps.shape[:2], channels, channels), zero, taps.dtype)
    diagonal = numpy.arange(channels)
    dense[:, :, diagonal, diagonal] = taps[..., 0]
    return dense
