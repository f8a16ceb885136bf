"""How far a layer's weights may move away from the float ones to fit the samples."""

from __future__ import annotations

from collections.abc import Callable

from xdlc.ir.data import Array
from xdlc.quant.reconstruction.problem import Problem, Sums

DAMPING = 0.05
"""Damping of a layer with many rows."""

SCARCE = 1.0
"""The same for each input a row: with few rows the samples say little of how inputs go together."""

PLENTY = 8
"""Rows for each input from which on damping need not be tried out."""

TRIED = (0.02, 0.1, 0.5, 2.0, 8.0)


def damping_for(halves: tuple[Sums, Sums], weights: Callable[[Problem], Array]) -> float:
    """Return the damping of a layer; with few rows, that which holds best on rows that it was not fitted to.

    Args:
        halves: Sums over two parts of the rows.
        weights: Gives the weights of a problem, [G, K, M].
    """
    depth: int = halves[0].matrix.shape[1]
    count = sum(half.count for half in halves)
    if count >= PLENTY * depth or not all(half.count for half in halves):
        return DAMPING + SCARCE * depth / count
    exact = [half.problem(0.0) for half in halves]
    errors = [
        sum(
            _error(judge, weights(half.problem(damping)))
            for half, judge in zip(halves, reversed(exact), strict=True)
        )
        for damping in TRIED
    ]
    return TRIED[errors.index(min(errors))]


def _error(problem: Problem, weights: Array) -> float:
    """Return the mean squared error of weights, but for what is the same for all weights."""
    import numpy as np

    return float((weights * (problem.gram @ weights - 2 * problem.cross)).sum(dtype=np.float64))
