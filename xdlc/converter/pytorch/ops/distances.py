"""Handlers of the distances and similarities of vectors."""

from __future__ import annotations

import math

import numpy as np

from xdlc.converter.nhwc.shapes import axis_of, dims, vector
from xdlc.converter.pytorch.ops._terms import Term, formula
from xdlc.converter.pytorch.ops.reductions import norm, over
from xdlc.converter.session.node import CONTRADICTION
from xdlc.converter.session.ordering import SOURCE
from xdlc.converter.values import check_table
from xdlc.errors import ModelError


def distance(x: Term, y: Term, order: float, epsilon: float = 0.0, keep: bool = False) -> Term:
    """Return the norm of x - y + ``epsilon`` along the last axis."""
    return norm(x - y + epsilon if epsilon else x - y, order, -1, keep)


@formula("cosine_similarity", layout=SOURCE)
def _cosine_similarity(x1: Term, x2: Term, dim: int, eps: float) -> Term:
    rank = max(x1.value.rank, x2.value.rank)
    if not rank:
        return (x1 / abs(x1).most(eps)) * (x2 / abs(x2).most(eps))
    axis = axis_of(dim, rank)
    parts = []
    for x, y in ((x1, x2), (x2, x1)):
        for _ in range(rank - x.value.rank):
            x = x.raised(0)
        length = norm(x, 2, axis, keep=True)
        if dims(x.value, [axis]) == (1,) and y.value.rank >= rank - axis:  # repeated along the axis
            length = length * math.sqrt(dims(y.value, [axis - rank])[0])
        parts.append(x / length.most(eps))
    return over(parts[0] * parts[1], "Sum", axis)


@formula("pairwise_distance", layout=SOURCE)
def _pairwise(x1: Term, x2: Term, p: float, eps: float, keepdim: bool) -> Term:
    return distance(x1, x2, p, eps, keepdim)


@formula("cdist", "_cdist_forward", "_euclidean_dist", layout=SOURCE, ignores=("compute_mode",))
def _cdist(x1: Term, x2: Term, p: float = 2.0) -> Term:
    """Subtract every row of one matrix from every row of another."""
    if min(x1.value.rank, x2.value.rank) < 2:
        raise ModelError(
            f"distances need tensors of rank 2 or more, but these have rank {x1.value.rank} and "
            f"{x2.value.rank}",
            fix=CONTRADICTION,
        )
    return distance(x1.raised(-2), x2.raised(-3), p)


@formula("pdist", "_pdist_forward", layout=SOURCE)
def _pdist(self: Term, p: float) -> Term:
    """Return the distances of each row from the rows after it."""
    if self.value.rank != 2:
        raise ModelError(
            f"distances of rows need a tensor of rank 2, but this has rank {self.value.rank}",
            fix=CONTRADICTION,
        )
    count = dims(self.value, [0])[0]
    check_table(count, count)
    first, second = (self("Gather", vector(self.g, places), axis=0) for places in np.triu_indices(count, 1))
    return distance(first, second, p)
