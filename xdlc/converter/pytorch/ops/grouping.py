"""Handlers of operators on groups of elements: equal ones, repeated ones, bags, neighbours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xdlc.converter.nhwc.elementwise import where
from xdlc.converter.nhwc.gathering import places as true_places
from xdlc.converter.nhwc.gathering import unique
from xdlc.converter.nhwc.scatter import full, scatter_nd, segments
from xdlc.converter.nhwc.shapes import dims, number, positions, reshape, vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._forms import operand
from xdlc.converter.pytorch.ops._shapes import (
    Size,
    cut,
    empty,
    expanded,
    flat,
    flat_or_along,
    known,
    product,
    rank_one,
    replaced,
    reshaped,
    size_of,
    sizes_of,
)
from xdlc.converter.pytorch.ops._shapes import number as scalar
from xdlc.converter.pytorch.ops.joining import joined
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.values import Value, check_table
from xdlc.ir.dtype import BOOL8, INT32, INT64

_MOST = 64
"""Most times that differences are taken."""

# ------------------------------------------------------------------ different elements


def _some(g: Operators, values: Sequence[Value], wanted: Sequence[bool]) -> list[Value]:
    """Return the results of a search; those that are not wanted have no elements."""
    return [
        value if wants else empty(g, [0], INT64) for value, wants in zip(values, (True, *wanted), strict=True)
    ]


@aten("_unique2", "unique_dim", ignores=["sorted"])
def _unique(
    node: AtenNode,
    g: Operators,
    self: Value,
    return_inverse: bool,
    return_counts: bool,
    dim: int | None = None,
) -> list[Value]:
    if dim is not None:
        node.stated = ()  # which torch.export gets wrong here
    x, axis = flat_or_along(node, g, self, dim)
    values, inverse, counts = unique(g, x, None if dim is None else axis, is_sorted=True)
    if dim is None and return_inverse:
        inverse = reshaped(node, g, inverse, sizes_of(g, self))
    return _some(g, [values, inverse, counts], [return_inverse, return_counts])


@aten("unique_consecutive", "unique_dim_consecutive")
def _unique_consecutive(
    node: AtenNode, g: Operators, self: Value, return_inverse: bool, return_counts: bool, dim: int | None
) -> list[Value]:
    x, axis = flat_or_along(node, g, self, dim)
    size = dims(x)[axis]
    if dim is not None:
        node.stated = ()  # which torch.export gets wrong here
    if not x.size:
        raise node.problem("different elements of no elements", "remove the operator")
    starts = g.builder.const(np.ones(1, np.bool_))
    if size > 1:
        same = g("Equal", [cut(g, x, axis, 1), cut(g, x, axis, 0, size - 1)])
        others = [at for at in range(x.rank) if at != axis]
        if others:
            same = g("ReduceMin", [g.builder.cast(same, INT32), vector(g, others)], keepdims=0)
        starts = g("Concat", [starts, g("Not", [g.builder.cast(same, BOOL8)])], axis=0)
    count = g("CumSum", [g.builder.cast(starts, INT64), g.builder.const(np.asarray(0, np.int64))])
    inverse = g("Sub", [count, number(g, count, 1)])
    at = flat(node, g, true_places(g, starts))
    ends = g("Concat", [cut(g, at, 0, 1), vector(g, [size])], axis=0)
    if dim is None:
        inverse = reshape(g, inverse, dims(self))
    values = g("Compress", [x, starts], axis=axis)
    return _some(g, [values, inverse, g("Sub", [ends, at])], [return_inverse, return_counts])


@aten("bincount")
def _bincount(node: AtenNode, g: Operators, self: Value, weights: Value | None, minlength: int) -> Value:
    given = full(g, dims(self), 1, INT64) if weights is None else weights
    if not self.size:
        return full(g, [minlength], 0, given.dtype)
    index = positions(g, self)
    most = g("Add", [g("ReduceMax", [index], keepdims=0), scalar(g, 1)])
    zero = expanded(node, g, number(g, given, 0), [g("Max", [most, scalar(g, minlength)])])
    return scatter_nd(g, zero, g("Unsqueeze", [index, vector(g, [1])]), given, "add")


# ------------------------------------------------------------------ repeated elements


@aten("repeat_interleave.self_int", ignores=["output_size"])
def _repeat_each(node: AtenNode, g: Operators, self: Value, repeats: int, dim: int | None) -> Value:
    if repeats < 0:
        raise node.invalid(f"{repeats} repeats")
    x, axis = flat_or_along(node, g, self, dim)
    if repeats == 1:
        return x if dim is None else self
    sizes = sizes_of(g, x)
    apart = g("Unsqueeze", [x, vector(g, [axis + 1])])
    wide = expanded(node, g, apart, replaced([-1] * apart.rank, axis + 1, repeats))
    return reshaped(node, g, wide, replaced(sizes, axis, product(g, [sizes[axis], repeats])))


@aten("repeat_interleave.Tensor", symbolic=["output_size"])
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
        at = g.builder.cast(vector(g, range(length)), totals.dtype)
    else:
        whole = g("ReduceSum", [counts], keepdims=0) if length is None else scalar(g, length)
        whole = g.builder.cast(whole, totals.dtype)
        at = g("Range", [number(g, totals, 0), whole, number(g, totals, 1)])
    passed = g("LessOrEqual", [totals, g("Unsqueeze", [at, vector(g, [1])])])
    return g("ReduceSum", [g.builder.cast(passed, totals.dtype), vector(g, [1])], keepdims=0)


@aten("repeat_interleave.self_Tensor", symbolic=["output_size"])
def _repeat_by(
    node: AtenNode, g: Operators, self: Value, repeats: Value, dim: int | None, output_size: Size | None
) -> Value:
    x, axis = flat_or_along(node, g, self, dim)
    if repeats.dims in ((), (1,)):
        repeats = expanded(node, g, repeats, sizes_of(g, x)[axis : axis + 1])
    return g("Gather", [x, _sources(node, g, repeats, output_size)], axis=axis)


# ------------------------------------------------------------------ bags

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
    """Return the reduced bags; what else the operator returns serves training."""
    if not 0 <= mode < len(_BAGS) or indices.rank != 1 or offsets.rank != 1:
        shapes = f"indices {list(indices.shape)}, offsets {list(offsets.shape)}"
        raise node.invalid(f"bags of mode {mode}, {shapes}")
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
        return [g(f"Reduce{_BAGS[mode]}", [apart, vector(g, [1])], keepdims=0)]
    places, begins = (g.builder.cast(each, INT32) for each in (indices, offsets))
    at = g.builder.const(np.arange(size, dtype=np.int32)[:, None])
    begun = g("LessOrEqual", [cut(g, begins, 0, 0, count), at])
    passed = g("ReduceSum", [g.builder.cast(begun, INT32), vector(g, [1])], keepdims=0)
    bags = g("Sub", [passed, number(g, passed, 1)])
    if is_padded:
        bags = where(g, g("Equal", [places, number(g, places, padding_idx or 0)]), number(g, bags, -1), bags)
    return [segments(g, rows, bags, count, _BAGS[mode], empty=0.0 if _BAGS[mode] == "Max" else None)]


# ------------------------------------------------------------------ neighbours


def _steps(g: Operators, x: Value, axis: int) -> Value:
    """Return what each element is more than the one before, of truth values whether it is another."""
    return g("Xor" if x.dtype is BOOL8 else "Sub", [cut(g, x, axis, 1), cut(g, x, axis, 0, -1)])


@aten("diff")
def _diff(
    node: AtenNode, g: Operators, self: Value, n: int, dim: int, prepend: Value | None, append: Value | None
) -> Value:
    axis = node.axis(dim, self.rank)
    x = joined(node, g, [value for value in (prepend, self, append) if value is not None], axis)
    if not 0 <= n <= _MOST:
        raise node.problem(f"differences taken {n} times", f"take them at most {_MOST} times")
    size = size_of(x, axis)
    if n and size is not None and size <= n:
        return empty(g, [*x.shape[:axis], 0, *x.shape[axis + 1 :]], x.dtype)
    for _ in range(n):
        x = _steps(g, x, axis)
    return x


@aten("trapezoid", "trapz", "cumulative_trapezoid", names={"dx": "x"})
def _integral(node: AtenNode, g: Operators, y: Value, x: Value | float, dim: int) -> Value:
    axis, is_sum = node.axis(dim, y.rank), not node.type.startswith("cumulative")
    y, shape = operand(node, g, y), dims(y)
    if shape[axis] < 2:
        rest = [*shape[:axis], *([] if is_sum else [0]), *shape[axis + 1 :]]
        return full(g, rest, 0, node.dtype)
    areas = g("Add", [cut(g, y, axis, 1), cut(g, y, axis, 0, -1)])
    if isinstance(x, Value):
        x = operand(node, g, x)
        lying = [-1 if at == axis else 1 for at in range(y.rank)] if x.rank == 1 else dims(x)
        x = reshaped(node, g, x, [*[1] * (y.rank - len(lying)), *lying])
        areas = g("Mul", [areas, _steps(g, x, axis) if x.shape[axis] > 1 else x])
        x = 1.0
    areas = g("Mul", [areas, number(g, areas, x / 2)])
    if is_sum:
        return g("ReduceSum", [areas, vector(g, [axis])], keepdims=0)
    return g("CumSum", [areas, g.builder.const(np.asarray(axis, np.int64))])
