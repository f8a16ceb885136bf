"""Handlers of reductions, norms, and running sums, products and extremes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xdlc.converter.nhwc.reduce import accumulated, reduced
from xdlc.converter.nhwc.shapes import axis_of, dims, reshape, vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._terms import Term, operator, term
from xdlc.converter.pytorch.ops.arithmetic import logaddexp
from xdlc.converter.pytorch.ops.singular_values import norm_along
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value, check_table
from xdlc.ir.dtype import BOOL8, INT32, INT64

Axes = Sequence[int] | int | None
_Join = Callable[[Sequence[Term], Sequence[Term]], Sequence[Term]]


def axes_of(x: Value, dim: Axes) -> list[int]:
    """Return axes from the front; None and an empty list are all of them; rank 0 has none."""
    given = [dim] if isinstance(dim, int) else list(dim or range(x.rank))
    return sorted({axis_of(axis, x.rank) for axis in given}) if x.rank else []


def over(x: Term, type: str, axes: Sequence[int], keep: bool = True) -> Term:
    """Return a reduction along axes; of rank 0 it is a copy."""
    return Term(x.g, reduced(x.g, type, x.value, axes, keep=keep))


def count_of(x: Value, axes: Sequence[int]) -> int:
    """Return the number of elements along axes."""
    return math.prod(dims(x, axes))


_SIMPLE = {
    "amax": "Max",
    "amin": "Min",
    "max": "Max",
    "mean": "Mean",
    "min": "Min",
    "prod": "Prod",
    "sum": "Sum",
}


@aten(*_SIMPLE, "nansum", "nanmean", layout=ANY, ignores=("dtype",))
def _reduce(node: AtenNode, g: Operators, self: Value, dim: Axes = None, keepdim: bool = False) -> Value:
    """Reduce numbers in the type of the result; extremes of bools are those of integers."""
    name, axes = operator(node), axes_of(self, dim)
    x = term(node, g, self)
    if name.startswith("nan"):
        is_nan, name = x.is_nan(), name[3:]
        x = is_nan.where(0, x)
        if name == "mean":
            kept = over((~is_nan).to(node.dtype), "Sum", axes, keepdim)
            return (over(x, "Sum", axes, keepdim) / kept).value
    if x.value.dtype is BOOL8:
        x = x.to(INT32)
    return over(x, _SIMPLE[name], axes, keepdim).value


@aten("any", "all", "_is_any_true", "_is_all_true", layout=ANY)
def _any(node: AtenNode, g: Operators, self: Value, dim: Axes = None, keepdim: bool = False) -> Value:
    x = Term(g, self)
    holds = x if self.dtype is BOOL8 else x.differs(0)
    if dim == []:  # none here, where all other reductions take it as all
        return holds("Identity").value
    return over(holds, "Any" if "any" in node.type else "All", axes_of(self, dim), keepdim).value


@aten("count_nonzero", layout=ANY)
def _count_nonzero(node: AtenNode, g: Operators, self: Value, dim: Axes = None) -> Value:
    x = Term(g, self)
    holds = x if self.dtype is BOOL8 else x.differs(0)
    return over(holds.to(INT64), "Sum", axes_of(self, dim), False).value


@aten("argmax", "argmin", layout=ANY)
def _arg(node: AtenNode, g: Operators, self: Value, dim: int | None, keepdim: bool) -> Value:
    return place_of(g, operator(node)[3:], self, dim, keepdim)


def place_of(g: Operators, kind: str, x: Value, axis: int | None, keep: bool) -> Value:
    """Return the place of the ``max`` or ``min`` along an axis, or, for None, among all elements."""
    rank = x.rank
    if axis is None or not rank:
        x = g("Reshape", [x, vector(g, [-1])])
    x = g.builder.cast(x, INT32) if x.dtype is BOOL8 else x
    along = 0 if axis is None or not rank else axis_of(axis, rank)
    found = g({"max": "ArgMax", "min": "ArgMin"}[kind], [x], axis=along, keepdims=0)
    if not keep or not rank:
        return found
    return reshape(g, found, [1] * rank) if axis is None else g("Unsqueeze", [found, vector(g, [along])])


@aten("max.dim", "min.dim", layout=ANY)
def _extreme(node: AtenNode, g: Operators, self: Value, dim: int, keepdim: bool) -> list[Value]:
    name = operator(node)
    x = self if self.dtype is not BOOL8 else g.builder.cast(self, INT32)
    top = over(Term(g, x), _SIMPLE[name], axes_of(x, dim), keepdim).value
    return [top, place_of(g, name, x, dim, keepdim)]


@aten("aminmax", "_aminmax", layout=ANY)
def _aminmax(
    node: AtenNode, g: Operators, self: Value, dim: int | None = None, keepdim: bool = False
) -> list[Value]:
    x = Term(g, self).to(INT32) if self.dtype is BOOL8 else Term(g, self)
    return [over(x, type, axes_of(self, dim), keepdim).value for type in ("Min", "Max")]


@aten("logsumexp", "special_logsumexp", layout=ANY)
def _logsumexp(node: AtenNode, g: Operators, self: Value, dim: Axes, keepdim: bool) -> Value:
    return over(term(node, g, self), "ReduceLogSumExp", axes_of(self, dim), keepdim).value


# ---------------------------------------------------------------------------------- variance


@aten("var", "std", "var_mean", "std_mean", layout=ANY)
def _variance(
    node: AtenNode,
    g: Operators,
    self: Value,
    dim: Axes = None,
    unbiased: bool = True,
    correction: float | None = None,
    keepdim: bool = False,
) -> list[Value]:
    name, axes = operator(node), axes_of(self, dim)
    x = term(node, g, self)
    spread, mean = variance(x, axes, float(unbiased) if correction is None else correction, keepdim)
    spread = spread("Sqrt") if name.startswith("std") else spread
    return [spread.value, mean.value] if name.endswith("mean") else [spread.value]


def variance(x: Term, axes: Sequence[int], correction: float, keep: bool) -> tuple[Term, Term]:
    """Return the variance and the mean along axes.

    Args:
        x: Floats.
        axes: Axes from the front.
        correction: What the number of elements that squares are divided by lacks: 1 is Bessel's.
        keep: Whether the axes stay, with size 1.
    """
    count = count_of(x.value, axes)
    mean = over(x, "Mean", axes)
    gap = x - mean
    total = over(gap * gap, "Mean", axes, keep) if not correction else over(gap * gap, "Sum", axes, keep)
    if correction:
        total = total / max(count - correction, 0.0)
    return total, mean if keep else over(x, "Mean", axes, False)


# ---------------------------------------------------------------------------------- norms


def norm(x: Term, order: float, axes: Sequence[int], keep: bool) -> Term:
    """Return the vector norm of an order along axes, as ``torch.linalg.vector_norm`` defines it."""
    if order == 2:
        return over(x, "ReduceL2", axes, keep) if axes else abs(x)
    if order == 1:
        return over(x, "ReduceL1", axes, keep) if axes else abs(x)
    if order == 0:
        return over(x.differs(0).to(x.value.dtype), "Sum", axes, keep)
    if math.isinf(order):
        return over(abs(x), "Max" if order > 0 else "Min", axes, keep)
    return over(abs(x) ** order, "Sum", axes, keep) ** (1 / order)


@aten("linalg_vector_norm", "norm", "frobenius_norm", "native_norm", layout=ANY, ignores=("dtype",))
def _norm(
    node: AtenNode,
    g: Operators,
    self: Value,
    p: float | None = 2,
    ord: float = 2,
    dim: Axes = None,
    keepdim: bool = False,
) -> Value:
    order = ord if p == 2 else 2 if p is None else p
    return norm(term(node, g, self), order, axes_of(self, dim), keepdim).value


@aten("linalg_norm", "linalg_matrix_norm", layout=ANY, ignores=("dtype",))
def _matrix_norm(
    node: AtenNode, g: Operators, self: Value, ord: float | str | None, dim: Axes, keepdim: bool
) -> Value:
    """Map vector norms, and the norms of matrices that are sums of rows, columns or squares."""
    x = term(node, g, self)
    given = [dim] if isinstance(dim, int) else list(dim or [])
    if ord is None or (ord == "fro"):
        return norm(x, 2, axes_of(self, given), keepdim).value
    if not given:
        given = list(range(self.rank))
    if len(given) == 1 and not isinstance(ord, str):
        return norm(x, ord, axes_of(self, given), keepdim).value
    if ord not in (1, -1, math.inf, -math.inf):
        return norm_along(node, g, g.builder.cast(self, node.dtype), ord, given, keepdim=keepdim)
    rows, columns = (axis_of(axis, self.rank) for axis in given)
    summed, kept = (rows, columns) if abs(ord) == 1 else (columns, rows)
    found = over(over(abs(x), "Sum", [summed]), "Max" if ord > 0 else "Min", [kept])
    return (found if keepdim else found("Squeeze", vector(g, sorted((rows, columns))))).value


@aten("linalg__powsum", layout=ANY, ignores=("dtype",))
def _powsum(node: AtenNode, g: Operators, self: Value, ord: float, dim: Axes, keepdim: bool) -> Value:
    return over(abs(term(node, g, self)) ** ord, "Sum", axes_of(self, dim), keepdim).value


@aten("renorm", layout=ANY)
def _renorm(node: AtenNode, g: Operators, self: Value, p: float, dim: int, maxnorm: float) -> Value:
    """Scale the parts along an axis whose norm is above a limit; the offset is PyTorch's."""
    x = term(node, g, self)
    size = norm(x, p, [axis for axis in range(self.rank) if axis != axis_of(dim, self.rank)], True)
    return (x * (size > maxnorm).where(maxnorm / (size + 1e-7), size.of(1))).value


@aten("dist", layout=ANY)
def _dist(node: AtenNode, g: Operators, self: Value, other: Value, p: float) -> Value:
    gap = term(node, g, self) - term(node, g, other)
    return norm(gap, p, axes_of(gap.value, None), False).value


# ---------------------------------------------------------------------------------- running results


@aten("cumsum", "cumprod", layout=ANY, ignores=("dtype",))
def _cumulate(node: AtenNode, g: Operators, self: Value, dim: int) -> Value:
    x = term(node, g, self).value
    type = "CumSum" if operator(node) == "cumsum" else "CumProd"
    return accumulated(g, type, x, dim, exclusive=False, reverse=False) if x.rank else x


def scanned(
    parts: Sequence[Term], fills: Sequence[float], axis: int, join: Callable[..., Sequence[Term]]
) -> Sequence[Term]:
    """Return running results along an axis: log2(n) steps join those of 1, 2, 4, ... elements before.

    Args:
        parts: What a result consists of.
        fills: What changes no other, for each.
        axis: Axis from the front.
        join: Returns the result of two neighbouring ranges, given the parts of the first and of the second.
    """
    g, size, step = parts[0].g, dims(parts[0].value, [axis])[0], 1
    while step < size:
        moved = []
        for part, fill in zip(parts, fills, strict=True):
            shape = list(dims(part.value))
            shape[axis] = step
            check_table(*shape)
            before = g.builder.const(np.full(shape, fill, part.value.dtype.numpy))
            kept = part("Slice", *(vector(g, [end]) for end in (0, size - step, axis)))
            moved.append(Term(g, g("Concat", [before, kept.value], axis=axis)))
        parts, step = join(moved, parts), 2 * step
    return parts


@aten("cummax", "cummin", layout=ANY)
def _cumextreme(node: AtenNode, g: Operators, self: Value, dim: int) -> list[Value]:
    """Return running extremes and their places, the last of equals; what is no number stays."""
    is_max, dtype = operator(node) == "cummax", self.dtype
    x = Term(g, self) if dtype is not BOOL8 else Term(g, self).to(INT32)
    if not self.rank:
        return [self, (x.to(INT64) * 0).value]
    axis = axis_of(dim, self.rank)
    size = dims(self, [axis])[0]
    check_table(size)
    place = np.arange(size, dtype=np.int64).reshape([-1 if held == axis else 1 for held in range(self.rank)])
    places = Term(g, g("Expand", [g.builder.const(place), vector(g, dims(self))]))
    held = x.value.dtype
    worst = -math.inf if held.is_float else held.limits[0]
    if not is_max:
        worst = math.inf if held.is_float else held.limits[1]

    def join(first: Sequence[Term], last: Sequence[Term]) -> list[Term]:
        wins = last[0] >= first[0] if is_max else last[0] <= first[0]
        if held.is_float:
            wins = wins | last[0].is_nan()
        return [wins.where(new, old) for new, old in zip(last, first, strict=True)]

    return [part.value for part in scanned([x, places], [worst, 0], axis, join)]


@aten("logcumsumexp", "_logcumsumexp", layout=ANY)
def _logcumsumexp(node: AtenNode, g: Operators, self: Value, dim: int) -> Value:
    x = term(node, g, self)
    if not self.rank:
        return x("Identity").value

    def join(first: Sequence[Term], last: Sequence[Term]) -> list[Term]:
        return [logaddexp(first[0], last[0])]

    return scanned([x], [-math.inf], axis_of(dim, self.rank), join)[0].value
