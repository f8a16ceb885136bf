"""All that was seen."""

from xdlc.quant.calibration.statistics import Statistics
from xdlc.quant.range_methods import Grid, range_method
from xdlc.quant.ranges import Range


@range_method("min-max", histogram=False)
def min_max(statistics: Statistics, grid: Grid) -> Range:
    """Return the range of all values, outliers included."""
    return statistics.seen
