"""Ops that pick elements by their positions."""

from __future__ import annotations

from xdlc.ir import Op, Tensor
from xdlc.prepare.edit.redimension.registry import Misfit, Shape, rule
from xdlc.prepare.edit.redimension.resize_context import ResizeContext
from xdlc.runtime import args


@rule("Gather")
def gather(op: Op, context: ResizeContext) -> list[Shape]:
    """Return the shape with the positions' in the place of the axis."""
    source, places = args.operand(op, 0), args.operand(op, 1)
    axis = args.axis(op, source.rank, default=0)
    _check(context, source, places, [axis])
    return [(*source.shape[:axis], *places.shape, *source.shape[axis + 1 :])]


@rule("GatherElements")
def gather_elements(op: Op, context: ResizeContext) -> list[Shape]:
    """Return the shape of the positions."""
    source, places = args.operand(op, 0), args.operand(op, 1)
    axis = args.axis(op, source.rank)
    _check(context, source, places, [axis])
    for other in range(source.rank):
        if other != axis and places.shape[other] > source.shape[other]:
            raise Misfit(f"positions {list(places.shape)} do not go with {list(source.shape)}")
    if context.is_changed(source) and not context.is_changed(places):
        raise Misfit(f"positions {list(places.shape)} were made for the old {list(context.shape(source))}")
    return [places.shape]


@rule("GatherNd")
def gather_nd(op: Op, context: ResizeContext) -> list[Shape]:
    """Return the positions' shape with what is left of the data behind them."""
    source, places = args.operand(op, 0), args.operand(op, 1)
    shared, depth = int(op.param("batch_dims", 0)), places.shape[-1]
    _check(context, source, places, list(range(shared, shared + depth)))
    if source.shape[:shared] != places.shape[:shared]:
        raise Misfit(f"positions {list(places.shape)} do not go with {list(source.shape)}")
    return [(*places.shape[:-1], *source.shape[shared + depth :])]


def _check(context: ResizeContext, source: Tensor, places: Tensor, axes: list[int]) -> None:
    """Refuse constant positions, but for the first one, on axes of another extent."""
    changed = [axis for axis in axes if context.shape(source)[axis] != source.shape[axis]]
    if changed and places.is_static and places.numpy().any():
        raise Misfit(
            f"its positions are constants, for an axis of {context.shape(source)[changed[0]]}, "
            f"now {source.shape[changed[0]]}"
        )
