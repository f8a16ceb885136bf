"""Sums of the elements before, or from the end."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import INT32
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import MISSING, form


@form("CumulativeSum", reason=MISSING)
def _plain(w: Writer, op: Op, source: Tensor) -> bool:
    """Shift the elements by a 0 for an exclusive sum, and turn them around for one from the end."""
    exclusive, reverse = (bool(op.param(name, False)) for name in ("exclusive", "reverse"))
    if not (exclusive or reverse) or source.dtype.is_fixed:
        return False
    axis = int(op.param("axis"))
    size = source.shape[axis]

    def turned(x: Tensor) -> Tensor:
        backwards = w.constant(numpy.arange(size - 1, -1, -1, dtype=INT32.numpy))
        return w.emit("Gather", [x, backwards], x.shape, {"axis": ir.i32(axis)}, x.dtype) if reverse else x

    x = turned(source)
    if exclusive:
        zero = w.constant(
            numpy.zeros([1 if at == axis else dim for at, dim in enumerate(x.shape)], x.dtype.numpy)
        )
        x = w.joined([zero, w.sliced(x, axis, 0, size - 1)], axis) if size > 1 else zero
    w.finish(turned(w.emit("CumulativeSum", [x], x.shape, {"axis": ir.u32(axis)}, x.dtype)))
    return True
