"""Gathers, splits, stacks, reversed sequences and shuffles, of any rank."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xdlc import ir
from xdlc.converter.functions.shapes import axis_of, cast, dims, permuted, positions, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import CONTRADICTION
from xdlc.converter.values import Value, check_table
from xdlc.errors import ModelError
from xdlc.ir.dtype import BOOL8, FLOAT32, INT8, INT32, INT64, UINT8


def gather(g: Operators, x: Value, indices: Value, axis: int, batch_dims: int = 0) -> Value:
    """Return elements of an axis by index, batched over the first ``batch_dims``.

    Args:
        x: [batch..., before..., size, after...].
        indices: [batch..., wanted...], from 0 below size.
        axis: The axis of ``x``, negative from the end; not below ``batch_dims``.
        batch_dims: Number of common axes, negative from the end of ``indices``.

    Returns:
        [batch..., before..., wanted..., after...].
    """
    axis = axis_of(axis, x.rank)
    batch = batch_dims + indices.rank if batch_dims < 0 else batch_dims
    if not 0 <= batch <= min(axis, indices.rank):
        raise ModelError(
            f"batch_dims {batch_dims} does not fit axis {axis} and indices of {indices.rank} axes",
            fix=CONTRADICTION,
        )
    if not batch:
        return g("Gather", [x, indices], axis=axis)
    before, wanted, after = axis - batch, indices.rank - batch, x.rank - axis - 1
    head = list(range(batch))
    moved = permuted(g, x, [*head, axis, *range(batch, axis), *range(axis + 1, x.rank)])
    gathered = gather_nd(g, moved, g("Unsqueeze", [indices, [-1]]), batch)
    places = [*range(batch + wanted, batch + wanted + before), *range(batch, batch + wanted)]
    return permuted(g, gathered, [*head, *places, *range(gathered.rank - after, gathered.rank)])


def gather_nd(g: Operators, x: Value, indices: Value, batch_dims: int = 0) -> Value:
    """Return elements or slices of ``x`` at tuples in the last axis of ``indices``."""
    indices = positions(g, indices)
    if indices.rank == 1 and not batch_dims:  # one tuple
        return _without_first(g, g("GatherND", [x, g("Unsqueeze", [indices, [0]])]))
    return g("GatherND", [x, indices], batch_dims=batch_dims)


def _without_first(g: Operators, x: Value) -> Value:
    return g("Squeeze", [x, [0]])


def split(g: Operators, x: Value, sizes: Sequence[int], axis: int) -> list[Value]:
    """Split ``x`` into stated sizes along an axis; -1 means the rest."""
    axis, sizes = axis_of(axis, x.rank), list(sizes)
    if -1 in sizes:
        whole = dims(x, [axis])[0]
        sizes[sizes.index(-1)] = whole - sum(size for size in sizes if size != -1)
    if any(size < 0 for size in sizes) or (x.dims or ())[axis] not in (None, sum(sizes)):
        raise ModelError(
            f"parts {sizes} do not fit axis {axis} of an input {list(x.shape)}", fix=CONTRADICTION
        )
    if len(sizes) == 1:
        return [x]
    return g.apply("Split", [x, vector(g, sizes)], {"axis": axis}, len(sizes))


def split_evenly(g: Operators, x: Value, count: int, axis: int) -> list[Value]:
    """Split ``x`` into ``count`` equal parts along an axis.

    Raises:
        ModelError: If the axis does not divide.
    """
    (whole,) = dims(x, [axis_of(axis, x.rank)])
    if count < 1 or whole % count:
        raise ModelError(
            f"{whole} elements of axis {axis} cannot be split into {count} parts", fix=CONTRADICTION
        )
    return split(g, x, [whole // count] * count, axis)


def stack(g: Operators, values: Sequence[Value], axis: int) -> Value:
    """Stack values along a new axis; a negative axis counts from the result's end."""
    rank = values[0].rank + 1
    place = vector(g, [axis_of(axis, rank)])
    made = [g("Unsqueeze", [value, place]) for value in values]
    return made[0] if len(made) == 1 else g("Concat", made, axis=axis_of(axis, rank))


def unstack(g: Operators, x: Value, count: int, axis: int) -> list[Value]:
    """Return ``x`` split along an axis into parts without this axis.

    Raises:
        ModelError: If the axis has another number of elements.
    """
    parts = split(g, x, [1] * count, axis)
    return [g("Squeeze", [part, [axis_of(axis, x.rank)]]) for part in parts]


def shuffled(g: Operators, x: Value, groups: int, axis: int) -> Value:
    """Return ``x`` with element i * groups + j taken from j * (size / groups) + i.

    Raises:
        ModelError: If the groups do not divide the axis.
    """
    shape = dims(x)
    size = shape[axis]
    if groups < 1 or size % groups:
        raise ModelError(
            f"{size} elements of axis {axis} cannot be divided into {groups} groups", fix=CONTRADICTION
        )
    if x.is_static:
        apart = reshape(g, x, (*shape[:axis], groups, size // groups, *shape[axis + 1 :]))
        order = [*range(axis), axis + 1, axis, *range(axis + 2, apart.rank)]
        return reshape(g, permuted(g, apart, order), shape)
    last = (*(held for held in x.order if held != axis), axis)
    tensor = g.builder.to_layout(x, last)
    params: dict[str, ir.Param] = {"num_groups": ir.u32(groups), "axis": ir.u32(x.rank - 1)}
    made = g.builder.emit("ChannelShuffle", [tensor], tensor.shape, x.dtype, params, encoding=tensor.encoding)
    return Value(made, last)


def places(g: Operators, x: Value) -> Value:
    """Return positions [count, rank] of non-zero elements, int64; count is dynamic."""
    if x.dtype not in (BOOL8, FLOAT32, INT32, INT64, UINT8):  # types that the host searches
        x = cast(g, x, FLOAT32 if x.dtype.is_float else INT64)
    return g("Transpose", [g("NonZero", [x])], perm=[1, 0])


def unique(g: Operators, x: Value, axis: int | None = None, *, is_sorted: bool = False) -> list[Value]:
    """Return unique elements, or slices of an axis, by first occurrence or sorted.

    Args:
        x: Any value; of rank 1 without an axis.
        is_sorted: Whether the least comes first.

    Returns:
        Them, their number known at run time only; for each of ``x`` its place among them, and how many there
        are of each, int64.
    """
    known = (FLOAT32, INT8, INT64)  # types that the host compares
    held = x if x.dtype in known else cast(g, x, FLOAT32 if x.dtype.is_float else INT64)
    attributes = {"sorted": int(is_sorted)} | ({} if axis is None else {"axis": axis})
    values, _, places, counts = g.apply("Unique", [held], attributes, 4)
    return [cast(g, values, x.dtype), places, counts]


def reverse_sequence(g: Operators, x: Value, lengths: Value, *, time: int, batch: int) -> Value:
    """Return ``x`` with the first ``lengths[b]`` elements along ``time`` reversed."""
    time, batch = axis_of(time, x.rank), axis_of(batch, x.rank)
    if time == batch:
        raise ModelError(f"axis {time} cannot be both the time axis and the batch axis", fix=CONTRADICTION)
    rest = [axis for axis in range(x.rank) if axis not in (time, batch)]
    order = [time, batch, *rest]
    moved = permuted(g, x, order)
    if lengths.is_static or x.is_dynamic:
        made = g("ReverseSequence", [moved, positions(g, lengths)], time_axis=0, batch_axis=1)
    else:
        made = _turned(g, moved, positions(g, lengths))
    return permuted(g, made, [order.index(axis) for axis in range(x.rank)])


def _turned(g: Operators, x: Value, lengths: Value) -> Value:
    """Return [time, batch, ...] reversed up to computed lengths, as one Gather."""
    steps, count = x.shape[:2]
    check_table(steps)
    place = g.builder.const(np.arange(steps, dtype=np.int64)[:, None])
    back = g("Sub", [g("Sub", [lengths, 1]), place])
    source = g("Where", [g("Less", [place, lengths]), back, place])
    source = g("Add", [g("Mul", [source, count]), range(count)])
    flat = reshape(g, x, (steps * count, *x.shape[2:]))
    gathered = g("Gather", [flat, reshape(g, source, (steps * count,))], axis=0)
    return reshape(g, gathered, x.shape)
