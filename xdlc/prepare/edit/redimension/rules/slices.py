"""Resize rule of StridedSlice: the elements of a longer or shorter axis that are meant."""

from __future__ import annotations

from xdlc.ir import Op, Tensor, static
from xdlc.opdefs import args
from xdlc.opdefs.shapes import Dims, ShapeError, infer
from xdlc.prepare.edit.redimension.resize_context import ResizeContext, rule


@rule("StridedSlice")
def strided_slice(op: Op, context: ResizeContext) -> list[Dims] | None:
    """Return the extents of ranges that go on to the end of an axis they went to the end of."""
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


def _moved(held: list[int], old: int, new: int, is_open: tuple[bool, bool], shrinks: bool) -> list[int]:
    """Return begin, end and stride on an axis of another extent.

    Raises:
        ShapeError: If a bound may be meant from either end of the axis.
    """
    begin, end, step = held
    words = f"its range {begin}:{end}:{step} on an axis of {old}, now {new}"
    if shrinks:
        if begin == 0:
            return held
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
