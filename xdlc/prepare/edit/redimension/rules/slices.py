"""StridedSlice: which elements of a longer or shorter axis are meant."""

from __future__ import annotations

from xdlc.ir import Op, Tensor, static
from xdlc.prepare.edit.redimension.registry import Misfit, Shape, rule
from xdlc.prepare.edit.redimension.resize_context import ResizeContext
from xdlc.runtime import args


@rule("StridedSlice")
def strided_slice(op: Op, context: ResizeContext) -> list[Shape]:
    """Return the extents of ranges that go on to the end of an axis they went to the end of."""
    source = args.operand(op, 0)
    if int(op.param("new_axes_mask", 0)):
        raise Misfit("it adds axes")
    ranges = args.integers(op, "ranges", 3 * source.rank)
    masks = [int(op.param(name, 0)) for name in ("begin_mask", "end_mask", "shrink_axes")]
    result: list[int] = []
    for axis, (old, new) in enumerate(zip(context.shape(source), source.shape, strict=True)):
        begin_open, end_open, shrinks = (bool(mask >> axis & 1) for mask in masks)
        held = ranges[3 * axis : 3 * axis + 3]
        if old != new:
            held = _moved(held, old, new, (begin_open, end_open), shrinks)
            ranges[3 * axis : 3 * axis + 3] = held
        if not shrinks:
            result.append(_count(held, new, begin_open, end_open))
    _set_ranges(op, ranges)
    return [tuple(result)]


def _moved(held: list[int], old: int, new: int, is_open: tuple[bool, bool], shrinks: bool) -> list[int]:
    """Return begin, end and stride on an axis of another extent.

    Raises:
        Misfit: If a bound may be meant from either end of the axis.
    """
    begin, end, step = held
    words = f"its range {begin}:{end}:{step} on an axis of {old}, now {new}"
    if shrinks:
        if begin == 0:
            return held
        raise Misfit(f"{words}, may count from either end")
    if step > 0:
        if not (is_open[1] or end == old) or not (is_open[0] or 0 <= begin < step or begin == 0):
            raise Misfit(f"{words}, may count from either end")
        return [begin, end if is_open[1] else new, step]
    if not (is_open[0] or begin == old - 1) or not (is_open[1] or end == -1):
        raise Misfit(f"{words}, may count from either end")
    return [begin if is_open[0] else new - 1, end, step]


def _count(held: list[int], extent: int, begin_open: bool, end_open: bool) -> int:
    """Return the number of elements of a range; -1 lies in front of the first one if it goes backwards."""
    begin, end, step = held
    if step == 0:
        raise Misfit("its range has stride 0")
    if step > 0:
        first = 0 if begin_open else min(max(begin + extent if begin < 0 else begin, 0), extent)
        last = extent if end_open else min(max(end + extent if end < 0 else end, 0), extent)
        return max(0, -(-(last - first) // step))
    first = extent - 1 if begin_open else min(begin + extent if begin < 0 else begin, extent - 1)
    last = -1 if end_open else max(end, -1)
    return max(0, -(-(last - first) // step))


def _set_ranges(op: Op, values: list[int]) -> None:
    import numpy

    held = op.params["ranges"]
    if isinstance(held, Tensor):
        array = numpy.asarray(values, held.dtype.numpy).reshape(held.shape)
        op.params["ranges"] = static(held.name, array, held.dtype)
