"""Ops that take axes together to one value, or to few."""

from __future__ import annotations

from collections.abc import Collection

from xdlc.ir import Op
from xdlc.prepare.edit.redimension.registry import Misfit, Shape, rule
from xdlc.prepare.edit.redimension.resize_context import ResizeContext
from xdlc.runtime import args


@rule("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Moments")
def reduce(op: Op, _context: ResizeContext) -> list[Shape]:
    """Return the shape without the axes, or with 1 on them."""
    source = args.operand(op, 0)
    axes = args.axes(op, source.rank, default=tuple(range(source.rank)))
    return [_without(source.shape, axes, bool(op.param("keep_dims", False))) for _ in op.outputs]


@rule("Argmax", "Argmin")
def place_of_extreme(op: Op, _context: ResizeContext) -> list[Shape]:
    """Return the shape without the axis, or with 1 on it."""
    source = args.operand(op, 0)
    return [_without(source.shape, [args.axis(op, source.rank)], bool(op.param("keep_dims", False)))]


def _without(shape: Shape, axes: Collection[int], keeps: bool) -> Shape:
    if keeps:
        return tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
    return tuple(extent for axis, extent in enumerate(shape) if axis not in axes)


@rule("TopK")
def top_k(op: Op, context: ResizeContext) -> list[Shape]:
    """Return the shape with ``k`` on the last axis."""
    source = args.operand(op, 0)
    old, new, count = context.shape(source)[-1], source.shape[-1], int(op.param("k", 0))
    if old != new and count == old:
        raise Misfit(f"it takes {count} of {old}, which may be all or just as many, of {new}")
    if count > new:
        raise Misfit(f"it takes {count} of {new}")
    return [(*source.shape[:-1], count) for _ in op.outputs]


@rule("OneHot")
def one_hot(op: Op, _context: ResizeContext) -> list[Shape]:
    """Return the shape with the depth on a new axis."""
    source = args.operand(op, 0)
    axis = args.axis(op, source.rank + 1, default=source.rank)
    return [(*source.shape[:axis], op.outputs[0].shape[axis], *source.shape[axis:])]
