"""Range of a percentage of all values."""

from __future__ import annotations

import numpy as np

from xdlc.ir.data import Array
from xdlc.quant.calibration.statistics import Statistics
from xdlc.quant.range_methods import Grid, Steps, range_method, unclipped_scales
from xdlc.quant.ranges import Range


def percentile_range(statistics: Statistics, grid: Grid) -> Range:
    """Return the range between two quantiles, which clip equal shares on both sides.

    With 99.99 percent that is one value in 20,000 at each end.  Values of a bin
    count as spread evenly over it.
    """
    seen, histogram = statistics.seen, statistics.histogram
    if seen.is_empty or not histogram.total:
        return seen
    rest = (1.0 - grid.percentile / 100.0) / 2
    sums = np.cumsum(histogram.counts)
    reached = np.concatenate(([0.0], sums / sums[-1]))
    low, high = (float(np.interp(part, reached, histogram.edges)) for part in (rest, 1.0 - rest))
    if rest <= 0.0:
        return seen
    return Range(min(low, high), max(low, high)).cut(seen)


def percentile_scales(rows: Array, steps: Steps) -> Array:
    """Return the scales that clip only values beyond the percentile of each row.

    A row so short that the part beyond is less than one value keeps all of them.
    """
    needed = np.where(rows < 0, rows / steps.low, rows / steps.high)
    kept = np.quantile(needed, steps.percentile / 100.0, axis=1, method="higher")
    # Where most values are zero the quantile is too, and would clip all others.
    return np.where(kept > 0, kept, unclipped_scales(rows, steps)).astype(np.float64)


range_method("percentile", activations=percentile_range, weights=percentile_scales)
