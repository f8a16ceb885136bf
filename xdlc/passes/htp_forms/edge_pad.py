"""Paddings by the values at the edge."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import INT32
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import form

_EDGE = 3


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
