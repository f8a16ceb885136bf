"""Handlers of operators that write elements by position or mask."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from xdlc.converter.functions.elementwise import floor_div, where
from xdlc.converter.functions.scatter import full, scatter_nd
from xdlc.converter.functions.shapes import dims, number, positions, reshape
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops import _shapes as shapes
from xdlc.converter.pytorch.ops.indexing import indexed, is_mask, within
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.values import Value
from xdlc.ir.dtype import BOOL8, INT32, INT64

Write = Callable[[Value, Value, str], Value]
"""Returns a value with updates written to places, by a reduction of ONNX."""
_REDUCTIONS = {
    "": "none",
    "add": "add",
    "amax": "max",
    "amin": "min",
    "mean": "add",
    "multiply": "mul",
    "prod": "mul",
    "sum": "add",
}


def _combined(
    node: AtenNode, g: Operators, x: Value, source: Value, write: Write, reduce: str, include_self: bool
) -> Value:
    """Return a tensor with updates written, combined with its elements if included."""
    if x.dtype is BOOL8:  # sums of truth values are whether any holds, products whether all do
        x, source = (g.builder.cast(value, INT32) for value in (x, source))
        return g.builder.cast(_combined(node, g, x, source, write, reduce, include_self), BOOL8)
    base, kind = x, _REDUCTIONS[reduce]
    if not include_self:
        lowest, highest = (-np.inf, np.inf) if x.dtype.is_float else x.dtype.limits
        neutral = {"none": 0, "add": 0, "mul": 1, "max": lowest, "min": highest}[kind]
        base = write(x, full(g, dims(source), neutral, x.dtype), "none")
    total = write(base, source, kind)
    if reduce != "mean":
        return total
    count_type = x.dtype if x.dtype.is_float else INT64
    start = full(g, dims(x), int(include_self), count_type)
    count = write(start, full(g, dims(source), 1, count_type), "add")
    if not include_self:
        count = g("Max", [count, 1])
    return (
        g("Div", [total, count]) if x.dtype.is_float else floor_div(g, total, g.builder.cast(count, x.dtype))
    )


# ------------------------------------------------------------------ elements, each by an index of its own


@aten("scatter.src", "scatter.reduce", "scatter_reduce.two", names={"src": "source"})
@aten("scatter.value", "scatter.value_reduce", names={"value": "source"})
@aten("scatter_add", names={"src": "source"})
def _scatter(
    node: AtenNode,
    g: Operators,
    self: Value,
    dim: int,
    index: Value,
    source: Value | float,
    reduce: str = "",
    include_self: bool = True,
) -> Value:
    if shapes.is_empty(index):
        return self
    axis = shapes.axis_of(node, dim, self.rank)
    (place,) = shapes.places(g, shapes.rank_one(g, index), of=[self])
    pairs = list(zip(index.dims or (), self.dims or (), strict=False))
    if any(None not in pair and pair[0] > pair[1] for at, pair in enumerate(pairs) if at != axis):  # type: ignore[operator]
        raise node.invalid(f"an index of {list(index.shape)} does not fit {list(self.shape)}")
    if isinstance(source, Value):
        updates = within(g, g.builder.cast(shapes.rank_one(g, source), self.dtype), place, -1)
        if updates.dims != place.dims:
            raise node.invalid(f"updates of {list(source.shape)} do not fit an index of {list(index.shape)}")
    else:
        updates = shapes.expanded(g, number(g, self, source), shapes.sizes_of(g, place))

    def write(base: Value, updates: Value, reduction: str) -> Value:
        return g("ScatterElements", [base, place, updates], axis=axis, reduction=reduction)

    reduce = "sum" if node.type == "scatter_add" else reduce
    made = _combined(node, g, shapes.rank_one(g, self), updates, write, reduce, include_self)
    return made if self.rank else reshape(g, made, ())


# ------------------------------------------------------------------ parts along an axis


@aten("index_add", "index_copy", "index_reduce")
def _index_written(
    node: AtenNode,
    g: Operators,
    self: Value,
    dim: int,
    index: Value,
    source: Value,
    reduce: str = "",
    include_self: bool = True,
    alpha: float = 1,
) -> Value:
    if shapes.is_empty(index):
        return self
    axis = shapes.axis_of(node, dim, self.rank)
    if index.rank > 1:
        raise node.invalid(f"an index of shape {list(index.shape)} is not valid")
    if source.rank != self.rank and source.rank:
        raise node.invalid(f"updates of shape {list(source.shape)} do not fit {list(self.shape)}")
    (place,) = shapes.places(g, shapes.rank_one(g, index), of=[self])
    whole, updates = shapes.rank_one(g, self), g.builder.cast(shapes.rank_one(g, source), self.dtype)
    updates = shapes.expanded(
        g, updates, shapes.replaced(shapes.sizes_of(g, whole), axis, *shapes.sizes_of(g, place))
    )
    if alpha != 1:
        updates = g("Mul", [updates, alpha])
    tuples = g("Unsqueeze", [place, [1]])

    def write(base: Value, updates: Value, reduction: str) -> Value:
        return scatter_nd(g, base, tuples, updates, reduction)

    reduce = "sum" if node.type == "index_add" else reduce
    base, updates = (shapes.moved(g, value, [axis], [0]) for value in (whole, updates))
    made = _combined(node, g, base, updates, write, reduce, include_self)
    return shapes.moved(g, made, [0], [axis]) if self.rank else reshape(g, made, ())


@aten("index_fill")
def _index_fill(
    node: AtenNode, g: Operators, self: Value, dim: int, index: Value, value: float | Value
) -> Value:
    fill = value if isinstance(value, Value) else number(g, self, value)
    return _index_written(node, g, self, dim, index, reshape(g, fill, (1,) * self.rank))


# ------------------------------------------------------------------ indices of several axes, and masks


@aten("index_put", "index_put.hacked_twin", "_unsafe_index_put", "_unsafe_index_put.hacked_twin")
@aten("_index_put_impl", ignores=["unsafe"])
def _index_put(
    node: AtenNode,
    g: Operators,
    self: Value,
    indices: Sequence[Value | None],
    values: Value,
    accumulate: bool,
) -> Value:
    indexed_axes = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    values = g.builder.cast(values, self.dtype)
    if not indexed_axes:
        whole = shapes.expanded(g, values, shapes.sizes_of(g, self))
        return _summed(g, self, whole) if accumulate else whole
    if len(indexed_axes) == 1 and is_mask(indexed_axes[0][1]) and not self.is_dynamic:
        axis, mask = indexed_axes[0]
        return _masked(node, g, self, axis, g.builder.cast(mask, BOOL8), values, accumulate=accumulate)
    places = indexed(node, g, self, indices)
    count, tuples = len(places.axes), places.tuples
    if shapes.is_empty(tuples):
        return self
    head = shapes.sizes_of(g, tuples)[:-1]
    base = shapes.moved(g, self, places.axes, range(count))
    rest = shapes.sizes_of(g, base)[count:]
    whole = shapes.expanded(g, values, shapes.replaced(rest, places.place, *head, count=0))
    whole = shapes.moved(g, whole, range(places.place, places.place + len(head)), range(len(head)))
    if accumulate and self.dtype is BOOL8:
        base, whole = (g.builder.cast(value, INT32) for value in (base, whole))
    updated = scatter_nd(g, base, tuples, whole, "add" if accumulate else "none")
    return shapes.moved(g, g.builder.cast(updated, self.dtype), range(count), places.axes)


def _summed(g: Operators, x: Value, y: Value) -> Value:
    return g("Or" if x.dtype is BOOL8 else "Add", [x, y])


def _masked(
    node: AtenNode, g: Operators, x: Value, axis: int, mask: Value, values: Value, *, accumulate: bool
) -> Value:
    """Return a tensor with values where a mask of its axes from ``axis`` on is true.

    The shape does not depend on data.
    """
    shape, covered = dims(x), x.shape[axis : axis + mask.rank]
    if mask.dims != covered:
        raise node.invalid(f"a mask of {list(mask.shape)} from axis {axis} on does not fit {list(shape)}")
    rest = shape[axis + mask.rank :]
    wide = reshape(g, mask, (*covered, *[1] * len(rest)))
    along = values.rank - len(rest) - 1  # the axis of the values that counts the true elements
    if along >= 0 and values.dims is not None and values.dims[along] == 1:
        ones = [1] * mask.rank
        values = shapes.reshaped(g, values, shapes.replaced(shapes.sizes_of(g, values), along, *ones))
    elif along >= 0:
        if along not in (0, axis):
            raise node.invalid(f"values of shape {list(values.shape)} do not fit a mask from axis {axis} on")
        values = _by_order(node, g, values, mask, along)
    if accumulate:
        values = _summed(g, x, shapes.expanded(g, values, shape))
    return where(g, wide, values, x)


def _by_order(node: AtenNode, g: Operators, values: Value, mask: Value, axis: int) -> Value:
    """Return values in their order where a mask is true; open sizes may be 0."""
    if values.is_dynamic:
        ends = [int(at == axis) for at in range(values.rank)]
        values = g("Pad", [values, [*[0] * values.rank, *ends]])
    return g("Gather", [values, _ranks(node, g, mask)], axis=axis)


def _ranks(node: AtenNode, g: Operators, mask: Value) -> Value:
    """Return the number of true elements before each, int64, in the mask's shape."""
    counted = g.builder.cast(shapes.flat(g, mask), INT32)
    count = g("CumSum", [counted, np.asarray(0, np.int64)])
    first = g("Max", [g("Sub", [count, 1]), 0])
    return shapes.reshaped(g, positions(g, first), shapes.sizes_of(g, mask))


@aten("masked_scatter")
def _masked_scatter(node: AtenNode, g: Operators, self: Value, mask: Value, source: Value) -> Value:
    mask = g.builder.cast(mask, BOOL8)
    if self.is_dynamic or mask.is_dynamic:
        x = g("Expand", [self, g("Shape", [mask])])
        mask = g("Expand", [mask, g("Shape", [x])])
    else:
        x, mask = shapes.together(g, [self, mask])
    if shapes.is_empty(source):
        return x
    values = shapes.flat(g, g.builder.cast(source, x.dtype))
    return where(g, mask, _by_order(node, g, values, mask, 0), x)


@aten("put")
def _put(node: AtenNode, g: Operators, self: Value, index: Value, source: Value, accumulate: bool) -> Value:
    if shapes.is_empty(index):
        return self
    made = _index_put(
        node, g, shapes.flat(g, self), [shapes.flat(g, index)], shapes.flat(g, source), accumulate
    )
    return shapes.reshaped(g, made, shapes.sizes_of(g, self))
