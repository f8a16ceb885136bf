"""Handlers of operators on groups of elements: equal ones, repeated ones, bags and segments."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xdlc.converter.nhwc.elementwise import where
from xdlc.converter.nhwc.gathering import places as true_places
from xdlc.converter.nhwc.gathering import unique
from xdlc.converter.nhwc.scatter import full, scatter_nd
from xdlc.converter.nhwc.shapes import dims, number, positions, reshape, vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._shapes import (
    Size,
    axis_of,
    empty,
    expanded,
    known,
    rank_one,
    reshaped,
    sizes_of,
)
from xdlc.converter.pytorch.ops._shapes import number as scalar
from xdlc.converter.pytorch.ops.indexing import index_tensor
from xdlc.converter.pytorch.ops.scattering import index_put
from xdlc.converter.pytorch.ops.slicing import cut
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.values import Value, check_table
from xdlc.ir.dtype import BOOL8, INT32, INT64

_ALL = (1 << 63) - 1

# ------------------------------------------------------------------ different elements


def _some(g: Operators, values: Sequence[Value], wanted: Sequence[bool]) -> list[Value]:
    """Return the results of a search; those that are not wanted have no elements."""
    return [
        value if wants else empty(g, [0], INT64) for value, wants in zip(values, (True, *wanted), strict=True)
    ]


@aten("_unique2", ignores=["sorted"])
def _unique(
    node: AtenNode, g: Operators, self: Value, return_inverse: bool, return_counts: bool
) -> list[Value]:
    values, inverse, counts = unique(g, reshaped(node, g, self, [-1]), is_sorted=True)
    if return_inverse:
        inverse = reshaped(node, g, inverse, sizes_of(g, self))
    return _some(g, [values, inverse, counts], [return_inverse, return_counts])


@aten("_unique", ignores=["sorted"])
def _unique_only(node: AtenNode, g: Operators, self: Value, return_inverse: bool) -> list[Value]:
    return _unique(node, g, self, return_inverse, False)[:2]


@aten("unique_dim", ignores=["sorted"])
def _unique_dim(
    node: AtenNode, g: Operators, self: Value, dim: int, return_inverse: bool, return_counts: bool
) -> list[Value]:
    node.stated = ()  # which torch.export gets wrong here
    found = unique(g, self, node.axis(dim, self.rank), is_sorted=True)
    return _some(g, found, [return_inverse, return_counts])


@aten("unique_consecutive", "unique_dim_consecutive")
def _unique_consecutive(
    node: AtenNode, g: Operators, self: Value, return_inverse: bool, return_counts: bool, dim: int | None
) -> list[Value]:
    shape = dims(self)
    x = reshaped(node, g, self, [-1]) if dim is None else rank_one(g, self)
    axis = 0 if dim is None else axis_of(node, dim, self.rank)
    size = x.shape[axis]
    if dim is not None:
        node.stated = ()  # which torch.export gets wrong here
    if not x.size:
        raise node.problem("different elements of no elements", "remove the operator")
    if size > 1:
        same = g("Equal", [cut(g, x, axis, 1, _ALL), cut(g, x, axis, 0, size - 1)])
        others = [at for at in range(x.rank) if at != axis]
        if others:
            same = g("ReduceMin", [g.builder.cast(same, INT32), vector(g, others)], keepdims=0)
            same = g.builder.cast(same, BOOL8)
        first = g.builder.const(np.ones(1, np.bool_))
        starts = g("Concat", [first, g("Not", [same])], axis=0)
    else:
        starts = g.builder.const(np.ones(1, np.bool_))
    values = g("Compress", [x, starts], axis=axis)
    count = g("CumSum", [g.builder.cast(starts, INT64), g.builder.const(np.asarray(0, np.int64))])
    inverse = g("Sub", [count, number(g, count, 1)])
    at = reshaped(node, g, true_places(g, starts), [-1])
    ends = g("Concat", [cut(g, at, 0, 1, _ALL), vector(g, [size])], axis=0)
    if dim is None:
        inverse = reshape(g, inverse, shape)
    return _some(g, [values, inverse, g("Sub", [ends, at])], [return_inverse, return_counts])


@aten("bincount")
def _bincount(node: AtenNode, g: Operators, self: Value, weights: Value | None, minlength: int) -> Value:
    if not self.size:
        return full(g, [minlength], 0, INT64 if weights is None else weights.dtype)
    index = positions(g, self)
    most = g("Add", [g("ReduceMax", [index], keepdims=0), scalar(g, 1)])
    length: Size = known(g("Max", [most, scalar(g, minlength)]))
    given = full(g, dims(index), 1, INT64) if weights is None else weights
    zero = expanded(node, g, number(g, given, 0), [length])
    return scatter_nd(g, zero, g("Unsqueeze", [index, vector(g, [1])]), given, "add")


# ------------------------------------------------------------------ repeated elements


@aten("repeat_interleave.self_int", ignores=["output_size"])
def _repeat_each(node: AtenNode, g: Operators, self: Value, repeats: int, dim: int | None) -> Value:
    if repeats < 0:
        raise node.invalid(f"{repeats} repeats")
    x = reshaped(node, g, self, [-1]) if dim is None else rank_one(g, self)
    axis = 0 if dim is None else axis_of(node, dim, self.rank)
    if repeats == 1:
        return x if dim is None else self
    sizes = sizes_of(g, x)
    wide = expanded(
        node,
        g,
        g("Unsqueeze", [x, vector(g, [axis + 1])]),
        [*([-1] * (axis + 1)), repeats, *([-1] * (x.rank - axis - 1))],
    )
    size = sizes[axis]
    whole: Size = g("Mul", [size, vector(g, [repeats])]) if isinstance(size, Value) else size * repeats
    return reshaped(node, g, wide, [*sizes[:axis], whole, *sizes[axis + 1 :]])


def _sources(node: AtenNode, g: Operators, repeats: Value, output_size: Size | None) -> Value:
    """Return the position of each repeated element, int64: it is that many totals of repeats are passed.

    Raises:
        ModelError: If there are negative repeats.
    """
    counts = positions(g, rank_one(g, repeats))
    if counts.is_static:
        given = counts.numpy()
        if given.min(initial=0) < 0:
            raise node.invalid("a number of repeats is negative")
        check_table(int(given.sum()))
        return vector(g, np.repeat(np.arange(given.size), given))
    if not counts.is_dynamic:
        counts = g.builder.cast(counts, INT32)
    totals = g("CumSum", [counts, g.builder.const(np.asarray(0, np.int64))])
    length = None if output_size is None else known(output_size)
    if isinstance(length, int):
        check_table(length)
        at = g.builder.const(np.arange(length, dtype=totals.dtype.numpy))
    else:
        whole = g("ReduceSum", [counts], keepdims=0) if length is None else scalar(g, length)
        whole = g.builder.cast(whole, totals.dtype)
        at = g("Range", [number(g, totals, 0), whole, number(g, totals, 1)])
    passed = g("LessOrEqual", [totals, g("Unsqueeze", [at, vector(g, [1])])])
    return g("ReduceSum", [g.builder.cast(passed, totals.dtype), vector(g, [1])], keepdims=0)


@aten("repeat_interleave.Tensor", symbolic=["output_size"])
def _repeated_places(node: AtenNode, g: Operators, repeats: Value, output_size: Size | None) -> Value:
    return _sources(node, g, repeats, output_size)


@aten("repeat_interleave.self_Tensor", symbolic=["output_size"])
def _repeat_by(
    node: AtenNode, g: Operators, self: Value, repeats: Value, dim: int | None, output_size: Size | None
) -> Value:
    x = reshaped(node, g, self, [-1]) if dim is None else rank_one(g, self)
    axis = 0 if dim is None else axis_of(node, dim, self.rank)
    if repeats.dims in ((), (1,)):
        repeats = expanded(node, g, repeats, sizes_of(g, x)[axis : axis + 1])
    return g("Gather", [x, _sources(node, g, repeats, output_size)], axis=axis)


# ------------------------------------------------------------------ bags and segments

_KINDS = {"sum": "add", "mean": "add", "prod": "mul", "max": "max", "min": "min"}


def _reduced(
    g: Operators,
    rows: Value,
    ids: Value,
    count: int,
    reduce: str,
    start: float,
    *,
    empty_as: float | None = None,
) -> Value:
    """Return the reduction of the rows of each group.

    Args:
        g: The canonical operators.
        rows: [rows, rest...].
        ids: [rows] group of each, int64; those of no group have ``count``.
        count: Number of groups.
        reduce: ``sum``, ``mean``, ``prod``, ``max`` or ``min``.
        start: Value that the reduction begins with.
        empty_as: Value of groups without rows; default: the start.
    """
    rest = dims(rows)[1:]
    place = g("Unsqueeze", [ids, vector(g, [1])])
    made = scatter_nd(g, full(g, [count + 1, *rest], start, rows.dtype), place, rows, _KINDS[reduce])
    if reduce == "mean" or empty_as is not None:
        ones = full(g, dims(ids), 1, rows.dtype)
        sizes = scatter_nd(g, full(g, [count + 1], 0, rows.dtype), place, ones, "add")
        sizes = reshape(g, sizes, [count + 1, *([1] * len(rest))])
        if reduce == "mean":
            made = g("Div", [made, g("Max", [sizes, number(g, sizes, 1)])])
        if empty_as is not None:
            made = where(g, g("Equal", [sizes, number(g, sizes, 0)]), number(g, made, empty_as), made)
    return cut(g, made, 0, 0, count)


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
    """Return the reduced bags; what else the operator returns serves training."""
    if not 0 <= mode <= 2 or indices.rank != 1 or offsets.rank != 1:
        shapes = f"indices {list(indices.shape)}, offsets {list(offsets.shape)}"
        raise node.invalid(f"bags of mode {mode}, {shapes}")
    reduce = ("sum", "mean", "max")[mode]
    (size,), (given,) = dims(indices), dims(offsets)
    count, rest = given - int(include_last_offset), dims(weight)[1:]
    if not size or not count:
        return [full(g, [count, *rest], 0, weight.dtype)]
    rows = g("Gather", [weight, positions(g, indices)], axis=0)
    if per_sample_weights is not None:
        rows = g("Mul", [rows, reshape(g, g.builder.cast(per_sample_weights, rows.dtype), [size, 1])])
    if padding_idx is not None and padding_idx < 0:
        padding_idx = None
    if offsets.is_static:
        starts = [int(each) for each in offsets.numpy()][:count]
        width = size // count
        if padding_idx is None and width and starts == list(range(0, size, width)):
            apart = reshape(g, rows, [count, width, *rest])
            type = {"sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax"}[reduce]
            return [g(type, [apart, vector(g, [1])], keepdims=0)]
    places, begins = (g.builder.cast(each, INT32) for each in (indices, offsets))
    at = g.builder.const(np.arange(size, dtype=np.int32)[:, None])
    begun = g("LessOrEqual", [cut(g, begins, 0, 0, count), at])
    passed = g("ReduceSum", [g.builder.cast(begun, INT32), vector(g, [1])], keepdims=0)
    ids = g("Sub", [passed, number(g, passed, 1)])
    if padding_idx is not None:
        pads = g("Equal", [places, number(g, places, padding_idx)])
        ids = where(g, pads, number(g, ids, count), ids)
    start = -math.inf if reduce == "max" else 0.0
    return [_reduced(g, rows, ids, count, reduce, start, empty_as=0.0 if reduce == "max" else None)]


@aten("segment_reduce", ignores=["unsafe"])
def _segment_reduce(
    node: AtenNode,
    g: Operators,
    data: Value,
    reduce: str,
    lengths: Value | None,
    offsets: Value | None,
    axis: int,
    initial: float | None,
) -> Value:
    if reduce not in _KINDS or (lengths is None) == (offsets is None):
        raise node.invalid(f"segments reduced by {reduce!r}, of lengths and offsets")
    shape, axis = dims(data), node.axis(axis, data.rank)
    before, size, rest = math.prod(shape[:axis]), shape[axis], shape[axis + 1 :]
    if lengths is not None:
        count = dims(lengths)[-1]
        held = reshape(g, positions(g, lengths), [before, count])
        ends = g("CumSum", [held, g.builder.const(np.asarray(1, np.int64))])
    else:
        assert offsets is not None
        count = dims(offsets)[-1] - 1
        ends = cut(g, reshape(g, positions(g, offsets), [before, count + 1]), 1, 1, _ALL)
    # An element is in the segment whose number is that of the segments that end before it.
    at = g.builder.const(np.arange(size, dtype=np.int64)[None, :, None])
    ended = g("LessOrEqual", [reshape(g, ends, [before, 1, count]), at])
    ids = g("ReduceSum", [g.builder.cast(ended, INT64), vector(g, [2])], keepdims=0)
    base = g.builder.const(np.arange(before, dtype=np.int64)[:, None] * count)
    outside = g("Equal", [ids, number(g, ids, count)])
    ids = where(g, outside, number(g, ids, before * count), g("Add", [ids, base]))
    start = {"max": -math.inf, "min": math.inf, "prod": 1.0}.get(reduce, 0.0)
    blank = math.nan if reduce == "mean" and initial is None else None
    rows = reshape(g, data, [before * size, *rest])
    made = _reduced(
        g,
        rows,
        reshape(g, ids, [before * size]),
        before * count,
        reduce,
        start if initial is None else float(initial),
        empty_as=blank,
    )
    return reshape(g, made, [*shape[:axis], count, *rest])


# ------------------------------------------------------------------ indices that a mask allows


def _clamped(g: Operators, x: Value, indices: Sequence[Value | None]) -> list[Value | None]:
    """Return indices, those outside moved to the first and last element."""
    found: list[Value | None] = []
    for size, index in zip(dims(x), indices, strict=False):
        if index is not None:
            held = positions(g, index)
            index = g("Clip", [held, number(g, held, -size), number(g, held, size - 1)])
        found.append(index)
    return found


@aten("_unsafe_masked_index")
def _masked_index(
    node: AtenNode, g: Operators, self: Value, mask: Value, indices: Sequence[Value | None], fill: float
) -> Value:
    found = index_tensor(node, g, self, _clamped(g, self, indices))
    return where(g, mask, found, number(g, found, fill))


@aten("_unsafe_masked_index_put_accumulate")
def _masked_index_put(
    node: AtenNode, g: Operators, self: Value, mask: Value, indices: Sequence[Value | None], values: Value
) -> Value:
    kept = where(g, mask, values, number(g, values, 0))
    return index_put(node, g, self, _clamped(g, self, indices), kept, True)
