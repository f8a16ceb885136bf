"""What is best for the network at hand; chosen by ``choice`` and ``headroom``."""

from xdlc.quant.calibration.statistics import Statistics
from xdlc.quant.range_methods import AUTO, Grid, range_method
from xdlc.quant.ranges import Range


@range_method(AUTO)
def auto(statistics: Statistics, grid: Grid) -> Range:
    """Return the range of all values: what a tensor alone tells.

    The quantizer widens it for 16-bit activations, and takes the method that it found best for the network
    as a whole for those of 8 bits.
    """
    return statistics.seen
