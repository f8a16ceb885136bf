"""Handlers of operators that take elements by position or by truth value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xdlc.converter.nhwc.elementwise import one_hot, where
from xdlc.converter.nhwc.gathering import places as true_places
from xdlc.converter.nhwc.shapes import dims, number, positions, reshape, vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._shapes import (
    axis_of,
    common_shape,
    empty,
    expanded,
    moved,
    places,
    rank_one,
    reshaped,
    sizes_of,
)
from xdlc.converter.pytorch.ops.slicing import cut
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value
from xdlc.ir.dtype import BOOL8, INT32, UINT8


def _of_rank_one(node: AtenNode, g: Operators, index: Value) -> Value:
    if index.rank > 1:
        raise node.invalid(f"an index of shape {list(index.shape)}")
    return positions(g, rank_one(g, index))


@aten("index_select", layout=ANY)
def _index_select(node: AtenNode, g: Operators, self: Value, dim: int, index: Value) -> Value:
    axis, index = axis_of(node, dim, self.rank), _of_rank_one(node, g, index)
    if index.dims == (0,):
        return empty(g, [0 if at == axis else size for at, size in enumerate(dims(self))], self.dtype)
    found = g("Gather", [rank_one(g, self), index], axis=axis)
    return found if self.rank else reshape(g, found, ())


@aten("gather", ignores=["sparse_grad"])
def gather(node: AtenNode, g: Operators, self: Value, dim: int, index: Value) -> Value:
    """Return elements along an axis, each by an index of its own."""
    axis, shape = axis_of(node, dim, self.rank), index.dims
    if shape is not None and 0 in shape:
        return empty(g, dims(index), self.dtype)
    (place,) = places(g, index, of=[self])
    place = rank_one(g, place)
    found = g("GatherElements", [within(g, rank_one(g, self), place, axis), place], axis=axis)
    return found if index.rank else reshape(g, found, ())


def within(g: Operators, x: Value, index: Value, axis: int) -> Value:
    """Return ``x`` without the elements of the other axes that a smaller index does not reach."""
    for at, (size, few) in enumerate(zip(x.dims or (), index.dims or (), strict=False)):
        if at != axis and size is not None and few is not None and few < size:
            x = cut(g, x, at, 0, few)
    return x


@aten("take")
def _take(node: AtenNode, g: Operators, self: Value, index: Value) -> Value:
    if index.dims is not None and 0 in index.dims:
        return empty(g, dims(index), self.dtype)
    return g("Gather", [reshaped(node, g, self, [-1]), positions(g, index)], axis=0)


@aten("take_along_dim")
def _take_along_dim(node: AtenNode, g: Operators, self: Value, indices: Value, dim: int | None) -> Value:
    if dim is None:
        return gather(node, g, reshaped(node, g, self, [-1]), 0, reshaped(node, g, indices, [-1]))
    axis = node.axis(dim, self.rank)
    shape, wanted = list(dims(self)), list(dims(indices))
    if len(shape) != len(wanted):
        raise node.invalid(f"indices of shape {wanted} of {shape}")
    both = [max(pair) if 0 not in pair else 0 for pair in zip(shape, wanted, strict=True)]
    x = expanded(node, g, self, [shape[axis] if at == axis else size for at, size in enumerate(both)])
    index = expanded(node, g, indices, [wanted[axis] if at == axis else size for at, size in enumerate(both)])
    return gather(node, g, x, axis, index)


# ------------------------------------------------------------------ one index for each axis


class Indices(NamedTuple):
    """Indices of some axes of a value, in a common form.

    Attributes:
        axes: The axes, in order.
        tuples: [..., axes]: positions along them, int64 or int32.
        place: Where the axes of the tuples are in the result.
    """

    axes: list[int]
    tuples: Value
    place: int


def is_mask(index: Value) -> bool:
    """Return whether an index states by truth values what to take."""
    return index.dtype in (BOOL8, UINT8)


def indexed(node: AtenNode, g: Operators, x: Value, indices: Sequence[Value | None]) -> Indices:
    """Return indices as tuples, masks as the positions where they are true.

    Raises:
        ModelError: If there are too many.
    """
    axis, found = 0, list[tuple[int, Value]]()
    for index in indices:
        if index is None:
            axis += 1
        elif is_mask(index):
            true = g("NonZero", [g.builder.cast(index, BOOL8)])
            for row in range(index.rank):
                found.append((axis, g("Gather", [true, g.builder.const(np.asarray(row))], axis=0)))
                axis += 1
        else:
            found.append((axis, index))
            axis += 1
    axes = [at for at, _ in found]
    if axis > x.rank or not axes:
        raise node.invalid(f"indices of {axis} axes of {x.rank}")
    values = _alike(node, g, places(g, *(value for _, value in found), of=[x]))
    last = vector(g, [values[0].rank])
    columns = [g("Unsqueeze", [value, last]) for value in values]
    joined = columns[0] if len(columns) == 1 else g("Concat", columns, axis=values[0].rank)
    is_run = axes == list(range(axes[0], axes[0] + len(axes)))
    return Indices(axes, joined, axes[0] if is_run else 0)


def _alike(node: AtenNode, g: Operators, values: Sequence[Value]) -> list[Value]:
    """Return indices broadcast to one shape."""
    if len(values) == 1:
        return list(values)
    if not any(value.is_dynamic for value in values):
        shape = common_shape(node, values)
        return [expanded(node, g, value, shape) for value in values]
    if all(value.dims == values[0].dims and value.rank == 1 for value in values):
        longest = values[0]
    else:
        longest = values[0]
        for value in values[1:]:
            longest = g("Add", [longest, value])
    return [
        g("Expand", [value, g("Shape", [longest])]) if value.rank != 1 or value is not longest else value
        for value in values
    ]


@aten("index.Tensor", "index.Tensor_hacked_twin", "_unsafe_index", layout=ANY)
def index_tensor(node: AtenNode, g: Operators, self: Value, indices: Sequence[Value | None]) -> Value:
    """Return elements by indices or masks of the first axes; None takes all of an axis."""
    given = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    if not given:
        return self
    if len(given) == 1:
        axis, only = given[0]
        if is_mask(only):
            return _kept(node, g, self, axis, only)
        if only.dims is not None and 0 in only.dims:
            shape = dims(self)
            return empty(g, [*shape[:axis], *dims(only), *shape[axis + 1 :]], self.dtype)
        return g("Gather", [self, positions(g, only)], axis=node.axis(axis, self.rank))
    found = indexed(node, g, self, indices)
    x = moved(g, self, found.axes, range(len(found.axes)))
    made = g("GatherND", [x, found.tuples])
    count = found.tuples.rank - 1
    if not count:
        return made
    return moved(g, made, range(count), range(found.place, found.place + count))


def _kept(node: AtenNode, g: Operators, x: Value, axis: int, mask: Value) -> Value:
    """Return the parts of a value where a mask of its axes from one on is true."""
    sizes = sizes_of(g, x)
    if axis + mask.rank > x.rank:
        raise node.invalid(f"a mask of {mask.rank} axes from axis {axis} of {x.rank}")
    if not mask.rank:
        flat, mask = g("Unsqueeze", [x, vector(g, [axis])]), reshape(g, mask, (1,))
    elif mask.rank == 1:
        flat = x
    else:
        flat = reshaped(node, g, x, [*sizes[:axis], -1, *sizes[axis + mask.rank :]])
        mask = reshaped(node, g, mask, [-1])
    return g("Compress", [flat, g.builder.cast(mask, BOOL8)], axis=axis)


@aten("index.list_Tensor")
def _index_list(node: AtenNode, g: Operators, self: Sequence[Value], el: Value) -> Value:
    raise node.problem("a list searched for a tensor", "rewrite this part of the model")


@aten("masked_select")
def _masked_select(node: AtenNode, g: Operators, self: Value, mask: Value) -> Value:
    if self.dims is not None and self.dims == mask.dims:
        return _kept(node, g, rank_one(g, self), 0, rank_one(g, mask))
    shape = common_shape(node, [self, mask])
    pair = [rank_one(g, expanded(node, g, value, shape)) for value in (self, mask)]
    return _kept(node, g, pair[0], 0, pair[1])


# ------------------------------------------------------------------ places


@aten("nonzero", "argwhere")
def _nonzero(node: AtenNode, g: Operators, self: Value) -> Value:
    if not self.rank:
        return g(
            "Slice", [true_places(g, reshape(g, self, (1,))), vector(g, [0]), vector(g, [0]), vector(g, [1])]
        )
    return true_places(g, self)


@aten("nonzero_numpy")
def _nonzero_numpy(node: AtenNode, g: Operators, self: Value) -> list[Value]:
    found = true_places(g, rank_one(g, self))
    return [
        g("Gather", [found, g.builder.const(np.asarray(axis))], axis=1) for axis in range(max(self.rank, 1))
    ]


@aten("where")
def _where_true(node: AtenNode, g: Operators, condition: Value) -> list[Value]:
    return _nonzero_numpy(node, g, condition)


@aten("nonzero_static")
def _nonzero_static(node: AtenNode, g: Operators, self: Value, size: int, fill_value: int) -> Value:
    shape = dims(self)
    if size < 0 or not self.rank:
        raise node.invalid(f"{size} positions of shape {list(shape)}")
    if not self.size or not size:
        return g.builder.const(np.full((size, self.rank), fill_value, np.int64))
    flat = g.builder.cast(g.builder.cast(reshape(g, self, (self.size,)), BOOL8), INT32)
    count = g("CumSum", [flat, g.builder.const(np.asarray(0, np.int64))])
    rank = g.builder.const(np.arange(size, dtype=np.int32)[:, None])  # how many are before each
    at = g("ReduceSum", [g.builder.cast(g("LessOrEqual", [count, rank]), INT32), vector(g, [1])], keepdims=0)
    inside = g("Unsqueeze", [g("Less", [at, number(g, at, self.size)]), vector(g, [1])])
    at = g("Min", [at, number(g, at, self.size - 1)])
    table = np.stack(np.unravel_index(np.arange(self.size), shape), 1).astype(np.int64)
    found = g("Gather", [g.builder.const(table), at], axis=0)
    return where(g, inside, found, number(g, found, fill_value))


@aten("one_hot")
def _one_hot(node: AtenNode, g: Operators, self: Value, num_classes: int) -> Value:
    if num_classes < 1:
        if not self.is_static or not self.size:
            raise node.problem(
                "num_classes is missing, so that the data decides the shape of the result",
                "state num_classes in the model",
            )
        num_classes = int(self.numpy().max()) + 1
    on, off = (g.builder.const(np.asarray(value, np.int64)) for value in (1, 0))
    return one_hot(g, g.builder.cast(self, INT32), num_classes, on, off, -1)


@aten("embedding", ignores=["padding_idx", "scale_grad_by_freq", "sparse"])
def _embedding(node: AtenNode, g: Operators, weight: Value, indices: Value) -> Value:
    if indices.dims is not None and 0 in indices.dims:
        return empty(g, [*dims(indices), *dims(weight)[1:]], weight.dtype)
    return g("Gather", [weight, positions(g, indices)], axis=0)
