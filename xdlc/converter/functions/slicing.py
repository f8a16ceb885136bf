"""Slices and paddings of values of any rank."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xdlc.converter.functions.gathering import split
from xdlc.converter.functions.scatter import scatter_nd
from xdlc.converter.functions.shapes import axis_of, dims, ints, known, positions, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import CONTRADICTION
from xdlc.converter.values import Value, check_table
from xdlc.errors import ModelError
from xdlc.records import record

_ALL = (1 << 63) - 1
_MOST_ENTRIES = 32  # a bit of the masks each


@record(frozen=True)
class Masks:
    """Bits of a strided slice; bit i belongs to entry i of begin, end and strides.

    Attributes:
        begin: Entries whose begin is ignored: from the first element.
        end: Entries whose end is ignored: to the last element.
        ellipsis: Entry that denotes all axes that no other one denotes.
        new_axis: Entries that insert an axis of size 1; wins over ``shrink``.
        shrink: Entries that take the element at begin and drop the axis.
    """

    begin: int = 0
    end: int = 0
    ellipsis: int = 0
    new_axis: int = 0
    shrink: int = 0


@record
class _Plan:
    """Effect of a strided slice's entries on the axes.

    Attributes:
        cuts: Entry by axis that is cut.
        drops: Entry by axis of which one element is taken.
        shape: For each axis of the result: an axis of the operand, or None for a new one.
    """

    cuts: dict[int, int]
    drops: dict[int, int]
    shape: list[int | None]


def strided_slice(
    g: Operators,
    x: Value,
    begin: Value,
    end: Value,
    strides: Value,
    masks: Masks,
) -> Value:
    """Return elements at regular distances, axes dropped and inserted.

    Begin and end may be computed when the graph runs; the slice is then the host's.

    Args:
        begin: First positions, one for each entry; negative ones count from the end.
        end: Positions to stop before.
        strides: Steps; constant, not 0.
        masks: Bits of the entries.

    Raises:
        ModelError: If the entries do not fit the rank.
        UnsupportedOp: If the strides are computed.
    """
    steps = ints(strides, "the strides")
    plan = _plan(x, len(steps), masks)
    if any(steps[entry] == 0 for entry in (*plan.cuts.values(), *plan.drops.values())):
        raise ModelError("a stride is 0", fix=CONTRADICTION)
    begin, end = positions(g, begin), positions(g, end)
    for axis, entry in plan.drops.items():  # the sign of the stride and the end have no meaning
        place = _at(g, begin, entry, 1)
        if place.is_static:
            size = x.dims[axis] if x.dims is not None else None
            at = int(place.numpy().reshape(-1)[0])
            if size is not None and not -size <= at < size:
                raise ModelError(
                    f"position {at} is outside the {size} elements of axis {axis}", fix=CONTRADICTION
                )
            x = _cut(g, x, [axis], vector(g, [at]), vector(g, [at + 1 or _ALL]), [1])
        else:
            x = g("Gather", [x, place], axis=axis)
    x = _sliced(g, x, begin, end, steps, plan, masks)
    if not plan.drops and None not in plan.shape:
        return x
    if x.is_dynamic:
        return _reranked(g, x, plan)
    return reshape(g, x, [1 if axis is None else x.shape[axis] for axis in plan.shape])


def _reranked(g: Operators, x: Value, plan: _Plan) -> Value:
    if plan.drops:
        x = g("Squeeze", [x, sorted(plan.drops)])
    added = [place for place, axis in enumerate(plan.shape) if axis is None]
    return g("Unsqueeze", [x, vector(g, added)]) if added else x


def _plan(x: Value, count: int, masks: Masks) -> _Plan:
    """Return the effect of each entry; other axes are kept.

    Raises:
        ModelError: If there are more entries than axes, or two ellipses.
    """
    if count > _MOST_ENTRIES:
        raise ModelError(
            f"{count} entries of a slice do not fit an input of rank {x.rank}", fix=CONTRADICTION
        )
    bits = [1 << entry for entry in range(count)]
    dots = [entry for entry in range(count) if masks.ellipsis & bits[entry]]
    if len(dots) > 1:
        raise ModelError("a slice has two ellipses, but may have only one", fix=CONTRADICTION)
    taking = sum(1 for entry in range(count) if entry not in dots and not masks.new_axis & bits[entry])
    if taking > x.rank:
        raise ModelError(
            f"{taking} entries of a slice do not fit an input of rank {x.rank}", fix=CONTRADICTION
        )
    plan, axis = _Plan({}, {}, []), 0
    for entry in range(count):
        if entry in dots:
            rest = x.rank - taking
            plan.shape += range(axis, axis + rest)
            axis += rest
        elif masks.new_axis & bits[entry]:
            plan.shape.append(None)
        else:
            if masks.shrink & bits[entry]:
                plan.drops[axis] = entry
            else:
                plan.cuts[axis] = entry
                plan.shape.append(axis)
            axis += 1
    plan.shape += range(axis, x.rank)
    return plan


def _sliced(
    g: Operators, x: Value, begin: Value, end: Value, steps: Sequence[int], plan: _Plan, masks: Masks
) -> Value:
    """Return ``x`` sliced along the axes of the plan, last those with known bounds."""
    sure: list[tuple[int, int, int, int]] = []
    for axis, entry in plan.cuts.items():
        step, bit = steps[entry], 1 << entry
        first = vector(g, [0 if step > 0 else _ALL]) if masks.begin & bit else _at(g, begin, entry, 1)
        last = vector(g, [_ALL if step > 0 else -_ALL - 1]) if masks.end & bit else _at(g, end, entry, 1)
        if first.is_static and last.is_static:
            start, stop = (int(value.numpy().reshape(-1)[0]) for value in (first, last))
            if (start, stop, step) != (0, _ALL, 1):
                sure.append((axis, start, stop, step))
        else:
            x = _cut(g, x, [axis], first, last, [step])
    if sure:
        axes, starts, stops, widths = (list(part) for part in zip(*sure, strict=True))
        x = _cut(g, x, axes, vector(g, starts), vector(g, stops), widths)
    return x


def _cut(g: Operators, x: Value, axes: Sequence[int], first: Value, last: Value, by: Sequence[int]) -> Value:
    return g("Slice", [x, first, last, vector(g, axes), vector(g, by)])


def _at(g: Operators, values: Value, entry: int, rank: int = 0) -> Value:
    """Return one of several integers, of rank 0 or 1, static if possible."""
    index = np.asarray(entry, np.int64)
    return g("Gather", [values, index.reshape((1,) * rank)], axis=0)


def sliced(g: Operators, x: Value, begin: Value, size: Value) -> Value:
    """Return ``size`` elements of ``x`` from ``begin`` on by axis; -1: all remaining.

    Args:
        begin: First positions, one for each axis.
        size: Numbers of elements.

    Raises:
        ModelError: If the part is not inside.
    """
    begin, size = positions(g, begin), positions(g, size)
    for value in (begin, size):
        if not value.is_dynamic and value.size != x.rank:
            raise ModelError(
                f"{value.size} positions or sizes of a slice do not fit an input of rank {x.rank}",
                fix=CONTRADICTION,
            )
    if begin.is_static and size.is_static:
        first, count = (value.numpy().reshape(-1) for value in (begin, size))
        given = x.dims or ()
        for axis, (start, items) in enumerate(zip(first, count, strict=True)):
            whole = given[axis]
            if start < 0 or items < -1 or (whole is not None and start + max(items, 0) > whole):
                raise ModelError(
                    f"a slice of {items} elements from {start} on does not fit an axis of {whole}",
                    fix=CONTRADICTION,
                )
        last = np.where(count < 0, _ALL, first + count)
        axes = [axis for axis in range(x.rank) if (first[axis], last[axis]) != (0, x.shape[axis])]
        return _cut(g, x, axes, vector(g, first[axes]), vector(g, last[axes]), [1] * len(axes)) if axes else x
    if size.is_static and begin.size == size.size == x.rank and size.numpy().min(initial=0) >= 0:
        return _taken(g, x, begin, ints(size, "the sizes"))
    end = g("Add", [begin, size])
    end = g("Where", [g("Less", [size, 0]), _ALL, end])
    return g("Slice", [x, begin, end, range(x.rank), [1] * x.rank])


def _taken(g: Operators, x: Value, begin: Value, counts: Sequence[int]) -> Value:
    """Return static numbers of elements from computed positions, by Gathers."""
    for axis, count in enumerate(counts):
        if x.dims is None or x.dims[axis] != count:  # all of them begin at 0
            x = g("Gather", [x, g("Add", [_at(g, begin, axis, 1), range(count)])], axis=axis)
    return x


def reversed_axes(g: Operators, x: Value, axes: Sequence[int]) -> Value:
    """Return ``x`` with axes turned round."""
    if not axes:
        return x
    ends = vector(g, [-_ALL - 1] * len(axes))
    axes = [axis_of(axis, x.rank) for axis in axes]
    return _cut(g, x, axes, vector(g, [_ALL] * len(axes)), ends, [-1] * len(axes))


def rolled(g: Operators, x: Value, shifts: Sequence[int], axes: Sequence[int]) -> Value:
    """Return ``x`` with elements rotated along axes.

    Raises:
        ModelError: If there are not as many shifts as axes.
    """
    if len(shifts) != len(axes):
        raise ModelError(f"{len(shifts)} shifts do not fit {len(axes)} axes", fix=CONTRADICTION)
    for shift, axis in zip(shifts, (axis_of(axis, x.rank) for axis in axes), strict=True):
        (size,) = dims(x, [axis])
        if size and shift % size:
            at, end, start = (vector(g, [place]) for place in (size - shift % size, size, 0))
            # no Split: HTP joins parts of two in a row wrongly
            x = g("Concat", [_cut(g, x, [axis], at, end, [1]), _cut(g, x, [axis], start, at, [1])], axis=axis)
    return x


def updated(g: Operators, x: Value, update: Value, start: Value) -> Value:
    """Return ``x`` with a part replaced; the start is clamped so that the part fits.

    Args:
        update: The part, of the same rank.
        start: [rank] position of its first element; constant or computed.

    Raises:
        ModelError: If the part is larger than ``x``.
    """
    whole, part = dims(x), dims(update)
    if len(whole) != len(part) or any(few > many for few, many in zip(part, whole, strict=True)):
        raise ModelError(f"a part {list(part)} does not fit an input {list(whole)}", fix=CONTRADICTION)
    if not x.rank:
        return update
    most = np.asarray(whole, np.int64) - part
    if start.is_static or not most.any():
        first = np.clip(start.numpy().reshape(-1), 0, most) if start.is_static else most
        return _replaced(g, x, update, first.tolist(), 0)
    first = g("Max", [g("Min", [positions(g, start), vector(g, most)]), [0] * len(whole)])
    check_table(*part, len(whole))
    places = np.moveaxis(np.indices(part, np.int64), 0, -1)
    return scatter_nd(g, x, g("Add", [places, first]), update)


def _replaced(g: Operators, x: Value, update: Value, first: Sequence[int], axis: int) -> Value:
    """Return ``x`` with a part replaced, axis by axis."""
    while axis < x.rank and x.shape[axis] == update.shape[axis]:
        axis += 1
    if axis == x.rank:
        return update
    size = update.shape[axis]
    before, middle, after = split(g, x, [first[axis], size, x.shape[axis] - first[axis] - size], axis)
    parts = [before, _replaced(g, middle, update, first, axis + 1), after]
    return g("Concat", [each for each in parts if each.shape[axis]], axis=axis)


def spread(g: Operators, x: Value, steps: Sequence[int], fill: Value) -> Value:
    """Insert ``steps[i]`` - 1 elements of ``fill`` between the elements of axis i.

    Raises:
        ModelError: If the steps do not fit the rank.
    """
    if len(steps) != x.rank or min(steps, default=1) < 1:
        raise ModelError(f"distances {list(steps)} do not fit an input of rank {x.rank}", fix=CONTRADICTION)
    for axis, step in enumerate(steps):
        shape = list(dims(x))
        size = shape[axis]
        if step == 1 or size < 2:
            continue
        before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
        apart = reshape(g, x, (before, size, 1, after))
        wide = g("Pad", [apart, [0, 0, 0, 0, 0, 0, step - 1, 0], reshape(g, fill, ())])
        joined = reshape(g, wide, (before, size * step, after))
        kept = _cut(g, joined, [1], vector(g, [0]), vector(g, [(size - 1) * step + 1]), [1])
        x = reshape(g, kept, (*shape[:axis], (size - 1) * step + 1, *shape[axis + 1 :]))
    return x


def padded(g: Operators, x: Value, pads: Value, mode: str = "constant", fill: Value | None = None) -> Value:
    """Return ``x`` with elements before and after each axis.

    Args:
        pads: [rank, 2] amounts before and after; constant.
        mode: ``constant``, ``reflect`` (without the border) or ``symmetric`` (with it).
        fill: One element, for ``constant``; default: 0.

    Raises:
        UnsupportedOp: If they are computed.
    """
    amounts = known(pads, "the padding").astype(np.int64)
    if amounts.shape != (x.rank, 2) or amounts.min(initial=0) < 0:
        raise ModelError(
            f"padding {amounts.tolist()} does not fit an input of rank {x.rank}", fix=CONTRADICTION
        )
    if not amounts.any():
        return x
    if mode == "symmetric":
        return _mirrored(g, x, amounts.tolist())
    operands = [x, vector(g, amounts.T.reshape(-1))]
    if mode == "constant" and fill is not None:
        operands.append(fill if not fill.rank else reshape(g, fill, ()))
    return g("Pad", operands, mode=mode)


def _mirrored(g: Operators, x: Value, pads: Sequence[Sequence[int]]) -> Value:
    """Return ``x`` continued by its own mirror image, the border repeated."""
    for axis, (before, after) in enumerate(pads):
        if before or after:
            (size,) = dims(x, [axis])
            if max(before, after) > size:
                raise ModelError(
                    f"mirrored padding {before}, {after} is too large for {size} elements", fix=CONTRADICTION
                )
            check_table(size + before + after)
            place = np.pad(np.arange(size), (before, after), "symmetric")
            x = g("Gather", [x, vector(g, place)], axis=axis)
    return x
