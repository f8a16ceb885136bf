"""Handlers of reductions, norms, and running sums, products and extremes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xdlc.converter.functions.reduce import accumulated, reduced
from xdlc.converter.functions.shapes import axis_of, dims, reshape, vector
from xdlc.converter.functions.terms import Term
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops._shapes import contradiction
from xdlc.converter.pytorch.ops._terms import formula, operator, term
from xdlc.converter.pytorch.ops.arithmetic import logaddexp
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value, check_table
from xdlc.ir.dtype import INT64

Axes = Sequence[int] | int | None


def axes_of(x: Value, dim: Axes) -> list[int]:
    """Return axes from the front; None and [] are all of them; rank 0 has none.

    Raises:
        ModelError: If there is no such axis, or one repeats.
    """
    given = [dim] if isinstance(dim, int) else list(dim or range(x.rank))
    axes = sorted({axis_of(axis, x.rank) for axis in given}) if x.rank else []
    if x.rank and len(axes) != len(given):
        raise contradiction(f"axes {given} of rank {x.rank} repeat")
    return axes


def over(x: Term, type: str, dim: Axes = None, keep: bool = False) -> Term:
    """Return a reduction along axes; for rank 0 it is a copy."""
    return Term(x.g, reduced(x.g, type, x.value, axes_of(x.value, dim), keep=keep))


_SIMPLE = {
    "amax": "Max", "amin": "Min", "max": "Max", "mean": "Mean", "min": "Min", "prod": "Prod", "sum": "Sum",
}  # fmt: skip


@aten(*_SIMPLE, layout=ANY, ignores=("dtype",))
def _reduce(node: AtenNode, g: Operators, self: Value, dim: Axes = None, keepdim: bool = False) -> Value:
    """Reduce numbers in the result's type; bools have the extremes of integers."""
    return over(term(node, g, self).ordered(), _SIMPLE[operator(node)], dim, keepdim).value


@formula("nansum")
def _nansum(self: Term, dim: Axes = None, keepdim: bool = False) -> Term:
    return over(self.is_nan().where(0, self), "Sum", dim, keepdim)


@formula("nanmean")
def _nanmean(self: Term, dim: Axes = None, keepdim: bool = False) -> Term:
    return _nansum(self, dim, keepdim) / over((~self.is_nan()).to(self.value.dtype), "Sum", dim, keepdim)


@aten("any", "all", "_is_any_true", "_is_all_true", layout=ANY)
def _any(node: AtenNode, g: Operators, self: Value, dim: Axes = None, keepdim: bool = False) -> Value:
    holds = Term(g, self).holds()
    if dim == []:  # none here, where all other reductions take it as all
        return holds("Identity").value
    return over(holds, "Any" if "any" in node.type else "All", dim, keepdim).value


@aten("count_nonzero", layout=ANY)
def _count_nonzero(node: AtenNode, g: Operators, self: Value, dim: Axes = None) -> Value:
    return over(Term(g, self).holds().to(INT64), "Sum", dim).value


@aten("argmax", "argmin", layout=ANY)
def _arg(node: AtenNode, g: Operators, self: Value, dim: int | None, keepdim: bool) -> Value:
    return _place(Term(g, self).ordered(), operator(node)[3:], dim, keepdim).value


def _place(x: Term, kind: str, axis: int | None, keep: bool) -> Term:
    """Return the position of the ``max`` or ``min`` along an axis; None: of all."""
    rank = x.value.rank
    row = axis is None or not rank
    along = 0 if axis is None or not rank else axis_of(axis, rank)
    found = (x.flat() if row else x)({"max": "ArgMax", "min": "ArgMin"}[kind], axis=along, keepdims=0)
    if not keep or not rank:
        return found
    return Term(x.g, reshape(x.g, found.value, [1] * rank)) if row else found.raised(along)


@aten("max.dim", "min.dim", layout=ANY)
def _extreme(node: AtenNode, g: Operators, self: Value, dim: int, keepdim: bool) -> list[Value]:
    name, x = operator(node), Term(g, self).ordered()
    return [over(x, _SIMPLE[name], dim, keepdim).value, _place(x, name, dim, keepdim).value]


@formula("aminmax", "_aminmax")
def _aminmax(self: Term, dim: int | None = None, keepdim: bool = False) -> list[Term]:
    return [over(self.ordered(), type, dim, keepdim) for type in ("Min", "Max")]


@formula("logsumexp", "special_logsumexp")
def _logsumexp(self: Term, dim: Axes, keepdim: bool) -> Term:
    return over(self, "ReduceLogSumExp", dim, keepdim)


@formula("var", "std", "var_mean", "std_mean")
def _variance(
    node: AtenNode,
    self: Term,
    dim: Axes = None,
    unbiased: bool = True,
    correction: float | None = None,
    keepdim: bool = False,
) -> list[Term]:
    """Divide squares by the number of elements less a correction: 1 is Bessel's."""
    less = float(unbiased) if correction is None else correction
    gap = self - over(self, "Mean", dim, keep=True)
    found = over(gap * gap, "Sum" if less else "Mean", dim, keepdim)
    if less:
        found = found / max(math.prod(dims(self.value, axes_of(self.value, dim))) - less, 0.0)
    found = found("Sqrt") if operator(node).startswith("std") else found
    return [found, over(self, "Mean", dim, keepdim)]


def norm(x: Term, order: float, dim: Axes = None, keep: bool = False) -> Term:
    """Return the vector norm of an order along axes (``torch.linalg.vector_norm``)."""
    if order in (1, 2):
        return over(x, f"ReduceL{order:.0f}", dim, keep) if x.value.rank else abs(x)
    if order == 0:
        return over(x.differs(0).to(x.value.dtype), "Sum", dim, keep)
    if math.isinf(order) or not x.value.rank:
        return over(abs(x), "Max" if order > 0 else "Min", dim, keep)
    return over(abs(x) ** order, "Sum", dim, keep) ** (1 / order)


@formula("linalg_vector_norm", "norm", "frobenius_norm", "native_norm")
def _norm(self: Term, p: float | None = 2, ord: float = 2, dim: Axes = None, keepdim: bool = False) -> Term:
    return norm(self, ord if p == 2 else 2 if p is None else p, dim, keepdim)


@aten("linalg_norm", "linalg_matrix_norm", layout=ANY, ignores=("dtype",))
def _matrix_norm(
    node: AtenNode, g: Operators, self: Value, ord: float | str | None, dim: Axes, keepdim: bool
) -> Value:
    """Map vector norms, and matrix norms that are sums of rows, columns or squares."""
    x, axes = term(node, g, self), [dim] if isinstance(dim, int) else list(dim or range(self.rank))
    if ord is None or ord == "fro":
        return norm(x, 2, axes_of(self, dim), keepdim).value
    if len(axes) == 1 and not isinstance(ord, str):
        return norm(x, ord, axes, keepdim).value
    if isinstance(ord, str) or abs(ord) not in (1, math.inf):
        raise node.problem("xdlc does not support norms of singular values", "use another norm")
    summed, kept = axes if abs(ord) == 1 else axes[::-1]
    found = over(over(abs(x), "Sum", summed, keep=True), "Max" if ord > 0 else "Min", kept, keep=True)
    return (found if keepdim else found("Squeeze", vector(g, axes_of(self, axes)))).value


@formula("renorm")
def _renorm(self: Term, p: float, dim: int, maxnorm: float) -> Term:
    """Scale slices along an axis down to a maximal norm; the offset is PyTorch's."""
    rank = self.value.rank
    size = norm(self, p, [axis for axis in range(rank) if axis != axis_of(dim, rank)], keep=True)
    return self * (size > maxnorm).where(maxnorm / (size + 1e-7), size.of(1))


@formula("dist")
def _dist(self: Term, other: Term, p: float) -> Term:
    return norm(self - other, p)


@aten("cumsum", "cumprod", layout=ANY, ignores=("dtype",))
def _cumulate(node: AtenNode, g: Operators, self: Value, dim: int) -> Value:
    x = term(node, g, self).value
    type = "CumSum" if operator(node) == "cumsum" else "CumProd"
    return accumulated(g, type, x, dim, exclusive=False, reverse=False) if x.rank else x


def _scanned(parts: list[Term], axis: int, join: Callable[..., list[Term]]) -> list[Term]:
    """Return a running result along an axis, in log2(n) steps of doubling reach.

    A result consists of parts; ``join`` returns the result of two neighbouring ranges.
    """
    g, size, step = parts[0].g, dims(parts[0].value, [axis])[0], 1

    def sliced(first: int, last: int) -> list[Term]:
        return [part("Slice", *(vector(g, [end]) for end in (first, last, axis))) for part in parts]

    while step < size:
        joined = join(sliced(0, size - step), sliced(step, size))
        kept = zip(sliced(0, step), joined, strict=True)
        parts = [Term(g, g("Concat", [first.value, last.value], axis=axis)) for first, last in kept]
        step *= 2
    return parts


@formula("cummax", "cummin")
def _cumextreme(node: AtenNode, self: Term, dim: int) -> list[Term]:
    """Return cumulative extremes and their last positions; NaN propagates."""
    g, x, rank, is_max = self.g, self.ordered(), self.value.rank, operator(node) == "cummax"
    if not rank:
        return [self, x.to(INT64) * 0]
    axis, dtype, shape = axis_of(dim, rank), x.value.dtype, dims(x.value)
    check_table(*shape)
    places = np.indices(shape)[axis]

    def join(first: Sequence[Term], last: Sequence[Term]) -> list[Term]:
        wins = last[0] >= first[0] if is_max else last[0] <= first[0]
        wins = wins | last[0].is_nan() if dtype.is_float else wins
        return [wins.where(new, old) for new, old in zip(last, first, strict=True)]

    parts = [x, Term(g, g.builder.const(places.astype(np.int64)))]
    return _scanned(parts, axis, join)


@formula("logcumsumexp", "_logcumsumexp")
def _logcumsumexp(self: Term, dim: int) -> Term:
    if not self.value.rank:
        return self
    check_table(*dims(self.value))

    def join(first: Sequence[Term], last: Sequence[Term]) -> list[Term]:
        return [logaddexp(first[0], last[0])]

    return _scanned([self], axis_of(dim, self.value.rank), join)[0]
