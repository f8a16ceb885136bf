"""StridedSlice."""

from __future__ import annotations

from xdlc.errors import ModelError
from xdlc.ir import Op
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.ops import lowering

BEFORE_ALL = -(1 << 62)


def _bounds(begin: int, end: int, step: int, dim: int) -> tuple[int, int]:
    """Return begin and end of a range counted from 0 (end may be -1)."""
    begin = begin + dim if begin < 0 else begin
    if step > 0:
        end = end + dim if end < 0 else end
        return min(max(begin, 0), dim), min(max(end, 0), dim)
    return min(begin, dim - 1), max(end, -1)


@lowering("StridedSlice")
def strided_slice(op: Op, b: Builder) -> None:
    """Lower to Slice, and to Reshape where axes go or come.

    ``ranges`` holds begin, end and stride of each input axis.  Bit i of ``begin_mask`` or
    ``end_mask`` means from the first or through the last element of axis i; bit i of
    ``shrink_axes`` takes one element and drops the axis.  With a negative stride, end -1 precedes
    the first element.
    """
    source, target = args.operand(op, 0), args.result(op)
    ranges = args.integers(op, "ranges", 3 * source.rank)
    begin_mask, end_mask = int(op.param("begin_mask", 0)), int(op.param("end_mask", 0))
    shrink, grow = int(op.param("shrink_axes", 0)), int(op.param("new_axes_mask", 0))
    starts, ends, steps, dims = [], [], [], []
    for axis, dim in enumerate(source.shape):
        begin, end, step = ranges[3 * axis : 3 * axis + 3]
        if step == 0:
            raise ModelError(f"parameter 'ranges' has stride 0 on axis {axis}")
        if begin_mask >> axis & 1:
            begin = 0 if step > 0 else dim - 1
        if end_mask >> axis & 1:
            end = dim if step > 0 else -1
        begin, end = _bounds(begin, end, step, dim)
        if shrink >> axis & 1:
            end, step = begin + 1, 1
        starts.append(begin)
        ends.append(BEFORE_ALL if end < 0 else end)
        steps.append(step)
        dims.append(max(0, -(-(end - begin) // step)))
    value = b.read(source, dtype=b.held(source))
    changed = [
        axis
        for axis in range(source.rank)
        if axis not in source.dynamic_axes or ranges[3 * axis : 3 * axis + 3] != [0, source.shape[axis], 1]
        if steps[axis] != 1 or dims[axis] != source.shape[axis]
    ]
    if changed:
        pick = [[each[axis] for axis in changed] for each in (starts, ends, steps)]
        begins, stops, strides = (b.ints(*each) for each in pick)
        value = b.node("Slice", [value, begins, stops, b.ints(*changed), strides])
    if shrink or grow or tuple(dims) != target.shape:
        if _count(dims) != target.size:
            raise ModelError(f"slices of shape {dims} do not make an output of shape {list(target.shape)}")
        value = b.reshape(value, target.shape)
    b.write(target, value, dtype=b.held(source))


def _count(dims: list[int]) -> int:
    count = 1
    for dim in dims:
        count *= dim
    return count
