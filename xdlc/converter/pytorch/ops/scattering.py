"""Handlers of operators that write elements by position or by truth value."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from xdlc.converter.nhwc.elementwise import floor_div, where
from xdlc.converter.nhwc.scatter import full, scatter_nd
from xdlc.converter.nhwc.shapes import dims, number, positions, reshape, vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._shapes import (
    axis_of,
    common_shape,
    expanded,
    moved,
    places,
    rank_one,
    reshaped,
    sizes_of,
)
from xdlc.converter.pytorch.ops.indexing import indexed, is_mask, within
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.values import Value
from xdlc.ir.dtype import BOOL8, INT32, INT64

Write = Callable[[Value, Value, str], Value]
"""Returns a value with updates written to places, by a reduction of ONNX."""
_REDUCTIONS = {
    "add": "add",
    "amax": "max",
    "amin": "min",
    "mean": "add",
    "multiply": "mul",
    "prod": "mul",
    "sum": "add",
}


def combined(
    node: AtenNode,
    g: Operators,
    x: Value,
    source: Value,
    write: Write,
    reduce: str,
    *,
    include_self: bool = True,
) -> Value:
    """Return a tensor with updates combined with its elements, or with one another.

    Args:
        node: The node.
        g: The canonical operators.
        x: The tensor.
        source: The updates.
        write: Writes updates, of the shape of ``source``, to their places.
        reduce: ``add``, ``sum``, ``multiply``, ``prod``, ``mean``, ``amax`` or ``amin``.
        include_self: Whether the elements that are written to count.

    Raises:
        ModelError: If there is no such reduction.
    """
    if reduce not in _REDUCTIONS:
        raise node.invalid(f"reduction {reduce!r} is unknown")
    if x.dtype is BOOL8:  # sums of truth values are whether any holds, products whether all do
        x, source = (g.builder.cast(value, INT32) for value in (x, source))
        made = combined(node, g, x, source, write, reduce, include_self=include_self)
        return g.builder.cast(made, BOOL8)
    base, kind = x, _REDUCTIONS[reduce]
    shape = dims(source)
    if not include_self:
        lowest, highest = (-np.inf, np.inf) if x.dtype.is_float else x.dtype.limits
        neutral = {"add": 0, "mul": 1, "max": lowest, "min": highest}[kind]
        base = write(x, full(g, shape, neutral, x.dtype), "none")
    made = write(base, source, kind)
    if reduce != "mean":
        return made
    count_type = x.dtype if x.dtype.is_float else INT64
    start = full(g, dims(x), int(include_self), count_type)
    count = write(start, full(g, shape, 1, count_type), "add")
    if not include_self:
        count = g("Max", [count, number(g, count, 1)])
    if x.dtype.is_float:
        return g("Div", [made, count])
    return floor_div(g, made, g.builder.cast(count, x.dtype))


# ------------------------------------------------------------------ elements, each by an index of its own


def _elements(
    node: AtenNode, g: Operators, x: Value, dim: int, index: Value, source: Value | float
) -> tuple[Value, Value, Write]:
    """Return a tensor, updates of the shape of the index, and what writes them along an axis."""
    axis = axis_of(node, dim, x.rank)
    (place,) = places(g, index, of=[x])
    place = rank_one(g, place)
    if isinstance(source, Value):
        updates = within(g, g.builder.cast(rank_one(g, source), x.dtype), place, -1)
        if updates.dims != place.dims:
            raise node.invalid(f"updates of shape {list(source.shape)} by an index of {list(index.shape)}")
    else:
        updates = expanded(node, g, number(g, x, source), sizes_of(g, place))

    def write(base: Value, updates: Value, reduction: str) -> Value:
        given = g.builder.cast(updates, base.dtype)
        if base.dtype is BOOL8:
            made = write(g.builder.cast(base, INT32), given, reduction)
            return g.builder.cast(made, BOOL8)
        return g("ScatterElements", [base, place, given], axis=axis, reduction=reduction)

    return rank_one(g, x), updates, write


def _scattered(
    node: AtenNode,
    g: Operators,
    x: Value,
    dim: int,
    index: Value,
    source: Value | float,
    reduce: str = "",
    *,
    include_self: bool = True,
) -> Value:
    if index.dims is not None and 0 in index.dims:
        return x
    base, updates, write = _elements(node, g, x, dim, index, source)
    if reduce:
        made = combined(node, g, base, updates, write, reduce, include_self=include_self)
    else:
        made = write(base, updates, "none")
    return made if x.rank else reshape(g, made, ())


@aten("scatter.src")
def _scatter(node: AtenNode, g: Operators, self: Value, dim: int, index: Value, src: Value) -> Value:
    return _scattered(node, g, self, dim, index, src)


@aten("scatter.value")
def _scatter_value(node: AtenNode, g: Operators, self: Value, dim: int, index: Value, value: float) -> Value:
    return _scattered(node, g, self, dim, index, value)


@aten("scatter.reduce")
def _scatter_by(
    node: AtenNode, g: Operators, self: Value, dim: int, index: Value, src: Value, reduce: str
) -> Value:
    return _scattered(node, g, self, dim, index, src, reduce)


@aten("scatter.value_reduce")
def _scatter_value_by(
    node: AtenNode, g: Operators, self: Value, dim: int, index: Value, value: float, reduce: str
) -> Value:
    return _scattered(node, g, self, dim, index, value, reduce)


@aten("scatter_add")
def _scatter_add(node: AtenNode, g: Operators, self: Value, dim: int, index: Value, src: Value) -> Value:
    return _scattered(node, g, self, dim, index, src, "sum")


@aten("scatter_reduce.two")
def _scatter_reduce(
    node: AtenNode,
    g: Operators,
    self: Value,
    dim: int,
    index: Value,
    src: Value,
    reduce: str,
    include_self: bool,
) -> Value:
    return _scattered(node, g, self, dim, index, src, reduce, include_self=include_self)


# ------------------------------------------------------------------ parts along an axis


def _rows(
    node: AtenNode, g: Operators, x: Value, dim: int, index: Value, source: Value
) -> tuple[Value, Value, Write, Callable[[Value], Value]]:
    """Return a tensor and updates with an axis in front, what writes them, and what puts the axis back."""
    axis = axis_of(node, dim, x.rank)
    if index.rank > 1:
        raise node.invalid(f"an index of shape {list(index.shape)}")
    (place,) = places(g, index, of=[x])
    place = g("Unsqueeze", [rank_one(g, place), vector(g, [1])])
    whole, given = rank_one(g, x), g.builder.cast(rank_one(g, source), x.dtype)
    wanted = [sizes_of(g, place)[0] if at == axis else size for at, size in enumerate(sizes_of(g, whole))]
    if source.rank != x.rank and source.rank:
        raise node.invalid(f"updates of shape {list(source.shape)} of {list(x.shape)}")
    base, updates = (moved(g, value, [axis], [0]) for value in (whole, expanded(node, g, given, wanted)))

    def write(base: Value, updates: Value, reduction: str) -> Value:
        return scatter_nd(g, base, place, g.builder.cast(updates, base.dtype), reduction)

    def back(made: Value) -> Value:
        return moved(g, made, [0], [axis]) if x.rank else reshape(g, made, ())

    return base, updates, write, back


@aten("index_add")
def _index_add(
    node: AtenNode, g: Operators, self: Value, dim: int, index: Value, source: Value, alpha: float
) -> Value:
    if index.dims is not None and 0 in index.dims:
        return self
    base, updates, write, back = _rows(node, g, self, dim, index, source)
    if alpha != 1:
        updates = g("Mul", [updates, number(g, updates, alpha)])
    return back(combined(node, g, base, updates, write, "sum"))


@aten("index_copy")
def _index_copy(node: AtenNode, g: Operators, self: Value, dim: int, index: Value, source: Value) -> Value:
    if index.dims is not None and 0 in index.dims:
        return self
    base, updates, write, back = _rows(node, g, self, dim, index, source)
    return back(write(base, updates, "none"))


@aten("index_fill")
def _index_fill(
    node: AtenNode, g: Operators, self: Value, dim: int, index: Value, value: float | Value
) -> Value:
    fill = value if isinstance(value, Value) else number(g, self, value)
    return _index_copy(node, g, self, dim, index, reshape(g, fill, (1,) * self.rank))


@aten("index_reduce")
def _index_reduce(
    node: AtenNode,
    g: Operators,
    self: Value,
    dim: int,
    index: Value,
    source: Value,
    reduce: str,
    include_self: bool,
) -> Value:
    if index.dims is not None and 0 in index.dims:
        return self
    base, updates, write, back = _rows(node, g, self, dim, index, source)
    return back(combined(node, g, base, updates, write, reduce, include_self=include_self))


# ------------------------------------------------------------------ indices of several axes, and masks


@aten("index_put", "index_put.hacked_twin", "_unsafe_index_put", "_unsafe_index_put.hacked_twin")
@aten("_index_put_impl", ignores=["unsafe"])
def index_put(
    node: AtenNode,
    g: Operators,
    self: Value,
    indices: Sequence[Value | None],
    values: Value,
    accumulate: bool,
) -> Value:
    """Return a tensor with elements replaced by values, or values added to them, by index or mask."""
    given = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    values = g.builder.cast(values, self.dtype)
    if not given:
        whole = expanded(node, g, values, sizes_of(g, self))
        return _summed(g, self, whole) if accumulate else whole
    if len(given) == 1 and is_mask(given[0][1]) and not self.is_dynamic:
        axis, mask = given[0]
        return _masked(node, g, self, axis, g.builder.cast(mask, BOOL8), values, accumulate=accumulate)
    found = indexed(node, g, self, indices)
    count, tuples = len(found.axes), found.tuples
    if tuples.dims is not None and 0 in tuples.dims:
        return self
    head = sizes_of(g, tuples)[:-1]
    base = moved(g, self, found.axes, range(count))
    rest = sizes_of(g, base)[count:]
    whole = expanded(node, g, values, [*rest[: found.place], *head, *rest[found.place :]])
    whole = moved(g, whole, range(found.place, found.place + len(head)), range(len(head)))
    if accumulate and self.dtype is BOOL8:
        made = scatter_nd(g, g.builder.cast(base, INT32), tuples, g.builder.cast(whole, INT32), "add")
        made = g.builder.cast(made, BOOL8)
    else:
        made = scatter_nd(g, base, tuples, whole, "add" if accumulate else "none")
    return moved(g, made, range(count), found.axes)


def _summed(g: Operators, x: Value, y: Value) -> Value:
    return g("Or" if x.dtype is BOOL8 else "Add", [x, y])


def _masked(
    node: AtenNode, g: Operators, x: Value, axis: int, mask: Value, values: Value, *, accumulate: bool
) -> Value:
    """Return a tensor with values where a mask of its axes from one on is true; its shape needs no data."""
    shape, covered = dims(x), x.shape[axis : axis + mask.rank]
    if mask.dims != covered:
        raise node.invalid(f"a mask of shape {list(mask.shape)} from axis {axis} of {list(shape)}")
    rest = shape[axis + mask.rank :]
    wide = reshape(g, mask, (*covered, *[1] * len(rest)))
    along = values.rank - len(rest) - 1  # the axis of the values that counts the true elements
    sizes = values.dims
    if along < 0 or (sizes is not None and sizes[along] == 1):
        if along >= 0:
            kept = sizes_of(g, values)
            values = reshaped(node, g, values, [*kept[:along], *[1] * mask.rank, *kept[along + 1 :]])
        spread = values
    elif along != axis and along != 0:
        raise node.invalid(f"values of shape {list(values.shape)} by a mask from axis {axis}")
    else:
        spread = g("Gather", [values, _ranks(node, g, mask)], axis=along)
    if accumulate:
        return where(g, wide, _summed(g, x, expanded(node, g, spread, shape)), x)
    return where(g, wide, spread, x)


def _ranks(node: AtenNode, g: Operators, mask: Value) -> Value:
    """Return how many elements of a mask are true before each, int64, of the shape of the mask."""
    flat = g.builder.cast(reshaped(node, g, mask, [-1]), INT32)
    count = g("CumSum", [flat, g.builder.const(np.asarray(0, np.int64))])
    first = g("Max", [g("Sub", [count, number(g, count, 1)]), number(g, count, 0)])
    return reshaped(node, g, positions(g, first), sizes_of(g, mask))


@aten("masked_scatter")
def _masked_scatter(node: AtenNode, g: Operators, self: Value, mask: Value, source: Value) -> Value:
    mask = g.builder.cast(mask, BOOL8)
    if self.is_dynamic or mask.is_dynamic:
        x = g("Expand", [self, g("Shape", [mask])])
        mask = g("Expand", [mask, g("Shape", [x])])
    else:
        shape = common_shape(node, [self, mask])
        x, mask = (expanded(node, g, value, shape) for value in (self, mask))
    if source.dims is not None and 0 in source.dims:
        return x
    flat = reshaped(node, g, g.builder.cast(source, x.dtype), [-1])
    return where(g, mask, g("Gather", [flat, _ranks(node, g, mask)], axis=0), x)


@aten("put")
def _put(node: AtenNode, g: Operators, self: Value, index: Value, source: Value, accumulate: bool) -> Value:
    if index.dims is not None and 0 in index.dims:
        return self
    flat, updates = (reshaped(node, g, value, [-1]) for value in (self, g.builder.cast(source, self.dtype)))
    made = index_put(node, g, flat, [reshaped(node, g, index, [-1])], updates, accumulate)
    return reshaped(node, g, made, sizes_of(g, self))
