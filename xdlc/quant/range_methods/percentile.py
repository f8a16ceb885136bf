"""The range that a given part of all values lies in."""

from __future__ import annotations

from xdlc.quant.calibration.statistics import Statistics
from xdlc.quant.range_methods import Grid, range_method
from xdlc.quant.ranges import Range


@range_method("percentile")
def percentile(statistics: Statistics, grid: Grid) -> Range:
    """Return the range between the quantiles that leave out half of the rest on each side.

    With 99.99 percent that is one value in 20,000 at each end.  A quantile lies in its bin of the histogram
    where the values of that bin, spread evenly, have it.
    """
    import numpy as np

    seen, histogram = statistics.seen, statistics.histogram
    if seen.is_empty or not histogram.total:
        return seen
    rest = (1.0 - grid.percentile / 100.0) / 2
    reached = np.concatenate(([0.0], np.cumsum(histogram.counts) / histogram.total))
    low, high = (float(np.interp(part, reached, histogram.edges)) for part in (rest, 1.0 - rest))
    if rest <= 0.0:
        return seen
    return Range(min(low, high), max(low, high)).cut(seen)
