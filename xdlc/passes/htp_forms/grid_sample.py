"""Samples of volumes at the places of a grid."""

from __future__ import annotations

import itertools
import math

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import BOOL8, INT32
from xdlc.opdefs.elementwise_enums import ADD, EQUAL, FLOOR, MAXIMUM, MINIMUM, MULTIPLY, ROUND, SUBTRACT
from xdlc.passes._writing import Writer
from xdlc.passes.avoid_faults import MISSING, form


@form("GridSample", reason=MISSING, package=ir.HOST_PACKAGE)
def _corners(w: Writer, op: Op, source: Tensor) -> bool:
    """Gather the corners around each place of volumes, and add them by their shares.

    The formulas are those of ONNX's GridSample; the op of the host has its channels second.
    """
    grid, mode = op.inputs[1], op.param("mode", "linear")
    if grid is None or source.rank != 5 or not source.dtype.is_float or mode in ("cubic", "bicubic"):
        return False
    batch, channels, *sizes = source.shape
    volume, count = math.prod(sizes), math.prod(grid.shape[1:4])
    flat = w.reshape(grid, (batch * count, 3))
    ends = []
    for axis, size in enumerate(sizes):
        place = _place(w, op, w.sliced(flat, 1, 2 - axis, 3 - axis), size)
        low = w.unary(ROUND if mode == "nearest" else FLOOR, place)
        ends.append([_end(w, op, low, None, size)])
        if mode != "nearest":
            share, one = w.binary(SUBTRACT, place, low), w.number(1.0, place.dtype)
            high, rest = w.binary(ADD, low, one), w.binary(SUBTRACT, one, share)
            ends[-1] = [_end(w, op, low, rest, size), _end(w, op, high, share, size)]
    steps = (sizes[1] * sizes[2], sizes[2], 1)
    first = numpy.repeat(numpy.arange(batch) * volume, count).astype(INT32.numpy)
    x = w.transposed(w.reshape(source, (batch, channels, volume)), (0, 2, 1))
    x = w.reshape(x, (batch * volume, channels))
    total: Tensor | None = None
    for corner in itertools.product(*ends):
        row, whole = w.constant(first[:, None]), None
        for (index, part), step in zip(corner, steps, strict=True):
            row = w.binary(ADD, w.binary(MULTIPLY, index, w.number(step, INT32)), row)
            whole = part if whole is None or part is None else w.binary(MULTIPLY, whole, part)
        shape, params = (batch * count, channels), {"axis": ir.i32(0)}
        picked = w.emit("Gather", [x, w.reshape(row, shape[:1])], shape, params, x.dtype)
        picked = picked if whole is None else w.binary(MULTIPLY, picked, whole)
        total = picked if total is None else w.binary(ADD, total, picked)
    assert total is not None
    total = w.transposed(w.reshape(total, (batch, count, channels)), (0, 2, 1))
    w.finish(w.reshape(total, op.outputs[0].shape))
    return True


def _place(w: Writer, op: Op, x: Tensor, size: int) -> Tensor:
    """Return the places of coordinates from -1 to 1, counted from the middle.

    Floats resolve small places best.
    """
    is_aligned, padding = bool(op.param("align_corners", 0)), op.param("padding_mode", "zeros")
    span = float(size - 1 if is_aligned else size)

    def number(value: float) -> Tensor:
        return w.number(value, x.dtype)

    place = w.binary(MULTIPLY, x, number(span / 2))
    if padding == "reflection" and span:
        turns = w.unary(ROUND, w.binary(MULTIPLY, x, number(0.5)))
        place = w.binary(SUBTRACT, place, w.binary(MULTIPLY, turns, number(span)))
        pairs = w.unary(FLOOR, w.binary(MULTIPLY, turns, number(0.5)))
        is_odd = w.binary(SUBTRACT, turns, w.binary(MULTIPLY, pairs, number(2.0)))
        sign = w.binary(SUBTRACT, number(1.0), w.binary(MULTIPLY, is_odd, number(2.0)))
        place = w.binary(MULTIPLY, place, sign)
    rest = (size - 1) / 2 - _middle(size)
    place = w.binary(ADD, place, number(rest)) if rest else place
    return place if padding == "zeros" else _clipped(w, place, size)


def _middle(size: int) -> int:
    """Return an even place near the middle of an axis.

    Halves are rounded from it as from the first place.
    """
    return (size - 1) // 4 * 2


def _clipped(w: Writer, x: Tensor, size: int) -> Tensor:
    least = w.binary(MAXIMUM, x, w.number(-_middle(size), x.dtype))
    return w.binary(MINIMUM, least, w.number(size - 1 - _middle(size), x.dtype))


def _end(w: Writer, op: Op, x: Tensor, share: Tensor | None, size: int) -> tuple[Tensor, Tensor | None]:
    """Return the index of whole places, and their share.

    The share is 0 for the zeros around the volume.
    """
    inside = _clipped(w, x, size)
    if op.param("padding_mode", "zeros") == "zeros":
        is_inside = w.cast(w.binary(EQUAL, inside, x, BOOL8), x.dtype)
        share = is_inside if share is None else w.binary(MULTIPLY, is_inside, share)
    return w.cast(w.binary(ADD, inside, w.number(_middle(size), x.dtype)), INT32), share
