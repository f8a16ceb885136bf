"""Convolutions of a single window, which HTP takes for matrix products."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.data import Array
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form


@form("Conv2d")
def _undilated(w: Writer, op: Op, source: Tensor) -> bool:
    """Write out a dilated kernel of floats that is as large as the plane: HTP forgets its dilation."""
    weight, result = op.inputs[1], op.outputs[0]
    _, rows, columns, channels = source.shape
    if weight is None or weight.data is None or not weight.dtype.is_float or not source.dtype.is_float:
        return False
    dilation = op.param("dilation", numpy.ones(2)).astype(int)
    if result.shape[1:3] != (1, 1) or weight.shape[:2] != (rows, columns) or (dilation == 1).all():
        return False
    taps = _whole(op, weight.numpy(), (rows, columns, channels, result.shape[-1]), dilation)
    params: dict[str, ir.Param] = {"stride": ir.u32s([1, 1]), "pad_amount": ir.u32s([[0, 0], [0, 0]])}
    inputs = [source, w.like(weight, taps), *op.inputs[2:]]
    w.finish(w.emit(op.type, inputs, result.shape, params, result.dtype))
    return True


@form("Reshape")
def _channels_first(w: Writer, op: Op, source: Tensor) -> bool:
    """Transpose floats to channels first where the plane has as many rows or columns as channels result."""
    before, result, channels = source.producer, op.outputs[0], source.shape[-1:]
    if before is None or before.type != "Conv2d" or before.inputs[0] is None or not source.dtype.is_float:
        return False
    if source.shape[1:-1] != (1, 1) or result.shape[1:] != (*channels, 1, 1):
        return False
    if max(before.inputs[0].shape[1:3]) not in channels:
        return False
    w.finish(w.transposed(source, (0, 3, 1, 2)))
    return True


def _whole(op: Op, taps: Array, shape: tuple[int, int, int, int], dilation: Array) -> Array:
    """Return a kernel of the plane's size."""
    whole, groups = numpy.zeros(shape, taps.dtype), int(op.param("group", 1))
    start = -op.param("pad_amount").astype(int)[:, 0]
    inputs, outputs = shape[2] // groups, shape[3] // groups
    for place in numpy.ndindex(*taps.shape[:2]):
        row, column = start + dilation * place
        if 0 <= row < shape[0] and 0 <= column < shape[1]:
            for group in range(groups):
                ins, outs = (slice(group * size, (group + 1) * size) for size in (inputs, outputs))
                whole[row, column, ins, outs] = taps[(*place, slice(None), outs)]
    return whole
