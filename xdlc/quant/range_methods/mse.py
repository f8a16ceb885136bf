"""Range of least squared error of the values themselves."""

from __future__ import annotations

import numpy as np

from xdlc.ir.data import Array
from xdlc.quant.calibration.statistics import Statistics
from xdlc.quant.range_methods import Grid, Steps, range_method, sampled, shrunk, unclipped_scales
from xdlc.quant.ranges import Range


def mse_range(statistics: Statistics, grid: Grid) -> Range:
    """Return the range with the least squared error of rounding.

    Both ends are drawn in by one factor.

    As in OMSE (Choukroun et al., Low-bit Quantization of Neural Networks for Efficient Inference, 2019):
    each candidate really rounds the middles of the histogram's bins to its grid, offset included, and
    the mean of the squared errors counts.  ``sqnr`` expects noise instead, that of a step for every value,
    and moves the ends apart from each other.  So values of zero cost nothing here; and the
    proportion of the two ends, which holds an outlier on one side, stays.
    """
    seen, histogram = statistics.seen, statistics.histogram
    if seen.is_empty or not histogram.total:
        return seen
    values = histogram.centres
    values[(histogram.edges[:-1] <= 0.0) & (histogram.edges[1:] > 0.0)] = 0.0
    top, best, least = (1 << grid.bits) - 1, seen, np.inf
    for candidate in shrunk(seen, grid):
        step = candidate.width / top
        if not step:
            continue
        offset = np.rint(candidate.with_zero().low / step)
        rounded = (np.clip(np.rint(values / step) - offset, 0, top) + offset) * step
        error = float(histogram.counts @ (values - rounded) ** 2)
        if error < least:
            best, least = candidate, error
            continue
        reached = np.clip(values, candidate.low - step / 2, candidate.high + step / 2)
        if float(histogram.counts @ (values - reached) ** 2) > least:  # what is clipped only grows
            break
    return best.cut(seen)


_FACTOR = 0.93
_COUNT = 34
_FEW = 1 / 512
"""Share of rows below which a narrower scale that improves no more of them is the last."""


def mse_scales(rows: Array, steps: Steps) -> Array:
    """Return the scales with the least squared error of rounding and clipping.

    Integers come from scales down to an 11th of the one that clips nothing, until hardly any row improves.
    The scale of least squared error with these integers has a closed form; rounding to it once more
    only improves it.  Of equals the widest wins.
    """
    widest = unclipped_scales(rows, steps)
    seen = sampled(rows)
    first = np.maximum(widest, np.finfo(np.float32).tiny)
    best, gain = widest.copy(), np.zeros(len(rows), np.float32)
    integers = np.empty_like(seen)
    for power in range(_COUNT):
        np.divide(seen, (first * _FACTOR**power).astype(np.float32)[:, None], out=integers)
        np.rint(integers, out=integers)
        np.clip(integers, steps.low, steps.high, out=integers)
        products = np.einsum("ij,ij->i", seen, integers)
        squares = np.einsum("ij,ij->i", integers, integers)
        explained = products * (products / np.maximum(squares, 1))
        better = explained > gain
        best[better], gain[better] = products[better] / squares[better], explained[better]
        if power > 2 and better.mean() < _FEW:
            break
    best = np.minimum(best, widest)
    is_better = _squared_error(seen, best, steps) < _squared_error(seen, widest, steps)
    return np.where(is_better, best, widest)


def _squared_error(rows: Array, scales: Array, steps: Steps) -> Array:
    """Return the sum of squared rounding and clipping errors of each row, in float64."""
    divisors = np.maximum(scales, np.finfo(np.float32).tiny).astype(np.float32)[:, None]
    errors = rows / divisors
    np.rint(errors, out=errors)
    np.clip(errors, steps.low, steps.high, out=errors)
    errors *= divisors
    errors -= rows
    return np.square(errors, out=errors).sum(axis=1, dtype=np.float64)


range_method("mse", activations=mse_range, weights=mse_scales)
