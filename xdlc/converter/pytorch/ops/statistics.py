"""Handlers of covariances, differences, integrals and derivatives of samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xdlc.converter.functions.scatter import full
from xdlc.converter.functions.shapes import axis_of, dims, reshape, vector
from xdlc.converter.functions.terms import Number, Term
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops import _shapes as shapes
from xdlc.converter.pytorch.ops._shapes import axes_of
from xdlc.converter.pytorch.ops._terms import formula, operator, term
from xdlc.converter.pytorch.ops.joining import joined
from xdlc.converter.pytorch.ops.reductions import over
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import SOURCE
from xdlc.converter.values import Value
from xdlc.ir.dtype import BOOL8

_MOST = 64
"""Most times that differences are taken."""


@formula("cov", layout=SOURCE)
def _cov(self: Term, correction: int, fweights: Term | None, aweights: Term | None) -> Term:
    """Return the covariances of rows; for a single row a scalar."""
    g, x = self.g, self if self.value.rank > 1 else self("Reshape", [1, -1])
    weights = fweights * aweights if fweights and aweights else fweights or aweights
    if weights is None:
        gap = x - over(x, "Mean", 1, keep=True)
        scaled, rest = gap, Term(g, x.of(max(dims(x.value, [1])[0] - correction, 0)))
    else:
        total = over(weights, "Sum")
        gap = x - over(x * weights, "Sum", 1, keep=True) / total
        less = total if aweights is None else over(weights * aweights, "Sum")
        rest = (total - less / total * correction).most(0)
        scaled = gap * weights
    covariance = gap("MatMul", scaled("Transpose", perm=[1, 0])) / rest
    return covariance("Squeeze", [0, 1]) if dims(covariance.value) == (1, 1) else covariance


@formula("corrcoef", layout=SOURCE)
def _corrcoef(self: Term) -> Term:
    """Return covariances divided by the deviations, not beyond 1."""
    covariance = _cov(self, 1, None, None)
    if not covariance.value.rank:
        return covariance / covariance
    spread = covariance(
        "GatherElements", Term(self.g, vector(self.g, range(dims(covariance.value)[0]))).raised(0), axis=0
    )("Sqrt")
    return (covariance / spread / spread("Transpose", perm=[1, 0])).most(-1).least(1)


def _part(x: Term, axis: int, start: int, end: int) -> Term:
    return x("Slice", *(vector(x.g, [each]) for each in (start, end, axis)))


def _pairs(x: Term, axis: int) -> tuple[Term, Term]:
    """Return the later and the earlier elements of all neighbours."""
    size = dims(x.value, [axis])[0]
    return _part(x, axis, 1, size), _part(x, axis, 0, size - 1)


def _along(node: AtenNode, g: Operators, x: Value, axis: int, rank: int) -> Term:
    """Return positions along an axis, or of all elements, broadcastable to a rank."""
    lying = [x.size if at == axis else 1 for at in range(rank)]
    return term(node, g, reshape(g, x, lying if x.rank == 1 else [*[1] * (rank - x.rank), *dims(x)]))


@aten("trapezoid", "trapz", "cumulative_trapezoid", names={"dx": "x"}, layout=SOURCE)
def _integral(node: AtenNode, g: Operators, y: Value, x: Number, dim: int) -> Value:
    axis, is_sum, shape = axis_of(dim, y.rank), not operator(node).startswith("cumulative"), dims(y)
    if y.dtype is BOOL8 or (isinstance(x, Value) and (x.rank > y.rank or x.dtype is BOOL8)):
        raise node.problem(
            "xdlc does not support bools and extra axes of positions", "use numbers of one shape"
        )
    if shape[axis] < 2:
        rest = [*shape[:axis], *([] if is_sum else [0]), *shape[axis + 1 :]]
        return full(g, rest, 0 if isinstance(x, Value) else 0 * x, node.dtype)
    later, earlier = _pairs(term(node, g, y), axis)
    if isinstance(x, Value):
        places = _along(node, g, x, axis, y.rank)
        if dims(places.value, [axis])[0] < 2:
            raise node.problem("all samples have one position", "pass one position per sample")
        right, left = _pairs(places, axis)
        areas = (later + earlier) * (right - left)
    else:
        areas = (later + earlier) * x
    found = over(areas, "Sum", axis) if is_sum else areas("CumSum", np.asarray(axis))
    return (found * 0.5).value


def _slope(x: Term, gaps: Term | float, axis: int, edge_order: int) -> Term:
    """Return the derivative along an axis; ``edge_order`` applies at the ends.

    The formulas are those of three points at distances p and q (``torch.gradient``).
    """
    size = dims(x.value, [axis])[0]

    def weighed(first: int, last: int, weights: Sequence[Term | float]) -> Term:
        return sum(
            (_part(x, axis, first + at, last + at) * weight for at, weight in enumerate(weights[1:], 1)),
            _part(x, axis, first, last) * weights[0],
        )

    def gap(start: int, end: int) -> Term | float:
        return _part(gaps, axis, start, end) if isinstance(gaps, Term) else gaps

    ends = [weighed(at, at + 1, [-1.0, 1.0]) / gap(at, at + 1) for at in (0, size - 2)]
    if edge_order == 2:
        p, q = gap(0, 1), gap(1, 2)
        ends[0] = weighed(0, 1, [-(p + q + p) / p / (p + q), (p + q) / p / q, -p / q / (p + q)])
        p, q = gap(size - 3, size - 2), gap(size - 2, size - 1)
        weights = [q / p / (p + q), -(p + q) / p / q, (p + q + q) / q / (p + q)]
        ends[1] = weighed(size - 3, size - 2, weights)
    inner = []
    if size > 2 and isinstance(gaps, Term):
        p, q = gap(0, size - 2), gap(1, size - 1)
        inner = [weighed(0, size - 2, [-q / p / (p + q), (q - p) / p / q, p / q / (p + q)])]
    elif size > 2:
        inner = [(_part(x, axis, 2, size) - _part(x, axis, 0, size - 2)) / (2 * gaps)]
    parts = [each.value for each in (ends[0], *inner, ends[1])]
    return Term(x.g, x.g("Concat", parts, axis=axis))


@aten("gradient", layout=SOURCE)
def _gradient(
    node: AtenNode,
    g: Operators,
    self: Value,
    edge_order: int,
    spacing: float | Sequence[Number] | None = None,
    dim: Sequence[int] | int | None = None,
) -> list[Value]:
    axes = list(range(self.rank)) if dim is None else axes_of(node, dim, self.rank)
    distances = (
        list(spacing) if isinstance(spacing, Sequence) else [1.0 if spacing is None else spacing] * len(axes)
    )
    if len(distances) != len(axes) or edge_order not in (1, 2) or self.dtype is BOOL8:
        raise node.invalid(
            f"{len(distances)} distances do not fit {len(axes)} axes and edge order {edge_order}"
        )
    if any(size <= edge_order for size in dims(self, axes)):
        raise node.invalid(f"edge order {edge_order} needs more elements than {list(dims(self))}")
    slopes = []
    for axis, at in zip(axes, distances, strict=True):
        gaps: Term | float
        if isinstance(at, Value):
            right, left = _pairs(_along(node, g, at, axis, self.rank), axis)
            gaps = right - left
        else:
            gaps = float(at)
        slopes.append(_slope(term(node, g, self), gaps, axis, edge_order).value)
    return slopes


@aten("diff")
def _diff(
    node: AtenNode, g: Operators, self: Value, n: int, dim: int, prepend: Value | None, append: Value | None
) -> Value:
    axis = node.axis(dim, self.rank)
    x = joined(node, g, [value for value in (prepend, self, append) if value is not None], axis)
    if not 0 <= n <= _MOST:
        raise node.problem(
            f"xdlc supports at most {_MOST} successive differences, not {n}",
            "use a lower order of differences",
        )
    size = shapes.size_of(x, axis)
    if n and size is not None and size <= n:
        return shapes.empty(g, [*x.shape[:axis], 0, *x.shape[axis + 1 :]], x.dtype)
    for _ in range(n):
        pair = [shapes.cut(g, x, axis, 1), shapes.cut(g, x, axis, 0, -1)]
        x = g("Xor" if x.dtype is BOOL8 else "Sub", pair)
    return x
