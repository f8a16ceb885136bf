"""Handlers of sorting, quantiles, unique and counted elements, embedding bags."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xdlc.converter.nhwc.elementwise import where
from xdlc.converter.nhwc.gathering import places as true_places
from xdlc.converter.nhwc.gathering import unique
from xdlc.converter.nhwc.scatter import full, scatter_nd, segments
from xdlc.converter.nhwc.shapes import axis_of, dims, number, permuted, positions, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops import _shapes as shapes
from xdlc.converter.pytorch.ops._shapes import Size
from xdlc.converter.pytorch.ops._terms import Term, constant, formula, operator
from xdlc.converter.pytorch.ops.creation import points
from xdlc.converter.pytorch.ops.joining import joined
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
    found, places = x.g.apply("TopK", [key.value, vector(x.g, [count])], attributes, 2)
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
    return x("GatherElements", index, axis=x.value.rank - 1)("Squeeze", vector(x.g, [-1]))


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
        raise node.invalid("its q is outside 0 to 1")
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
    return result if q.value.rank else result("Squeeze", vector(g, [0]))


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
        raise node.invalid(f"it has {bins} bins from {min} to {max}")
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
        raise node.invalid("the edges of its bins do not increase")
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


_MOST = 64
"""Most times that differences are taken."""

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
        raise node.problem("PyTorch treats all slices with NaN as different", "compare integers")
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
        raise node.problem("unique elements of an empty tensor are not supported", "remove the operator")
    starts = g.builder.const(np.ones(1, np.bool_))
    if size > 1:
        same = g("Equal", [shapes.cut(g, x, axis, 1), shapes.cut(g, x, axis, 0, size - 1)])
        others = [at for at in range(x.rank) if at != axis]
        if others:
            same = g("ReduceMin", [g.builder.cast(same, INT32), vector(g, others)], keepdims=0)
        starts = g("Concat", [starts, g("Not", [g.builder.cast(same, BOOL8)])], axis=0)
    count = g("CumSum", [g.builder.cast(starts, INT64), g.builder.const(np.asarray(0, np.int64))])
    inverse = g("Sub", [count, number(g, count, 1)])
    inverse = shapes.reshaped(g, inverse, shapes.sizes_of(g, self)) if dim is None else inverse
    at = shapes.flat(g, true_places(g, starts))
    ends = g("Concat", [shapes.cut(g, at, 0, 1), vector(g, [size])], axis=0)
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
    return scatter_nd(g, zero, g("Unsqueeze", [index, vector(g, [1])]), shares, "add")


# ------------------------------------------------------------------ repeated elements


@aten("repeat_interleave.self_int", ignores=["output_size"])
def _repeat_each(node: AtenNode, g: Operators, self: Value, repeats: int, dim: int | None) -> Value:
    if repeats < 0:
        raise node.invalid(f"{repeats} repeats")
    x, axis = shapes.flat_or_along(node, g, self, dim)
    if repeats == 1:
        return x if dim is None else self
    sizes = shapes.sizes_of(g, x)
    apart = g("Unsqueeze", [x, vector(g, [axis + 1])])
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
    totals = g("CumSum", [counts, g.builder.const(np.asarray(0, np.int64))])
    length = None if output_size is None else shapes.known(output_size)
    if isinstance(length, int):
        at = g.builder.cast(vector(g, range(length)), totals.dtype)
    else:
        whole = g("ReduceSum", [counts], keepdims=0) if length is None else shapes.number(g, length)
        whole = g.builder.cast(whole, totals.dtype)
        at = g("Range", [number(g, totals, 0), whole, number(g, totals, 1)])
    passed = g("LessOrEqual", [totals, g("Unsqueeze", [at, vector(g, [1])])])
    return g("ReduceSum", [g.builder.cast(passed, totals.dtype), vector(g, [1])], keepdims=0)


@aten("repeat_interleave.self_Tensor", symbolic=["output_size"])
def _repeat_by(
    node: AtenNode, g: Operators, self: Value, repeats: Value, dim: int | None, output_size: Size | None
) -> Value:
    x, axis = shapes.flat_or_along(node, g, self, dim)
    if repeats.dims in ((), (1,)):
        repeats = shapes.expanded(g, repeats, shapes.sizes_of(g, x)[axis : axis + 1])
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
    """Return the reduced bags; other results are only for training."""
    if not 0 <= mode < len(_BAGS) or indices.rank != 1 or offsets.rank != 1:
        raise node.invalid(f"bags of mode {mode}, {indices.rank} axes of indices, {offsets.rank} of offsets")
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
    begun = g("LessOrEqual", [shapes.cut(g, begins, 0, 0, count), at])
    passed = g("ReduceSum", [g.builder.cast(begun, INT32), vector(g, [1])], keepdims=0)
    bags = g("Sub", [passed, number(g, passed, 1)])
    if is_padded:
        bags = where(g, g("Equal", [places, number(g, places, padding_idx or 0)]), number(g, bags, -1), bags)
    return [segments(g, rows, bags, count, _BAGS[mode], empty=0.0 if _BAGS[mode] == "Max" else None)]


# ------------------------------------------------------------------ neighbours


@aten("diff")
def _diff(
    node: AtenNode, g: Operators, self: Value, n: int, dim: int, prepend: Value | None, append: Value | None
) -> Value:
    axis = node.axis(dim, self.rank)
    x = joined(node, g, [value for value in (prepend, self, append) if value is not None], axis)
    if not 0 <= n <= _MOST:
        raise node.problem(f"{n} successive differences are not supported", f"take at most {_MOST}")
    size = shapes.size_of(x, axis)
    if n and size is not None and size <= n:
        return shapes.empty(g, [*x.shape[:axis], 0, *x.shape[axis + 1 :]], x.dtype)
    for _ in range(n):
        pair = [shapes.cut(g, x, axis, 1), shapes.cut(g, x, axis, 0, -1)]
        x = g("Xor" if x.dtype is BOOL8 else "Sub", pair)
    return x
