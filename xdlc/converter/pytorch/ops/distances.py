"""Handlers of distances and similarities of vectors."""

from __future__ import annotations

import numpy as np

from xdlc.converter.nhwc.shapes import axis_of, dims, vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._terms import Term, term
from xdlc.converter.pytorch.ops.reductions import norm, over
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.values import Value, check_table


def cosine(x: Term, y: Term, axis: int, epsilon: float, *, embedding: bool = False) -> Term:
    """Return the cosine of the angle between vectors along an axis.

    Args:
        x: Floats.
        y: Floats that broadcast against these.
        axis: Axis from the front.
        epsilon: Least norm of each vector; for an embedding added to the squares of the norms.
        embedding: Whether the form is that of the loss of embeddings.
    """
    if embedding:
        squares = [over(one * one, "Sum", [axis], False) + epsilon for one in (x, y)]
        return over(x * y, "Sum", [axis], False) / (squares[0] * squares[1])("Sqrt")
    first, second = (one / norm(one, 2, [axis], True).most(epsilon) for one in (x, y))
    return over(first * second, "Sum", [axis], False)


def distance(x: Term, y: Term, order: float, epsilon: float, keep: bool = False) -> Term:
    """Return the norm of the difference of vectors along the last axis, ``epsilon`` added to each element."""
    gap = x - y + epsilon if epsilon else x - y
    return norm(gap, order, [gap.value.rank - 1], keep)


@aten("cosine_similarity")
def _cosine_similarity(node: AtenNode, g: Operators, x1: Value, x2: Value, dim: int, eps: float) -> Value:
    x, y = term(node, g, x1), term(node, g, x2)
    rank = max(x1.rank, x2.rank)
    if not rank:
        return ((x / abs(x).most(eps)) * (y / abs(y).most(eps))).value
    x, y = (_spread(one, rank) for one in (x, y))
    return cosine(x, y, axis_of(dim, rank), eps).value


def _spread(x: Term, rank: int) -> Term:
    """Return a term with axes of size 1 in front until it has a rank."""
    missing = rank - x.value.rank
    return x("Unsqueeze", vector(x.g, range(missing))) if missing else x


@aten("pairwise_distance")
def _pairwise(
    node: AtenNode, g: Operators, x1: Value, x2: Value, p: float, eps: float, keepdim: bool
) -> Value:
    return distance(term(node, g, x1), term(node, g, x2), p, eps, keepdim).value


@aten("cdist", "_cdist_forward", "_euclidean_dist", ignores=("compute_mode",))
def _cdist(node: AtenNode, g: Operators, x1: Value, x2: Value, p: float = 2.0) -> Value:
    """Subtract every row of one matrix from every row of the other."""
    rows = g("Unsqueeze", [x1, vector(g, [-2])])
    others = g("Unsqueeze", [x2, vector(g, [-3])])
    return distance(term(node, g, rows), term(node, g, others), p, 0.0).value


@aten("pdist", "_pdist_forward")
def _pdist(node: AtenNode, g: Operators, self: Value, p: float) -> Value:
    """Compare each row with those after it."""
    count = dims(self, [0])[0]
    check_table(count, count)
    first, second = (
        Term(g, g("Gather", [self, g.builder.const(places.astype(np.int64))], axis=0))
        for places in np.triu_indices(count, 1)
    )
    return distance(first, second, p, 0.0).value
