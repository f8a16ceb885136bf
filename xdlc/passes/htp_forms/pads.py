"""Paddings."""

from __future__ import annotations

import math

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import INT32
from xdlc.passes._writing import Writer
from xdlc.passes.avoid_faults import MISSING, form

_CONSTANT, _EDGE = 0, 3
_WIDE = 3
"""Elements of padding from which HTP takes other places along a second axis."""


@form("Pad")
def _edge_padding(w: Writer, op: Op, source: Tensor) -> bool:
    """Gather the elements of an edge padding that HTP computes wrongly."""
    amounts = op.param("pad_amount").astype(int)
    axes = numpy.flatnonzero(amounts.any(1)).tolist()
    if op.param("scheme") != _EDGE or not axes or source.encoding != op.outputs[0].encoding:
        return False
    is_wide = amounts.max() >= _WIDE and source.dtype.bits > 8
    gathered = axes if is_wide or source.dtype.is_integer else []
    if source.dtype.is_float and axes[-1] == source.rank - 1:
        gathered = gathered or axes[-1:]
    x = source
    for axis in gathered:
        start, stop = amounts[axis]
        places = numpy.clip(numpy.arange(-start, x.shape[axis] + stop), 0, x.shape[axis] - 1)
        shape = (*x.shape[:axis], places.size, *x.shape[axis + 1 :])
        params: dict[str, ir.Param] = {"axis": ir.i32(axis)}
        inputs, amounts[axis] = [x, w.constant(places.astype(INT32.numpy))], 0
        x = w.emit("Gather", inputs, shape, params, x.dtype, x.encoding)
    if gathered and amounts.any():
        x = w.again([x], pad_amount=ir.u32s(amounts))
    if gathered:
        w.finish(x)
    return bool(gathered)


@form("Pad")
def _last_axis_apart(w: Writer, op: Op, source: Tensor) -> bool:
    """Pad the last axis after the other axes.

    HTP pads it together with another axis wrongly by numbers.
    """
    amounts = op.param("pad_amount").astype(int)
    if op.param("scheme") != _CONSTANT or source.dtype.is_fixed:
        return False
    if not amounts[-1].any() or not amounts[:-1].any():
        return False
    last, result = numpy.zeros_like(amounts), op.outputs[0]
    last[-1], amounts[-1] = amounts[-1], 0
    x = w.again([source], (*result.shape[:-1], source.shape[-1]), pad_amount=ir.u32s(amounts))
    w.finish(w.again([x], pad_amount=ir.u32s(last)))
    return True


@form("Pad", reason=MISSING)
def _one_axis_at_a_time(w: Writer, op: Op, source: Tensor) -> bool:
    """Pad one axis at a time in tensors of five axes or more."""
    if source.rank < 5 or op.param("scheme") == _CONSTANT or source.encoding != op.outputs[0].encoding:
        return False
    x = source
    for axis, pair in enumerate(op.param("pad_amount").astype(int).tolist()):
        if not any(pair):
            continue
        before, size, after = x.shape[:axis], x.shape[axis] + sum(pair), x.shape[axis + 1 :]
        rows, columns = math.prod(before), math.prod(after)
        params: dict[str, ir.Param] = {**op.params, "pad_amount": ir.u32s([[0, 0], pair, [0, 0]])}
        flat = w.reshape(x, (rows, x.shape[axis], columns))
        padded = w.emit("Pad", [flat], (rows, size, columns), params, x.dtype, x.encoding)
        x = w.reshape(padded, (*before, size, *after))
    w.finish(x)
    return True
