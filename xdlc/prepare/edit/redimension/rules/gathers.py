"""Resize rules of operations that select elements by position."""

from __future__ import annotations

from xdlc.ir import Op, Tensor
from xdlc.opdefs import args
from xdlc.opdefs.shapes import Dims, ShapeError, infer
from xdlc.prepare.edit.redimension.resize_context import ResizeContext, rule


@rule("Gather")
def gather(op: Op, context: ResizeContext) -> list[Dims] | None:
    """Return the inferred shape, unless positions were made for another dimension."""
    source = args.operand(op, 0)
    _check(op, context, source, [args.axis(op, source.rank, default=0)])
    return infer(op)


@rule("GatherElements")
def gather_elements(op: Op, context: ResizeContext) -> list[Dims] | None:
    """Return the inferred shape, unless positions were made for other dimensions."""
    source, places = args.operand(op, 0), args.operand(op, 1)
    _check(op, context, source, [args.axis(op, source.rank)])
    found = infer(op)
    if context.is_changed(source) and not context.is_changed(places):
        old = list(context.shape(source))
        raise ShapeError(f"positions {list(places.shape)} were made for the old {old}")
    return found


@rule("GatherNd")
def gather_nd(op: Op, context: ResizeContext) -> list[Dims] | None:
    """Return the inferred shape, unless positions were made for other dimensions."""
    shared = int(op.param("batch_dims", 0))
    depth = args.operand(op, 1).shape[-1]
    _check(op, context, args.operand(op, 0), list(range(shared, shared + depth)))
    return infer(op)


def _check(op: Op, context: ResizeContext, source: Tensor, axes: list[int]) -> None:
    """Reject constant positions, but for the first one, on axes of another dimension."""
    places = args.operand(op, 1)
    changed = [axis for axis in axes if context.shape(source)[axis] != source.shape[axis]]
    if changed and places.is_static and places.numpy().any():
        raise ShapeError(
            f"its positions are constants, for an axis of {context.shape(source)[changed[0]]}, "
            f"now {source.shape[changed[0]]}"
        )


@rule("TopK")
def top_k(op: Op, context: ResizeContext) -> list[Dims] | None:
    """Return the inferred shape, unless it may have taken all elements."""
    source = args.operand(op, 0)
    old, new, count = context.shape(source)[-1], source.shape[-1], int(op.param("k", 0))
    if old != new and count == old:
        raise ShapeError(f"it takes {count} of {old}, which may be all or just as many, of {new}")
    return infer(op)


@rule("BatchPermutation", "If", "RotaryEmbedding", "ScatterElements", "ScatterNd")
def unknown(op: Op, context: ResizeContext) -> list[Dims] | None:
    """Reject operations whose further operands hold positions, or whose graphs have shapes of their own."""
    return None
