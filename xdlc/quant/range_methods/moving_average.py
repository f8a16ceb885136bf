"""Moving average of the ranges of samples."""

from __future__ import annotations

from xdlc.quant.calibration.statistics import Statistics
from xdlc.quant.range_methods import Grid, range_method
from xdlc.quant.ranges import Range


def moving_average(statistics: Statistics, grid: Grid) -> Range:
    """Return the moving average of the samples' smallest and largest values."""
    return statistics.average


range_method("moving-average", activations=moving_average, histogram=False)
