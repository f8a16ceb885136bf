"""Handlers of covariance."""

from __future__ import annotations

import numpy as np

from xdlc.converter.nhwc.shapes import dims, vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._terms import Term, term
from xdlc.converter.pytorch.ops.reductions import over
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.values import Value


def _covariance(x: Term, weights: Term | None, importance: Term | None, correction: int) -> Term:
    """Return the covariances of rows; a single row has one of rank 0."""
    g = x.g
    if x.value.rank < 2:
        x = x("Reshape", vector(g, [1, -1]))
    count = dims(x.value, [1])[0]
    if weights is None:
        mean, left = over(x, "Mean", [1]), float(max(count - correction, 0))
        gap = x - mean
        product = gap("MatMul", gap("Transpose", perm=[1, 0]))
        found = product / left
    else:
        total = over(weights, "Sum", [0], False)
        mean = over(x * weights, "Sum", [1]) / total
        gap = x - mean
        product = gap("MatMul", (gap * weights)("Transpose", perm=[1, 0]))
        rest = total - correction
        if importance is not None:
            rest = total - over(weights * importance, "Sum", [0], False) / total * correction
        found = product / rest.most(0)
    return found("Squeeze") if dims(found.value) == (1, 1) else found


@aten("cov")
def _cov(
    node: AtenNode,
    g: Operators,
    self: Value,
    correction: int,
    fweights: Value | None,
    aweights: Value | None,
) -> Value:
    """Return covariances; weights of importance reduce the correction by their mean square."""
    weights, importance = None, None
    if fweights is not None or aweights is not None:
        parts = [term(node, g, one) for one in (fweights, aweights) if one is not None]
        weights = parts[0] if len(parts) == 1 else parts[0] * parts[1]
        importance = None if aweights is None else term(node, g, aweights)
    return _covariance(term(node, g, self), weights, importance, correction).value


@aten("corrcoef")
def _corrcoef(node: AtenNode, g: Operators, self: Value) -> Value:
    """Return covariances divided by the deviations, not beyond 1."""
    found = _covariance(term(node, g, self), None, None, 1)
    if not found.value.rank:
        return (found / found).value
    size = dims(found.value)[0]
    place = g.builder.const(np.arange(size, dtype=np.int64).reshape(1, -1))
    spread = found("GatherElements", place, axis=0)("Sqrt")
    return (found / spread / spread("Transpose", perm=[1, 0])).most(-1).least(1).value
