"""Handlers of sorting, medians, quantiles and histograms."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xdlc.converter.functions.shapes import axis_of, dims, permuted, reshape, vector
from xdlc.converter.functions.terms import Term, constant
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops._terms import formula, operator
from xdlc.converter.pytorch.ops.creation import points
from xdlc.converter.pytorch.ops.reductions import over
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import SOURCE
from xdlc.converter.values import Value, check_table
from xdlc.ir.dtype import BOOL8, FLOAT32, INT32, INT64, UINT8


def ranked(x: Term, axis: int = -1, *, k: int | None = None, largest: bool = False) -> list[Term]:
    """Return the first elements of the sorted axis and their positions, stably.

    On the host, NaN sorts above infinity, as in PyTorch.
    """
    if not x.value.rank:
        return [x, Term(x.g, constant(x.g, 0, INT64))]
    key = x.to(INT32) if x.value.dtype in (BOOL8, UINT8) else x
    attributes = {"axis": axis_of(axis, x.value.rank), "largest": int(largest), "sorted": 1}
    count = dims(x.value, [axis])[0] if k is None else k
    found, places = x.g.apply("TopK", [key.value, [count]], attributes, 2)
    return [Term(x.g, found).to(x.value.dtype), Term(x.g, places)]


@formula("sort", layout=SOURCE, ignores=("stable",))
def _sort(self: Term, dim: int = -1, descending: bool = False) -> list[Term]:
    """Sort stably, which every argument permits."""
    return ranked(self, dim, largest=descending)


@aten("argsort", ignores=("stable",))
def _argsort(node: AtenNode, g: Operators, self: Value, dim: int = -1, descending: bool = False) -> Value:
    return ranked(Term(g, self), dim, largest=descending)[1].value


@formula("msort", layout=SOURCE)
def _msort(self: Term) -> Term:
    return ranked(self, 0)[0]


@formula("topk", layout=SOURCE, ignores=("sorted",))
def _topk(self: Term, k: int, dim: int, largest: bool) -> list[Term]:
    return ranked(self, dim, k=k, largest=largest)


def _rows(x: Term, dim: int | None) -> Term:
    """Return ``x`` with an axis at its end; without ``dim`` all elements as a row."""
    rank = x.value.rank
    if dim is None or not rank:
        return x.flat()
    axis = axis_of(dim, rank)
    return Term(x.g, permuted(x.g, x.value, [*(held for held in range(rank) if held != axis), axis]))


def _at(x: Term, index: Term) -> Term:
    """Return the elements of rows at an index each, the last axis dropped."""
    return x("GatherElements", index, axis=x.value.rank - 1)("Squeeze", [-1])


def _last(x: Term, place: int = -1) -> Term:
    """Return the last element of each row, or another one."""
    return x("Gather", constant(x.g, place % dims(x.value, [-1])[0], INT64), axis=x.value.rank - 1)


def _chosen(x: Term, dim: int | None, keep: bool, found: list[Term]) -> list[Term]:
    """Return results of rows, with the reduced axis as 1 if ``keep``."""
    if not keep or dim is None or not x.value.rank:
        return found
    return [each.raised(axis_of(dim, x.value.rank)) for each in found]


@formula("kthvalue", layout=SOURCE)
def _kthvalue(self: Term, k: int, dim: int, keepdim: bool) -> list[Term]:
    return _chosen(self, dim, keepdim, [_last(each) for each in ranked(_rows(self, dim), k=k)])


@formula("median", layout=SOURCE)
def _median(self: Term, dim: int | None = None, keepdim: bool = False) -> list[Term]:
    """Return the lower median; NaN wins."""
    values, places = ranked(_rows(self, dim))
    middle = (dims(values.value, [-1])[0] - 1) // 2
    found = [_last(values, middle), _last(places, middle)]
    if self.value.dtype.is_float:
        lost = [_last(values), _at(places, values.is_nan().to(INT64)("ArgMax", axis=-1, keepdims=1))]
        found = [lost[0].is_nan().where(new, old) for new, old in zip(lost, found, strict=True)]
    return _chosen(self, dim, keepdim, found)


@formula("nanmedian", layout=SOURCE)
def _nanmedian(self: Term, dim: int | None = None, keepdim: bool = False) -> list[Term]:
    values, places = ranked(_rows(self, dim))
    middle = (over((~values.is_nan()).to(INT64), "Sum", -1, keep=True) - 1).most(0) / 2
    return _chosen(self, dim, keepdim, [_at(values, middle), _at(places, middle)])


@formula("mode", layout=SOURCE)
def _mode(self: Term, dim: int, keepdim: bool) -> list[Term]:
    """Count the equals of each sorted element; the least of the most frequent wins."""
    values, places = ranked(_rows(self, dim))
    check_table(*dims(values.value), dims(values.value, [-1])[0])
    key = values.ordered()
    count = over(key.raised(-1).same(key.raised(-2)).to(INT64), "Sum", -1)
    first = count("ArgMax", axis=-1, keepdims=1)
    last = first + count("GatherElements", first, axis=-1) - 1
    return _chosen(self, dim, keepdim, [_at(values, first), _at(places, last)])


_ENDS = {"nearest": ["Round"], "lower": ["Floor"], "higher": ["Ceil"]}
"""Roundings of places by the name of the interpolation; others are between two of them."""


@formula("quantile", "nanquantile", layout=SOURCE)
def _quantile(
    node: AtenNode, self: Term, q: Term, dim: int | None, keepdim: bool, interpolation: str
) -> Term:
    """Interpolate sorted rows; q of rank 1 puts the axis of quantiles first."""
    g, values, share, source = self.g, ranked(_rows(self, dim))[0], q.flat(), self.value
    if q.value.is_static and not ((q.value.numpy() >= 0) & (q.value.numpy() <= 1)).all():
        raise node.invalid("the quantile q must be 0 to 1")
    *others, size = dims(values.value)
    rank, count, is_plain = len(others) + 1, dims(share.value)[0], operator(node) == "quantile"
    if is_plain:
        place = share * (size - 1)
    else:
        place = share * (over((~values.is_nan()).to(node.dtype), "Sum", -1, keep=True) - 1).most(0)
    ends = [place(end).to(INT64) for end in _ENDS.get(interpolation, ["Floor", "Ceil"])]
    shape = vector(g, [*others, count])
    result, *high = (values("GatherElements", end("Expand", shape), axis=rank - 1) for end in ends)
    if high:
        result = result + (high[0] - result) * (
            0.5 if interpolation == "midpoint" else place - place("Floor")
        )
    if is_plain:
        result = _last(values).is_nan().raised(-1).where(math.nan, result)
    result = result("Transpose", perm=[rank - 1, *range(rank - 1)])
    if keepdim:
        axis = None if dim is None or not source.rank else axis_of(dim, source.rank)
        kept = [1 if axis in (None, index) else size for index, size in enumerate(dims(source))]
        result = Term(g, reshape(g, result.value, [count, *kept]))
    return result if q.value.rank else result("Squeeze", [0])


def _range(x: Term, given: Sequence[float] | None, margin: float) -> tuple[Term, Term]:
    """Return a histogram's range: stated, or the data's, widened if all are equal."""
    low, high = (Term(x.g, x.of(end)) for end in given) if given else (over(x, "Min"), over(x, "Max"))
    is_flat = low.same(high)
    return is_flat.where(low - margin, low), is_flat.where(high + margin, high)


@formula("histc", layout=SOURCE)
def _histc(node: AtenNode, self: Term, bins: int, min: float, max: float) -> Term:
    x = self.flat()
    if x.value.dtype is not FLOAT32:
        raise node.problem("bins of 16-bit floats depend on their rounding", "use float32")
    if bins < 1 or not min <= max:
        raise node.invalid(f"the operator cannot count {bins} bins from {min} to {max}")
    check_table(dims(x.value)[0], bins)
    low, high = _range(x, (min, max) if min != max else None, 1)
    place = (((x - low) * bins) / (high - low))("Floor").least(bins - 1)
    place = ((x >= low) & (x <= high)).where(place, -1)
    column = np.arange(bins).astype(x.value.dtype.numpy).reshape(-1, 1)
    return over(place.same(x.g.builder.const(column)).to(x.value.dtype), "Sum", 1)


@formula("histogram", layout=SOURCE)
def _histogram(
    node: AtenNode,
    self: Term,
    bins: Value | int,
    weight: Term | None,
    density: bool,
    range: Sequence[float] | None = None,
) -> list[Term]:
    """Count elements, or their weights, between edges; the last bin has both edges."""
    g, x = self.g, self.flat()
    if isinstance(bins, Value) and bins.is_static and (np.diff(bins.numpy()) < 0).any():
        raise node.invalid("the edges of the bins must increase")
    edges = Term(g, bins) if isinstance(bins, Value) else points(*_range(x, range, 0.5), bins + 1)
    count, column = dims(edges.value)[0] - 1, x.raised(1)
    first, second = (
        edges("Slice", *(vector(g, [at]) for at in (start, start + count, 0))) for start in (0, 1)
    )
    is_last = Term(g, g.builder.const(np.arange(count) == count - 1))
    inside = (column >= first) & ((column < second) | (is_last & column.same(second)))
    hits = inside.to(x.value.dtype)
    found = over(hits if weight is None else hits * weight.flat().raised(1), "Sum", 0)
    if density:
        found = found / (over(found, "Sum", 0, keep=True) * (second - first))
    return [found, edges]
