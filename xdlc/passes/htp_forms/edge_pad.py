"""Paddings of the last axis."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import INT32
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form

_CONSTANT, _EDGE = 0, 3


@form("Pad")
def _last_axis(w: Writer, op: Op, source: Tensor) -> bool:
    """Gather along the last axis, and pad the other axes."""
    amounts = op.param("pad_amount").astype(int)
    if op.param("scheme") != _EDGE or source.dtype.is_fixed or not amounts[-1].any():
        return False
    size, (start, stop) = source.shape[-1], amounts[-1]
    places = numpy.clip(numpy.arange(-start, size + stop), 0, size - 1).astype(INT32.numpy)
    shape, result = (*source.shape[:-1], len(places)), op.outputs[0]
    params: dict[str, ir.Param] = {"axis": ir.i32(source.rank - 1)}
    x = w.emit("Gather", [source, w.constant(places)], shape, params, source.dtype)
    amounts[-1] = 0
    if amounts.any():
        x = w.emit(op.type, [x], result.shape, {**op.params, "pad_amount": ir.u32s(amounts)}, x.dtype)
    w.finish(x)
    return True


@form("Pad")
def _apart(w: Writer, op: Op, source: Tensor) -> bool:
    """Pad the last axis after the others: by numbers, HTP pads it and another one wrongly at once."""
    amounts = op.param("pad_amount").astype(int)
    if op.param("scheme") != _CONSTANT or source.dtype.is_fixed:
        return False
    if not amounts[-1].any() or not amounts[:-1].any():
        return False
    last, result = numpy.zeros_like(amounts), op.outputs[0]
    last[-1], amounts[-1] = amounts[-1], 0
    shape = (*result.shape[:-1], source.shape[-1])
    x = w.emit(op.type, [source], shape, {**op.params, "pad_amount": ir.u32s(amounts)}, source.dtype)
    params = {**op.params, "pad_amount": ir.u32s(last)}
    w.finish(w.emit(op.type, [x], result.shape, params, result.dtype))
    return True
