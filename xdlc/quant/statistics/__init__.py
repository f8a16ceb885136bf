"""What calibration keeps of a tensor: a few numbers and a histogram, mergeable piece by piece."""

from xdlc.quant.statistics.histogram import BINS, Histogram
from xdlc.quant.statistics.tensor import DECAY, Statistics

__all__ = ["BINS", "DECAY", "Histogram", "Statistics"]
