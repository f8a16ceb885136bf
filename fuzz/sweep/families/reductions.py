"""Reductions, places of extremes, scans."""

from __future__ import annotations

import math

import numpy as np

from fuzz.sweep.draft import Draft, family

_REDUCTIONS = (
    *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"),
    *("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"),
)


def _axes(d: Draft, rank: int) -> list[int]:
    axes = [axis for axis in range(rank) if d.flag(0.4)] or [d.between(0, rank - 1)]
    return axes[:1] if d.flag(0.3) else axes


@family("reduce")
def reduce(d: Draft) -> None:
    """Draw a reduction over any axes."""
    type, shape = d.pick(*_REDUCTIONS), d.ranked()
    axes = _axes(d, len(shape))
    count = math.prod(shape[axis] for axis in axes)
    bound = 2 if count < 4000 or type not in ("ReduceSumSquare", "ReduceL1") else 0.5
    low, high = (0.9, 1.1) if type == "ReduceProd" else (-bound / 2, bound)
    d.node(type, d.input(shape, low, high), d.indices(*axes), keepdims=d.pick(0, 1))


@family("integer_reduce")
def integer_reduce(d: Draft) -> None:
    """Draw a reduction of integers."""
    d.quantizable = False
    shape = d.shape(d.between(1, 5), 1 << 10)
    type = d.pick("ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean")
    d.node(type, d.integers(shape, -9, 9), d.indices(*_axes(d, len(shape))), keepdims=d.pick(0, 1))


@family("places")
def places(d: Draft) -> None:
    """Draw ArgMax, ArgMin or TopK of distinct values."""
    d.quantizable = False
    shape = d.shape(d.between(1, 4), 1 << 11)
    axis = d.between(0, len(shape) - 1)
    x = d.distinct(shape)
    if d.flag():
        d.node(d.pick("ArgMax", "ArgMin"), x, axis=axis, keepdims=d.pick(0, 1))
        return
    count = d.between(1, min(shape[axis], 20))
    d.several("TopK", [x, d.indices(count)], 2, axis=axis, largest=d.pick(0, 1))


@family("scan")
def scan(d: Draft) -> None:
    """Draw a CumSum of floats or integers."""
    shape = d.ranked(1, 4)
    axis = d.constant(d.between(0, len(shape) - 1), np.int64)
    d.quantizable = d.flag()
    x = d.input(shape, -0.2, 0.5) if d.quantizable else d.integers(shape, -9, 9)
    d.node("CumSum", x, axis, exclusive=d.pick(0, 0, 1), reverse=d.pick(0, 1))
