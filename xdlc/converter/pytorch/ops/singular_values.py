"""Handlers of what follows from singular values: ranks, condition, pseudo-inverses, norms of matrices."""

# ruff: noqa: N803 - the arguments have the names of the schemas

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xdlc.converter.nhwc.products import swapped
from xdlc.converter.nhwc.shapes import axis_of, number, permuted, vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._factors import check, inverse
from xdlc.converter.pytorch.ops._singular import decomposed, mirrored, singular_values, symmetric_values
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.values import Value
from xdlc.ir.dtype import INT64

Tolerance = float | Value | None


@aten("linalg_svdvals", ignores=("driver",))
def _svdvals(node: AtenNode, g: Operators, A: Value) -> Value:
    return singular_values(g, A)


@aten("linalg_eigvalsh")
def _eigvalsh(node: AtenNode, g: Operators, self: Value, UPLO: str) -> Value:
    return symmetric_values(g, self, upper=UPLO.upper() == "U")


def _sizes(g: Operators, x: Value, *, hermitian: bool) -> Value:
    return g("Abs", [symmetric_values(g, x, upper=False)]) if hermitian else singular_values(g, x)


def _cutoff(g: Operators, sizes: Value, shape: Sequence[int], atol: Tolerance, rtol: Tolerance) -> Value:
    """Return the size [..., 1] below which singular values count as 0, as torch.linalg.pinv defines it."""
    most = g("ReduceMax", [sizes, vector(g, [-1])], keepdims=1)
    if rtol is None:
        exact = float(np.finfo(sizes.dtype.numpy).eps) * max(shape[-2:])
        rtol = 0.0 if atol is not None and not isinstance(atol, Value) and atol > 0 else exact
        if isinstance(atol, Value):
            usual = number(g, most, exact)
            rtol = g("Where", [g("Greater", [atol, number(g, atol, 0)]), number(g, most, 0), usual])
    parts = []
    for given in (rtol, 0.0 if atol is None else atol):
        if isinstance(given, Value):
            given = g.builder.cast(given, most.dtype)
            parts.append(g("Unsqueeze", [given, vector(g, [-1])]) if given.rank else given)
        else:
            parts.append(number(g, most, given))
    return g("Max", [g("Mul", [most, parts[0]]), parts[1]])


@aten("linalg_matrix_rank")
def _matrix_rank(
    node: AtenNode,
    g: Operators,
    hermitian: bool,
    self: Value | None = None,
    input: Value | None = None,
    atol: Tolerance = None,
    rtol: Tolerance = None,
    tol: Tolerance = None,
) -> Value:
    x = self if self is not None else input
    assert x is not None
    sizes = _sizes(g, x, hermitian=hermitian)
    if tol is not None:
        atol, rtol = tol, 0.0
    above = g("Greater", [sizes, _cutoff(g, sizes, x.shape, atol, rtol)])
    return g("ReduceSum", [g.builder.cast(above, INT64), vector(g, [-1])], keepdims=0)


@aten("pinverse", "linalg_pinv")
def _pinverse(
    node: AtenNode,
    g: Operators,
    self: Value | None = None,
    input: Value | None = None,
    rcond: Tolerance = None,
    atol: Tolerance = None,
    rtol: Tolerance = None,
    hermitian: bool = False,
) -> Value:
    x = self if self is not None else input
    assert x is not None
    rows, columns = check(x)
    x = mirrored(g, x, upper=False) if hermitian else x
    found = decomposed(g, swapped(g, x) if rows < columns else x)
    flat = g("Squeeze", [found.sizes, vector(g, [-2])])
    cutoff = _cutoff(g, flat, x.shape, atol, rtol if rcond is None else rcond)
    kept = g("Greater", [flat, cutoff])
    one, zero = number(g, x, 1), number(g, x, 0)
    safe = g("Where", [kept, flat, one])
    shares = g("Where", [kept, g("Reciprocal", [g("Mul", [safe, safe])]), zero])
    scaled = g("Mul", [found.vectors, g("Unsqueeze", [shares, vector(g, [-2])])])
    made = g("MatMul", [scaled, swapped(g, found.images)])
    return swapped(g, made) if rows < columns else made


def matrix_norm(node: AtenNode, g: Operators, x: Value, order: float | str | None) -> Value:
    """Return the norm of matrices of the last two axes, without them."""
    if order in ("nuc", 2, -2):
        sizes = singular_values(g, x)
        axes = vector(g, [-1])
        if order == "nuc":
            return g("ReduceSum", [sizes, axes], keepdims=0)
        return g("ReduceMax" if order == 2 else "ReduceMin", [sizes, axes], keepdims=0)
    if order is None or order == "fro":
        return g("ReduceL2", [x, vector(g, [-2, -1])], keepdims=0)
    if isinstance(order, str) or abs(order) not in (1, math.inf):
        raise node.invalid(f"the matrix norm {order!r} is unknown")
    sums = g("ReduceSum", [g("Abs", [x]), vector(g, [-2 if abs(order) == 1 else -1])], keepdims=0)
    return g("ReduceMax" if order > 0 else "ReduceMin", [sums, vector(g, [-1])], keepdims=0)


@aten("linalg_cond")
def _cond(node: AtenNode, g: Operators, self: Value, p: float | str | None) -> Value:
    if p in (None, 2, -2):
        sizes, axes = singular_values(g, self), vector(g, [-1])
        most, least = (g(f"Reduce{which}", [sizes, axes], keepdims=0) for which in ("Max", "Min"))
        return g("Div", [least, most] if p == -2 else [most, least])
    return g("Mul", [matrix_norm(node, g, each, p) for each in (self, inverse(g, self))])


@aten("nuclear_norm")
def _nuclear_norm(
    node: AtenNode, g: Operators, self: Value, keepdim: bool, dim: Sequence[int] = (-2, -1)
) -> Value:
    return norm_along(node, g, self, "nuc", dim, keepdim=keepdim)


def norm_along(
    node: AtenNode, g: Operators, x: Value, order: float | str | None, axes: Sequence[int], *, keepdim: bool
) -> Value:
    """Return the norm of matrices of any two axes."""
    chosen = [axis_of(axis, x.rank) for axis in axes]
    order_of = [*(axis for axis in range(x.rank) if axis not in chosen), *chosen]
    made = matrix_norm(node, g, permuted(g, x, order_of), order)
    return g("Unsqueeze", [made, vector(g, sorted(chosen))]) if keepdim else made
