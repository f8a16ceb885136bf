"""Cumulative sums, exclusive and reverse."""

from __future__ import annotations

import math

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import INT32, UFIXED8, UFIXED16
from xdlc.passes._writing import Writer
from xdlc.passes.avoid_faults import MISSING, form

_PER_STEP = 256
"""Steps of 16 bits in one of 8 bits."""
_MOST_AXES, _MOST_BEHIND = 4, 32


@form("CumulativeSum", reason=MISSING)
def _three_axes(w: Writer, op: Op, source: Tensor) -> bool:
    """Fold the axes before and after that of the sum."""
    axis, result = int(op.param("axis")), op.outputs[0]
    if source.rank <= _MOST_AXES:
        return False
    shape = (math.prod(source.shape[:axis]), source.shape[axis], math.prod(source.shape[axis + 1 :]))
    params = {**op.params, "axis": ir.u32(1)}
    x = w.emit(op.type, [w.reshape(source, shape)], shape, params, result.dtype, result.encoding)
    w.finish(w.reshape(x, result.shape))
    return True


@form("CumulativeSum")
def _wider(w: Writer, op: Op, source: Tensor) -> bool:
    """Add in 16 bits.

    HTP's sums of 8 bits are rounded at each element, and miss the zero point.
    """
    result = op.outputs[0]
    encoding = result.encoding
    if source.dtype is not UFIXED8 or result.dtype is not UFIXED8 or not isinstance(encoding, ir.ScaleOffset):
        return False
    x = w.emit("Convert", [source], source.shape, {}, UFIXED16, source.encoding)
    fine = ir.ScaleOffset(encoding.scale / _PER_STEP, encoding.offset * _PER_STEP)
    total = w.emit("CumulativeSum", [x], result.shape, op.params, UFIXED16, fine)
    w.finish(w.emit("Convert", [total], result.shape, {}, UFIXED8, encoding))
    return True


@form("CumulativeSum")
def _last_axis(w: Writer, op: Op, source: Tensor) -> bool:
    """Sum integers along the last axis if the axis has a stride above 32."""
    axis, result = int(op.param("axis")), op.outputs[0]
    if not source.dtype.is_integer or math.prod(source.shape[axis + 1 :]) <= _MOST_BEHIND:
        return False
    axes = [*(at for at in range(source.rank) if at != axis), axis]
    x, params = w.transposed(source, axes), {**op.params, "axis": ir.u32(source.rank - 1)}
    x = w.emit(op.type, [x], x.shape, params, result.dtype)
    w.finish(w.transposed(x, numpy.argsort(axes).tolist()))
    return True


@form("CumulativeSum", reason=MISSING)
def _plain(w: Writer, op: Op, source: Tensor) -> bool:
    """Write exclusive and reverse sums with plain cumulative sums.

    A 0 shifts the elements of an exclusive sum; those of a reverse one are turned around.
    """
    exclusive, reverse = (bool(op.param(name, False)) for name in ("exclusive", "reverse"))
    if not (exclusive or reverse) or w.zero_of(source) is None:
        return False
    axis, result = int(op.param("axis")), op.outputs[0]
    size = source.shape[axis]

    def turned(x: Tensor) -> Tensor:
        if not reverse:
            return x
        backwards = w.constant(numpy.arange(size - 1, -1, -1, dtype=INT32.numpy))
        return w.emit("Gather", [x, backwards], x.shape, {"axis": ir.i32(axis)}, x.dtype, x.encoding)

    x = turned(source)
    if exclusive:
        shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
        zero = w.like(x, numpy.full(shape, w.zero_of(x), x.dtype.numpy))
        x = w.joined([zero, w.sliced(x, axis, 0, size - 1)], axis) if size > 1 else zero
    params: dict[str, ir.Param] = {"axis": ir.u32(axis)}
    w.finish(turned(w.emit("CumulativeSum", [x], x.shape, params, result.dtype, result.encoding)))
    return True
