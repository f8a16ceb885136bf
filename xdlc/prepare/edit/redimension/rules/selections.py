"""Resize rules of operations that select elements: gathers, TopK and StridedSlice."""

from __future__ import annotations

from xdlc.ir import Op, Tensor, static
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
    _check(op, context, source, [args.axis(op, source.rank, default=0)])
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
        raise ShapeError(f"it selects {count} of {old}, which may mean all or that number, of {new}")
    return infer(op)


@rule("BatchPermutation", "If", "RotaryEmbedding", "ScatterElements", "ScatterNd")
def unknown(op: Op, context: ResizeContext) -> list[Dims] | None:
    """Reject operations with positions in operands or shapes in graphs."""
    return None


@rule("StridedSlice")
def strided_slice(op: Op, context: ResizeContext) -> list[Dims] | None:
    """Extend ranges up to the end of a resized axis; return the inferred shape."""
    source = args.operand(op, 0)
    if int(op.param("new_axes_mask", 0)):
        raise ShapeError("it adds axes")
    ranges = args.integers(op, "ranges", 3 * source.rank)
    masks = [int(op.param(name, 0)) for name in ("begin_mask", "end_mask", "shrink_axes")]
    for axis, (old, new) in enumerate(zip(context.shape(source), source.shape, strict=True)):
        begin_open, end_open, shrinks = (bool(mask >> axis & 1) for mask in masks)
        held = slice(3 * axis, 3 * axis + 3)
        if old != new:
            ranges[held] = _moved(ranges[held], old, new, (begin_open, end_open), shrinks)
    _set_ranges(op, ranges)
    return infer(op)


def _moved(bounds: list[int], old: int, new: int, is_open: tuple[bool, bool], shrinks: bool) -> list[int]:
    """Return begin, end and stride on an axis of another size.

    Raises:
        ShapeError: If a bound may be meant from either end of the axis.
    """
    begin, end, step = bounds
    words = f"its range {begin}:{end}:{step} on an axis of {old}, now {new}"
    if shrinks:
        if begin == 0:
            return bounds
        raise ShapeError(f"{words}, may count from either end")
    if step > 0:
        if not (is_open[1] or end == old) or not (is_open[0] or 0 <= begin < step or begin == 0):
            raise ShapeError(f"{words}, may count from either end")
        return [begin, end if is_open[1] else new, step]
    if not (is_open[0] or begin == old - 1) or not (is_open[1] or end == -1):
        raise ShapeError(f"{words}, may count from either end")
    return [begin if is_open[0] else new - 1, end, step]


def _set_ranges(op: Op, values: list[int]) -> None:
    import numpy

    held = op.params["ranges"]
    if isinstance(held, Tensor):
        array = numpy.asarray(values, held.dtype.numpy).reshape(held.shape)
        op.params["ranges"] = static(held.name, array, held.dtype)
