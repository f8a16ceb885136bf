"""Range of all values, outliers included."""

from __future__ import annotations

from xdlc.quant.calibration.statistics import Statistics
from xdlc.quant.range_methods import Grid, range_method, unclipped_scales
from xdlc.quant.ranges import Range


def min_max_range(statistics: Statistics, grid: Grid) -> Range:
    """Return the range of all values."""
    return statistics.seen


range_method("min-max", activations=min_max_range, weights=unclipped_scales, histogram=False)
