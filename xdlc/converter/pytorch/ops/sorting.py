"""Handlers of sorting, order statistics, quantiles and histograms."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xdlc.converter.nhwc.shapes import axis_of, dims, permuted, reshape, vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._terms import Term, constant, operator, term
from xdlc.converter.pytorch.ops.creation import points
from xdlc.converter.pytorch.ops.reductions import over
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.values import Value
from xdlc.ir.dtype import BOOL8, INT32, INT64, UINT8


def ranked(
    g: Operators, x: Value, axis: int, *, k: int | None = None, largest: bool = False
) -> tuple[Term, Term]:
    """Return the first elements along an axis in sorted order, and their places, the first of equals first.

    On the host, what is no number counts as above infinity, as in PyTorch.
    """
    key = g.builder.cast(x, INT32) if x.dtype in (BOOL8, UINT8) else x
    attributes = {"axis": axis, "largest": int(largest), "sorted": 1}
    count = dims(x, [axis])[0] if k is None else k
    found, places = g.apply("TopK", [key, vector(g, [count])], attributes, 2)
    return Term(g, found).to(x.dtype), Term(g, places)


@aten("sort", "msort", "argsort", ignores=("stable",))
def _sort(node: AtenNode, g: Operators, self: Value, dim: int = -1, descending: bool = False) -> list[Value]:
    """Sort stably, as nothing forbids."""
    axis = 0 if operator(node) == "msort" else dim
    found = _topk(node, g, self, dims(self, [axis])[0] if self.rank else 1, axis, descending)
    return found[1:] if operator(node) == "argsort" else found


@aten("topk", ignores=("sorted",))
def _topk(node: AtenNode, g: Operators, self: Value, k: int, dim: int, largest: bool) -> list[Value]:
    if not self.rank:
        return [self, constant(g, 0, INT64)]
    return [each.value for each in ranked(g, self, axis_of(dim, self.rank), k=k, largest=largest)]


# ---------------------------------------------------------------------------------- order statistics


def _rows(g: Operators, x: Value, dim: int | None) -> Value:
    """Return ``x`` with an axis at its end; without one, all elements as a row."""
    if dim is None or not x.rank:
        return Term(g, x).flat().value
    axis = axis_of(dim, x.rank)
    return permuted(g, x, [*(held for held in range(x.rank) if held != axis), axis])


def _at(x: Term, index: Term) -> Term:
    """Return the elements of rows at an index each, the last axis dropped."""
    return x("GatherElements", index, axis=x.value.rank - 1)("Squeeze", vector(x.g, [-1]))


def _last(x: Term, place: int = -1) -> Term:
    """Return the last element of each row, or another one."""
    return x("Gather", constant(x.g, place % dims(x.value, [-1])[0], INT64), axis=x.value.rank - 1)


def _chosen(node: AtenNode, x: Value, dim: int | None, keep: bool, found: Sequence[Term]) -> list[Value]:
    """Return results of rows, with the axis as 1 if it is kept."""
    if keep and dim is not None and x.rank:
        found = [each.raised(axis_of(dim, x.rank)) for each in found]
    return [each.value for each in found][: len(node.outputs)]


@aten("kthvalue")
def _kthvalue(node: AtenNode, g: Operators, self: Value, k: int, dim: int, keepdim: bool) -> list[Value]:
    found = [_last(each) for each in ranked(g, _rows(g, self, dim), -1, k=k)]
    return _chosen(node, self, dim, keepdim, found)


@aten("median", "nanmedian")
def _median(
    node: AtenNode, g: Operators, self: Value, dim: int | None = None, keepdim: bool = False
) -> list[Value]:
    """Return the lower of two middles; what is no number is the result, or, for nanmedian, no element."""
    values, places = ranked(g, _rows(g, self, dim), -1)
    is_nan = values.is_nan().to(INT64)
    if self.dtype.is_float and operator(node) == "nanmedian":
        middle = (over(1 - is_nan, "Sum", -1, keep=True) - 1).most(0) / 2
        return _chosen(node, self, dim, keepdim, [_at(values, middle), _at(places, middle)])
    half = (dims(values.value, [-1])[0] - 1) // 2
    found = [_last(values, half), _last(places, half)]
    if self.dtype.is_float:
        lost = [_last(values), _at(places, is_nan("ArgMax", axis=-1, keepdims=1))]
        found = [lost[0].is_nan().where(new, old) for new, old in zip(lost, found, strict=True)]
    return _chosen(node, self, dim, keepdim, found)


@aten("mode")
def _mode(node: AtenNode, g: Operators, self: Value, dim: int, keepdim: bool) -> list[Value]:
    """Count the equals of each element of the sorted rows: the first with the most is the least value."""
    values, places = ranked(g, _rows(g, self, dim), -1)
    g.builder.check_table(*dims(values.value), dims(values.value, [-1])[0])
    key = values.ordered()
    count = over(key.raised(-1).same(key.raised(-2)).to(INT64), "Sum", -1)
    first = count("ArgMax", axis=-1, keepdims=1)
    last = first + count("GatherElements", first, axis=-1) - 1
    return _chosen(node, self, dim, keepdim, [_at(values, first), _at(places, last)])


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
    values, _ = ranked(g, _rows(g, self, dim), -1)
    rank, share = values.value.rank, term(node, g, q).flat()
    *others, size = dims(values.value)
    if operator(node) == "quantile":
        place = share * (size - 1)
    else:
        place = share * (over((~values.is_nan()).to(node.dtype), "Sum", -1, keep=True) - 1).most(0)
    ends = {
        "nearest": ["Round"], "lower": ["Floor"], "higher": ["Ceil"], "linear": ["Floor", "Ceil"],
        "midpoint": ["Floor", "Ceil"],
    }[interpolation]  # fmt: skip
    count = dims(share.value)[0]
    shape = vector(g, [*others, count])
    low, *high = (
        values("GatherElements", place(end).to(INT64)("Expand", shape), axis=rank - 1) for end in ends
    )
    found = low
    if high:
        found = low + (high[0] - low) * (0.5 if interpolation == "midpoint" else place - place("Floor"))
    if operator(node) == "quantile":
        found = _last(values).is_nan().raised(-1).where(math.nan, found)
    result = permuted(g, found.value, [rank - 1, *range(rank - 1)])
    if keepdim:
        axes = range(self.rank) if dim is None else [axis_of(dim, self.rank)] if self.rank else []
        kept = [1 if held in axes else size for held, size in enumerate(dims(self))]
        result = reshape(g, result, [count, *kept])
    return result if isinstance(q, Value) and q.rank else g("Squeeze", [result, vector(g, [0])])


# ---------------------------------------------------------------------------------- histograms


def _range(x: Term, given: Sequence[float] | None, margin: float) -> tuple[Term, Term]:
    """Return the range of a histogram: as stated, or of the data, with a margin if all are equal."""
    if given:
        low, high = (Term(x.g, x.of(end)) for end in given)
    else:
        low, high = over(x, "Min"), over(x, "Max")
    is_flat = low.same(high)
    return is_flat.where(low - margin, low), is_flat.where(high + margin, high)


@aten("histc")
def _histc(node: AtenNode, g: Operators, self: Value, bins: int, min: float, max: float) -> Value:
    x = Term(g, self).flat()
    low, high = _range(x, (min, max) if min != max else None, 1)
    place = (((x - low) * bins) / (high - low))("Floor").least(bins - 1)
    inside = (x >= low) & (x <= high)
    g.builder.check_table(bins)
    column = Term(g, g.builder.const(np.arange(bins).astype(self.dtype.numpy).reshape(-1, 1)))
    return over(column.same(inside.where(place, -1)).to(node.dtype), "Sum", 1).value


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
    x = Term(g, self).flat()
    edges = Term(g, bins) if isinstance(bins, Value) else points(*_range(x, range, 0.5), bins + 1)
    count, column = dims(edges.value)[0] - 1, x.raised(1)
    first, second = (
        edges("Slice", *(vector(g, [at]) for at in (start, start + count, 0))) for start in (0, 1)
    )
    is_last = Term(g, g.builder.const(np.arange(count) == count - 1))
    inside = (column >= first) & ((column < second) | (is_last & column.same(second)))
    hits = inside.to(node.dtype)
    if weight is not None:
        hits = hits * Term(g, weight).flat().raised(1)
    found = over(hits, "Sum", 0)
    if density:
        found = found / (over(found, "Sum", 0, keep=True) * (second - first))
    return [found.value, edges.value]
