"""Range of least squared error of the values themselves."""

from __future__ import annotations

from xdlc.ir.data import Array
from xdlc.quant.calibration.statistics import Statistics
from xdlc.quant.range_methods import Grid, Steps, least_cost, range_method, shrunk
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
    import numpy as np

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


def mse_scales(rows: Array, steps: Steps) -> Array:
    """Return the scales with the least squared error of rounding and clipping."""
    return least_cost(rows, steps, squared_error, _clipping_error)


def squared_error(rows: Array, scales: Array, steps: Steps) -> Array:
    """Return the sum of squared rounding and clipping errors of each row, in float64."""
    import numpy as np

    each = scales[:, None]
    errors = rows / each
    np.rint(errors, out=errors)
    np.clip(errors, steps.low, steps.high, out=errors)
    errors *= each
    errors -= rows
    return np.square(errors, out=errors).sum(axis=1, dtype=np.float64)


def _clipping_error(rows: Array, scales: Array, steps: Steps) -> Array:
    """Return the part of ``squared_error`` that clipping alone causes."""
    import numpy as np

    each = scales[:, None]
    errors = np.clip(rows, steps.low * each, steps.high * each)
    errors -= rows
    return np.square(errors, out=errors).sum(axis=1, dtype=np.float64)


range_method("mse", activations=mse_range, weights=mse_scales)
