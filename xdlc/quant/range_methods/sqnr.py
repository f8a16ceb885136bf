"""Range of least expected noise: rounding inside of it plus clipping outside."""

from __future__ import annotations

import numpy as np

from xdlc.ir.data import Array
from xdlc.quant.calibration.statistics import Histogram, Statistics
from xdlc.quant.range_methods import Grid, Steps, least_cost, range_method
from xdlc.quant.ranges import Range

CANDIDATES = 128
"""Ends tried on each side of zero, denser near it; all pairs of them are compared."""


def sqnr_range(statistics: Statistics, grid: Grid) -> Range:
    """Return the range for which signal over expected noise is highest.

    A value inside is off by an error that is uniform over a step, ``step^2 / 12`` in the mean square; a
    value outside by its distance from the nearer end.  Low and high ends are chosen together, out of
    every pair of candidates; where pairs are equal the widest is taken.
    """
    seen, histogram = statistics.seen, statistics.histogram
    if seen.is_empty or not histogram.total:
        return seen
    whole = seen.with_zero()
    parts = (np.arange(CANDIDATES, 0, -1) / CANDIDATES) ** 2
    if grid.symmetric:
        highs = parts * max(-whole.low, whole.high)
        lows = -highs
        clipped, inside = _outside(histogram, lows, highs)
    else:
        lows, highs = (parts * end if end else np.zeros(1) for end in (whole.low, whole.high))
        below, above = lows.reshape(-1, 1), highs.reshape(1, -1)
        clipped, inside = _outside(histogram, below, above)
        lows, highs = (ends.reshape(-1) for ends in np.broadcast_arrays(below, above))
    steps = (highs - lows) / ((1 << grid.bits) - 1)
    noise = (clipped + inside * (steps**2 / 12).reshape(clipped.shape)).reshape(-1)
    best = int(noise.argmin())
    return Range(float(lows[best]), float(highs[best])).cut(seen)


def _outside(histogram: Histogram, lows: Array, highs: Array) -> tuple[Array, Array]:
    """Return the squared distance of values outside of a range, and the count inside."""
    below, few = _beyond(-histogram.centres[::-1], histogram.counts[::-1], -lows)
    above, many = _beyond(histogram.centres, histogram.counts, highs)
    return below + above, histogram.total - few - many


def _beyond(values: Array, counts: Array, ends: Array) -> tuple[Array, Array]:
    """Return the sum of squared distances above each end, and the counts.

    The sum is of ``count * (value - end)^2``; values rise.
    """
    first = np.searchsorted(values, ends, side="right")
    # Distances are taken from the middle, so that differences of large sums do not cancel.
    middle = values[values.size // 2]
    shifted, weights = values - middle, counts.astype(np.float64)
    sums = [np.append(np.cumsum((weights * shifted**power)[::-1])[::-1], 0.0)[first] for power in range(3)]
    distance = ends - middle
    squares = sums[2] - 2 * distance * sums[1] + distance**2 * sums[0]
    return np.maximum(squares, 0.0), sums[0]


def sqnr_scales(rows: Array, steps: Steps) -> Array:
    """Return the scales for which signal over expected noise is highest.

    A value inside is off by an error that is uniform over a step, ``scale^2 / 12`` in the mean square; a
    value outside by its distance from the nearer end.  Other than with ``mse`` it does not count that
    some values happen to be multiples of the scale.
    """
    return least_cost(rows, steps, _expected_noise)


def _expected_noise(rows: Array, scales: Array, steps: Steps) -> Array:
    each = scales[:, None]
    beyond = rows - np.clip(rows, each * steps.low, each * steps.high)
    inside = (beyond == 0.0).sum(axis=1)
    return np.square(beyond).sum(axis=1, dtype=np.float64) + inside * (scales.astype(np.float64) ** 2 / 12)


range_method("sqnr", activations=sqnr_range, weights=sqnr_scales)
