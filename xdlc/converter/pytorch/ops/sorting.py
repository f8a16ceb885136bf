"""Handlers of sorting, order statistics, quantiles and histograms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xdlc.converter.nhwc.shapes import axis_of, dims, permuted, reshape, vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._terms import Term, constant, operator, term
from xdlc.converter.pytorch.ops.creation import points
from xdlc.converter.pytorch.ops.reductions import over
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.values import Value
from xdlc.ir.data import Array
from xdlc.ir.dtype import BOOL8, INT32, INT64, UINT8


def ranked(g: Operators, x: Value, k: int, axis: int, *, largest: bool) -> tuple[Term, Term]:
    """Return the first elements along an axis in sorted order, and their places, the first of equals first.

    On the host, what is no number counts as above infinity, as in PyTorch.
    """
    key = g.builder.cast(x, INT32) if x.dtype in (BOOL8, UINT8) else x
    attributes = {"axis": axis, "largest": int(largest), "sorted": 1}
    found, places = g.apply("TopK", [key, vector(g, [k])], attributes, 2)
    return Term(g, found).to(x.dtype), Term(g, places)


@aten("sort", "msort", "argsort")
def _sort(
    node: AtenNode,
    g: Operators,
    self: Value,
    dim: int = -1,
    descending: bool = False,
    stable: bool | None = False,
) -> list[Value]:
    """Sort stably, as nothing forbids."""
    if not self.rank:
        return [self, constant(g, 0, INT64)][-len(node.outputs) :]
    axis = 0 if operator(node) == "msort" else axis_of(dim, self.rank)
    found, places = ranked(g, self, dims(self, [axis])[0], axis, largest=descending)
    return [places.value] if operator(node) == "argsort" else [found.value, places.value]


@aten("topk", ignores=("sorted",))
def _topk(node: AtenNode, g: Operators, self: Value, k: int, dim: int, largest: bool) -> list[Value]:
    if not self.rank:
        return [self, constant(g, 0, INT64)]
    found, places = ranked(g, self, k, axis_of(dim, self.rank), largest=largest)
    return [found.value, places.value]


def _rows(g: Operators, x: Value, dim: int | None) -> tuple[Value, int]:
    """Return ``x`` with an axis at its end, and that axis; without one, all elements as a row."""
    if dim is None or not x.rank:
        return g("Reshape", [x, vector(g, [-1])]), 0
    axis = axis_of(dim, x.rank)
    return permuted(g, x, [*(held for held in range(x.rank) if held != axis), axis]), axis


def _at(x: Term, index: Term) -> Term:
    """Return the elements of rows at an index each, the last axis dropped."""
    return x("GatherElements", index, axis=x.value.rank - 1)("Squeeze", vector(x.g, [-1]))


def _chosen(
    g: Operators, x: Value, dim: int | None, keep: bool, found: Sequence[Term], axis: int
) -> list[Value]:
    """Return results of rows, with the axis as 1 if it is kept."""
    if keep and dim is not None and x.rank:
        return [g("Unsqueeze", [each.value, vector(g, [axis])]) for each in found]
    return [each.value for each in found]


@aten("kthvalue")
def _kthvalue(node: AtenNode, g: Operators, self: Value, k: int, dim: int, keepdim: bool) -> list[Value]:
    rows, axis = _rows(g, self, dim)
    found = [_last(each) for each in ranked(g, rows, k, rows.rank - 1, largest=False)]
    return _chosen(g, self, dim, keepdim, found, axis)


def _last(x: Term, place: int = -1) -> Term:
    """Return the last element of each row, or another one."""
    size = dims(x.value, [-1])[0]
    return x("Gather", constant(x.g, place % size, INT64), axis=x.value.rank - 1)


@aten("median", "nanmedian")
def _median(
    node: AtenNode, g: Operators, self: Value, dim: int | None = None, keepdim: bool = False
) -> list[Value]:
    """Return the lower of two middles; what is no number is the result, or, for nanmedian, no element."""
    rows, axis = _rows(g, self, dim)
    size = dims(rows, [-1])[0]
    values, places = ranked(g, rows, size, rows.rank - 1, largest=False)
    found, place = _last(values, (size - 1) // 2), _last(places, (size - 1) // 2)
    if self.dtype.is_float and operator(node) == "median":
        is_nan = values.is_nan().to(INT64)
        lost = _last(values).is_nan()
        first = _at(places, is_nan("ArgMax", axis=rows.rank - 1, keepdims=1))
        found, place = lost.where(_last(values), found), lost.where(first, place)
    elif self.dtype.is_float:
        count = over((~values.is_nan()).to(INT64), "Sum", [rows.rank - 1])
        middle = (count - 1).most(0) / 2
        found, place = _at(values, middle), _at(places, middle)
    return _chosen(g, self, dim, keepdim, [found, place], axis)[: len(node.outputs)]


@aten("mode")
def _mode(node: AtenNode, g: Operators, self: Value, dim: int, keepdim: bool) -> list[Value]:
    """Count the equals of each element of the sorted rows: the first with the most is the least value."""
    rows, axis = _rows(g, self, dim)
    size = dims(rows, [-1])[0]
    g.builder.check_table(*dims(rows), size)
    values, places = ranked(g, rows, size, rows.rank - 1, largest=False)
    key = values.to(INT32) if self.dtype is BOOL8 else values
    column, row = (Term(g, g("Unsqueeze", [key.value, vector(g, [at])])) for at in (-1, -2))
    count = column.same(row).to(INT64)("ReduceSum", vector(g, [-1]), keepdims=0)
    first = count("ArgMax", axis=rows.rank - 1, keepdims=1)
    last = first + count("GatherElements", first, axis=rows.rank - 1) - 1
    return _chosen(g, self, dim, keepdim, [_at(values, first), _at(places, last)], axis)


@aten("quantile", "nanquantile")
def _quantile(
    node: AtenNode,
    g: Operators,
    self: Value,
    q: Value | float,
    dim: int | None,
    keepdim: bool,
    interpolation: str,
) -> Value:
    """Read the sorted rows between two places; with q of rank 1, results of each q come first."""
    rows, axis = _rows(g, self, dim)
    size = dims(rows, [-1])[0]
    values, _ = ranked(g, rows, size, rows.rank - 1, largest=False)
    share = term(node, g, q)
    share = share("Reshape", vector(g, [-1]))
    if operator(node) == "quantile":
        place = share * (size - 1)
    else:
        count = over((~values.is_nan()).to(node.dtype), "Sum", [rows.rank - 1])
        place = share * (count - 1).most(0)
    low, high = place("Floor"), place("Ceil")
    if interpolation == "nearest":
        low = high = place("Round")
    elif interpolation in ("lower", "higher"):
        low = high = low if interpolation == "lower" else high
    shape = vector(g, [*dims(rows)[:-1], dims(share.value)[0]])

    def read(at: Term) -> Term:
        index = at.to(INT64)("Expand", shape)
        return values("GatherElements", index, axis=rows.rank - 1)

    found = read(low)
    if low is not high:
        between = 0.5 if interpolation == "midpoint" else place - low
        found = found + (read(high) - found) * between
    if operator(node) == "quantile":
        lost = Term(g, g("Unsqueeze", [_last(values).is_nan().value, vector(g, [-1])]))
        found = lost.where(float("nan"), found)
    result = permuted(g, found.value, [rows.rank - 1, *range(rows.rank - 1)])
    if keepdim:
        kept = (
            [1] * self.rank
            if dim is None
            else [1 if held == axis else size for held, size in enumerate(dims(self))]
        )
        result = reshape(g, result, [dims(share.value)[0], *kept])
    if isinstance(q, Value) and q.rank:
        return result
    return g("Squeeze", [result, vector(g, [0])])


# ---------------------------------------------------------------------------------- histograms


@aten("histc")
def _histc(node: AtenNode, g: Operators, self: Value, bins: int, min: float, max: float) -> Value:
    x = Term(g, self)("Reshape", vector(g, [-1]))
    low, high = _range(x, (min, max) if min != max else None, 1)
    place = (((x - low) * bins) / (high - low))("Floor").least(bins - 1)
    inside = (x >= low) & (x <= high)
    g.builder.check_table(bins)
    column = Term(g, g.builder.const(_counting(bins, self.dtype.numpy)))
    hits = column.same(inside.where(place, -1)).to(node.dtype)
    return hits("ReduceSum", vector(g, [1]), keepdims=0).value


def _counting(count: int, dtype: Any) -> Array:
    return np.arange(count).astype(dtype).reshape(-1, 1)


def _range(x: Term, given: Sequence[float] | None, margin: float) -> tuple[Term, Term]:
    """Return the range of a histogram: as stated, or of the data, with a margin if all are equal."""
    if given:
        low, high = (Term(x.g, x.of(end)) for end in given)
    else:
        low, high = (over(x, type, [0], False) for type in ("Min", "Max"))
    is_flat = low.same(high)
    return is_flat.where(low - margin, low), is_flat.where(high + margin, high)


@aten("histogram")
def _histogram(
    node: AtenNode,
    g: Operators,
    self: Value,
    bins: Value | int,
    weight: Value | None,
    density: bool,
    range: Sequence[float] | None = None,
) -> list[Value]:
    """Count the elements, or their weights, between edges; the last bin has both of its edges."""
    x = Term(g, self)("Reshape", vector(g, [-1]))
    if isinstance(bins, Value):
        edges = Term(g, bins)
        count = dims(bins)[0] - 1
    else:
        edges, count = points(*_range(x, range, 0.5), bins + 1), bins
    first = edges("Slice", *(vector(g, [at]) for at in (0, count, 0)))
    second = edges("Slice", *(vector(g, [at]) for at in (1, count + 1, 0)))
    column = Term(g, g("Unsqueeze", [x.value, vector(g, [1])]))
    is_last = Term(g, g.builder.const(_counting(count, "int64").reshape(-1) == count - 1))
    inside = (column >= first) & ((column < second) | (is_last & column.same(second)))
    hits = inside.to(node.dtype)
    if weight is not None:
        hits = hits * Term(g, weight)("Reshape", vector(g, [-1, 1]))
    found = hits("ReduceSum", vector(g, [0]), keepdims=0)
    if density:
        found = found / (over(found, "Sum", [0]) * (second - first))
    return [found.value, edges.value]
