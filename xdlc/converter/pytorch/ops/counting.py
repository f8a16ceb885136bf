"""Handlers of unique, counted and repeated elements."""

from __future__ import annotations

import numpy as np

from xdlc.converter.functions.gathering import places as true_places
from xdlc.converter.functions.gathering import unique
from xdlc.converter.functions.scatter import full, scatter_nd
from xdlc.converter.functions.shapes import dims, number, positions, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops import _shapes as shapes
from xdlc.converter.pytorch.ops._shapes import Size
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.values import Value, check_table
from xdlc.ir.dtype import BOOL8, INT32, INT64

# ------------------------------------------------------------------ different elements


@aten("_unique2", "unique_dim", ignores=["sorted"])
def _unique(
    node: AtenNode,
    g: Operators,
    self: Value,
    return_inverse: bool,
    return_counts: bool,
    dim: int | None = None,
) -> list[Value]:
    if dim is not None and self.dtype.is_float:
        raise node.problem("PyTorch treats slices with NaN as different, unlike QNN", "compare integers")
    node.stated = node.stated if dim is None else ()  # which torch.export gets wrong for parts
    x, axis = shapes.flat_or_along(node, g, self, dim)
    values, inverse, counts = unique(g, x, None if dim is None else axis, is_sorted=True)
    if dim is None and return_inverse:
        inverse = shapes.reshaped(g, inverse, shapes.sizes_of(g, self))
    none = shapes.empty(g, [0], INT64)
    return [values, inverse if return_inverse else none, counts if return_counts else none]


@aten("unique_consecutive", "unique_dim_consecutive")
def _unique_consecutive(
    node: AtenNode, g: Operators, self: Value, return_inverse: bool, return_counts: bool, dim: int | None
) -> list[Value]:
    """Return the slices that differ from their predecessor."""
    node.stated = node.stated if dim is None else ()
    x, axis = shapes.flat_or_along(node, g, self, dim)
    size = dims(x)[axis]
    if not x.size:
        raise node.problem("xdlc does not support unique elements of an empty tensor", "remove the operator")
    starts = g.builder.const(np.ones(1, np.bool_))
    if size > 1:
        same = g("Equal", [shapes.cut(g, x, axis, 1), shapes.cut(g, x, axis, 0, size - 1)])
        others = [at for at in range(x.rank) if at != axis]
        if others:
            same = g("ReduceMin", [g.builder.cast(same, INT32), vector(g, others)], keepdims=0)
        starts = g("Concat", [starts, g("Not", [g.builder.cast(same, BOOL8)])], axis=0)
    count = g("CumSum", [g.builder.cast(starts, INT64), np.asarray(0, np.int64)])
    inverse = g("Sub", [count, 1])
    inverse = shapes.reshaped(g, inverse, shapes.sizes_of(g, self)) if dim is None else inverse
    at = shapes.flat(g, true_places(g, starts))
    ends = g("Concat", [shapes.cut(g, at, 0, 1), [size]], axis=0)
    values = g("Compress", [x, starts], axis=axis)
    none = shapes.empty(g, [0], INT64)
    return [values, inverse if return_inverse else none, g("Sub", [ends, at]) if return_counts else none]


@aten("bincount")
def _bincount(node: AtenNode, g: Operators, self: Value, weights: Value | None, minlength: int) -> Value:
    shares = full(g, dims(self), 1, INT64) if weights is None else g.builder.cast(weights, node.dtype)
    if not self.size and weights is not None:
        raise node.problem("the type of the result depends on the number of elements", "remove the weights")
    if not self.size:
        return full(g, [minlength], 0, shares.dtype)
    index = positions(g, self)
    most = g("Add", [g("ReduceMax", [index], keepdims=0), shapes.number(g, 1)])
    zero = shapes.expanded(g, number(g, shares, 0), [g("Max", [most, shapes.number(g, minlength)])])
    return scatter_nd(g, zero, g("Unsqueeze", [index, [1]]), shares, "add")


# ------------------------------------------------------------------ repeated elements


@aten("repeat_interleave.self_int", ignores=["output_size"])
def _repeat_each(node: AtenNode, g: Operators, self: Value, repeats: int, dim: int | None) -> Value:
    if repeats < 0:
        raise node.invalid(f"{repeats} repeats")
    x, axis = shapes.flat_or_along(node, g, self, dim)
    if repeats == 1:
        return x if dim is None else self
    sizes = shapes.sizes_of(g, x)
    apart = g("Unsqueeze", [x, [axis + 1]])
    wide = shapes.expanded(g, apart, shapes.replaced([-1] * apart.rank, axis + 1, repeats))
    return shapes.reshaped(g, wide, shapes.replaced(sizes, axis, shapes.product(g, [sizes[axis], repeats])))


@aten("repeat_interleave.Tensor", symbolic=["output_size"])
def _sources(node: AtenNode, g: Operators, repeats: Value, output_size: Size | None) -> Value:
    """Return the source position of each repeated element, int64.

    It is the number of running totals of repeats that are passed.

    Raises:
        ModelError: If there are negative repeats.
    """
    counts = positions(g, shapes.rank_one(g, repeats))
    if counts.is_static:
        given = counts.numpy()
        if given.min(initial=0) < 0:
            raise node.invalid("a number of repeats is negative")
        check_table(int(given.sum()))
        return vector(g, np.repeat(np.arange(given.size), given))
    if not counts.is_dynamic:
        counts = g.builder.cast(counts, INT32)
    totals = g("CumSum", [counts, np.asarray(0, np.int64)])
    length = None if output_size is None else shapes.known(output_size)
    if isinstance(length, int):
        at = g.builder.cast(vector(g, range(length)), totals.dtype)
    else:
        whole = g("ReduceSum", [counts], keepdims=0) if length is None else shapes.number(g, length)
        whole = g.builder.cast(whole, totals.dtype)
        at = g("Range", [number(g, totals, 0), whole, number(g, totals, 1)])
    passed = g("LessOrEqual", [totals, g("Unsqueeze", [at, [1]])])
    return g("ReduceSum", [g.builder.cast(passed, totals.dtype), [1]], keepdims=0)


@aten("repeat_interleave.self_Tensor", symbolic=["output_size"])
def _repeat_by(
    node: AtenNode, g: Operators, self: Value, repeats: Value, dim: int | None, output_size: Size | None
) -> Value:
    x, axis = shapes.flat_or_along(node, g, self, dim)
    if repeats.dims in ((), (1,)):
        repeats = shapes.expanded(g, repeats, shapes.sizes_of(g, x)[axis : axis + 1])
    return g("Gather", [x, _sources(node, g, repeats, output_size)], axis=axis)
