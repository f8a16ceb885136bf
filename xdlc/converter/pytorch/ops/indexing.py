"""Handlers of elements that are read by position or mask, and of bags of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from xdlc.converter.functions.elementwise import one_hot, where
from xdlc.converter.functions.gathering import places as true_places
from xdlc.converter.functions.scatter import full, segments
from xdlc.converter.functions.shapes import dims, number, positions, reshape
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops import _shapes as shapes
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value, check_table
from xdlc.ir.dtype import BOOL8, INT32, UINT8


def gathered(g: Operators, x: Value, index: Value, axis: int) -> Value:
    """Return elements of an axis by an index of any rank, whose axes replace it."""
    if shapes.is_empty(index):
        shape = dims(x)
        return shapes.empty(g, [*shape[:axis], *dims(index), *shape[axis + 1 :]], x.dtype)
    return g("Gather", [x, positions(g, index)], axis=axis)


@aten("index_select", layout=ANY)
def _index_select(node: AtenNode, g: Operators, self: Value, dim: int, index: Value) -> Value:
    if index.rank > 1:
        raise node.invalid(f"an index of shape {list(index.shape)} is not valid")
    index = shapes.rank_one(g, index)
    found = gathered(g, shapes.rank_one(g, self), index, shapes.axis_of(node, dim, self.rank))
    return found if self.rank else reshape(g, found, ())


@aten("embedding", ignores=["padding_idx", "scale_grad_by_freq", "sparse"])
def _embedding(node: AtenNode, g: Operators, weight: Value, indices: Value) -> Value:
    return gathered(g, weight, indices, 0)


@aten("take")
def _take(node: AtenNode, g: Operators, self: Value, index: Value) -> Value:
    return gathered(g, shapes.flat(g, self), index, 0)


@aten("gather", ignores=["sparse_grad"])
def gather(node: AtenNode, g: Operators, self: Value, dim: int, index: Value) -> Value:
    """Return elements along an axis, each by an index of its own."""
    axis = shapes.axis_of(node, dim, self.rank)
    if shapes.is_empty(index):
        return shapes.empty(g, dims(index), self.dtype)
    (place,) = shapes.places(g, shapes.rank_one(g, index), of=[self])
    found = g("GatherElements", [within(g, shapes.rank_one(g, self), place, axis), place], axis=axis)
    return found if index.rank else reshape(g, found, ())


def within(g: Operators, x: Value, index: Value, axis: int) -> Value:
    """Return ``x`` without the elements that a smaller index does not reach."""
    for at, (size, few) in enumerate(zip(x.dims or (), index.dims or (), strict=False)):
        if at != axis and size is not None and few is not None and few < size:
            x = shapes.cut(g, x, at, 0, few)
    return x


@aten("take_along_dim")
def _take_along_dim(node: AtenNode, g: Operators, self: Value, indices: Value, dim: int | None) -> Value:
    x, axis = shapes.flat_or_along(node, g, self, dim)
    index = shapes.flat(g, indices) if dim is None else shapes.rank_one(g, indices)
    shape, index_shape = dims(x), dims(index)
    if len(shape) != len(index_shape):
        raise node.invalid(f"indices of shape {list(index_shape)} do not fit {list(shape)}")
    if index.is_static and shape[axis]:  # torch counts beyond an end from the other one
        index = g.builder.const(index.numpy() % shape[axis])
    both = [many if few == 1 else few for few, many in zip(index_shape, shape, strict=True)]
    x, index = (
        shapes.expanded(g, value, shapes.replaced(both, axis, size[axis]))
        for value, size in ((x, shape), (index, index_shape))
    )
    return gather(node, g, x, axis, index)


# ------------------------------------------------------------------ one index for each axis


class Indices(NamedTuple):
    """Indices of some axes of a value, in a common form.

    Attributes:
        tuples: [..., axes]: positions along them, int64 or int32.
        place: Where the axes of the tuples are in the result.
    """

    axes: list[int]
    tuples: Value
    place: int


def is_mask(index: Value) -> bool:
    """Return whether an index is a mask."""
    return index.dtype in (BOOL8, UINT8)


def indexed(node: AtenNode, g: Operators, x: Value, indices: Sequence[Value | None]) -> Indices:
    """Return indices as tuples; masks become the positions of true elements.

    Raises:
        ModelError: If there are too many.
    """
    axis, by_axis = 0, dict[int, Value]()
    for index in indices:
        if index is None:
            axis += 1
        elif is_mask(index):
            true = g("NonZero", [g.builder.cast(index, BOOL8)])
            for row in range(index.rank):
                by_axis[axis] = g("Gather", [true, np.asarray(row)], axis=0)
                axis += 1
        else:
            by_axis[axis] = index
            axis += 1
    axes = list(by_axis)
    if axis > x.rank or not axes:
        raise node.invalid(f"indices of {axis} axes do not fit {x.rank} axes")
    values = shapes.places(g, *by_axis.values(), of=[x])
    if len(values) > 1 and not any(value.is_dynamic for value in values):
        values = shapes.together(g, values)
    elif len(values) > 1:
        whole = values[0]
        if whole.rank != 1 or any(value.dims != whole.dims for value in values):
            whole = reduce(lambda total, value: g("Add", [total, value]), values)
        values = [value if value is whole else g("Expand", [value, g("Shape", [whole])]) for value in values]
    columns = [g("Unsqueeze", [value, [value.rank]]) for value in values]
    tuples = columns[0] if len(columns) == 1 else g("Concat", columns, axis=values[0].rank)
    return Indices(axes, tuples, axes[0] if axes[-1] - axes[0] == len(axes) - 1 else 0)


@aten("index.Tensor", "index.Tensor_hacked_twin", "_unsafe_index", layout=ANY)
def _index(node: AtenNode, g: Operators, self: Value, indices: Sequence[Value | None]) -> Value:
    given = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    if not given:
        return self
    if len(given) == 1:
        axis, only = given[0]
        if is_mask(only):
            return _kept(node, g, self, axis, only)
        return gathered(g, self, only, node.axis(axis, self.rank))
    found = indexed(node, g, self, indices)
    x = shapes.moved(g, self, found.axes, range(len(found.axes)))
    made, count = g("GatherND", [x, found.tuples]), found.tuples.rank - 1
    return shapes.moved(g, made, range(count), range(found.place, found.place + count))


def _kept(node: AtenNode, g: Operators, x: Value, axis: int, mask: Value) -> Value:
    """Return the slices of a value where a mask of its axes from ``axis`` on is true."""
    if axis + mask.rank > x.rank:
        raise node.invalid(f"a mask of {mask.rank} axes from axis {axis} on does not fit {x.rank} axes")
    if mask.rank != 1:
        one = -1 if mask.rank else 1
        x = shapes.reshaped(g, x, shapes.replaced(shapes.sizes_of(g, x), axis, one, count=mask.rank))
        mask = shapes.flat(g, mask)
    return g("Compress", [x, g.builder.cast(mask, BOOL8)], axis=axis)


@aten("masked_select")
def _masked_select(node: AtenNode, g: Operators, self: Value, mask: Value) -> Value:
    is_alike = self.dims is not None and self.dims == mask.dims
    pair = [self, mask] if is_alike else shapes.together(g, [self, mask])
    x, mask = (shapes.rank_one(g, value) for value in pair)
    return _kept(node, g, x, 0, mask)


# ------------------------------------------------------------------ places


@aten("nonzero", "argwhere")
def _nonzero(node: AtenNode, g: Operators, self: Value) -> Value:
    found = true_places(g, shapes.rank_one(g, self))
    return found if self.rank else shapes.cut(g, found, 1, 0, 0)


@aten("nonzero_static")
def _nonzero_static(node: AtenNode, g: Operators, self: Value, size: int, fill_value: int) -> Value:
    """Return ``size`` positions of nonzero elements, filled up with ``fill_value``."""
    shape = dims(self)
    if size < 0 or not self.rank:
        raise node.invalid(f"{size} positions do not fit shape {list(shape)}")
    if not self.size or not size:
        return g.builder.const(np.full((size, self.rank), fill_value, np.int64))
    check_table(self.size, size)
    held = g.builder.cast(g.builder.cast(shapes.flat(g, self), BOOL8), INT32)
    count = g("CumSum", [held, np.asarray(0, np.int64)])
    before = g("LessOrEqual", [count, np.arange(size, dtype=np.int32)[:, None]])
    at = g("ReduceSum", [g.builder.cast(before, INT32), [1]], keepdims=0)
    table = np.stack(np.unravel_index(np.arange(self.size), shape), 1).astype(np.int64)
    table = np.concatenate([table, np.full((1, self.rank), fill_value, np.int64)])
    return g("Gather", [table, at], axis=0)


@aten("nonzero_numpy")
@aten("where", names={"condition": "self"})
def _nonzero_numpy(node: AtenNode, g: Operators, self: Value) -> list[Value]:
    found = true_places(g, shapes.rank_one(g, self))
    return [g("Gather", [found, np.asarray(axis)], axis=1) for axis in range(self.rank or 1)]


@aten("one_hot")
def _one_hot(node: AtenNode, g: Operators, self: Value, num_classes: int) -> Value:
    if num_classes < 1:
        if not self.is_static or not self.size:
            raise node.problem(
                "num_classes is missing: the shape of the result depends on data",
                "state num_classes in the model",
            )
        num_classes = int(self.numpy().max()) + 1
    on, off = (g.builder.const(np.asarray(value, np.int64)) for value in (1, 0))
    return one_hot(g, g.builder.cast(self, INT32), num_classes, on, off, -1)


_BAGS = ("Sum", "Mean", "Max")
"""Reductions by the number of their mode."""


@aten("embedding_bag", ignores=["scale_grad_by_freq", "sparse"])
@aten("_embedding_bag", "_embedding_bag_forward_only", ignores=["scale_grad_by_freq", "sparse"])
def _embedding_bag(
    node: AtenNode,
    g: Operators,
    weight: Value,
    indices: Value,
    offsets: Value,
    mode: int,
    per_sample_weights: Value | None,
    include_last_offset: bool,
    padding_idx: int | None = None,
) -> list[Value]:
    """Return the reduced bags; other results are only for training."""
    if not 0 <= mode < len(_BAGS) or indices.rank != 1 or offsets.rank != 1:
        raise node.invalid(
            f"bags of mode {mode} do not support {indices.rank} axes of indices and {offsets.rank} of offsets"
        )
    (size,), (given,) = dims(indices), dims(offsets)
    count, rest = given - int(include_last_offset), dims(weight)[1:]
    if not size or not count:
        return [full(g, [count, *rest], 0, weight.dtype)]
    rows = g("Gather", [weight, positions(g, indices)], axis=0)
    if per_sample_weights is not None:
        rows = g("Mul", [rows, reshape(g, g.builder.cast(per_sample_weights, rows.dtype), [size, 1])])
    is_padded = padding_idx is not None and padding_idx >= 0
    width = size // count
    starts = offsets.numpy()[:count].tolist() if offsets.is_static and width and not is_padded else []
    if starts == list(range(0, size, width or 1)):
        apart = reshape(g, rows, [count, width, *rest])
        return [g(f"Reduce{_BAGS[mode]}", [apart, [1]], keepdims=0)]
    places, begins = (g.builder.cast(each, INT32) for each in (indices, offsets))
    at = g.builder.const(np.arange(size, dtype=np.int32)[:, None])
    begun = g("LessOrEqual", [shapes.cut(g, begins, 0, 0, count), at])
    passed = g("ReduceSum", [g.builder.cast(begun, INT32), [1]], keepdims=0)
    bags = g("Sub", [passed, 1])
    if is_padded:
        bags = where(g, g("Equal", [places, padding_idx or 0]), number(g, bags, -1), bags)
    return [segments(g, rows, bags, count, _BAGS[mode], empty=0.0 if _BAGS[mode] == "Max" else None)]
