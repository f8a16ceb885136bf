"""The average range of a sample."""

from xdlc.quant.calibration.statistics import Statistics
from xdlc.quant.range_methods import Grid, range_method
from xdlc.quant.ranges import Range


@range_method("moving-average", histogram=False)
def moving_average(statistics: Statistics, grid: Grid) -> Range:
    """Return the exponential moving average of the samples' smallest and largest values."""
    return statistics.average
