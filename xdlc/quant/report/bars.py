"""Histograms of few bins, for pictures."""

from __future__ import annotations

from xdlc.quant.calibration.statistics import Histogram
from xdlc.quant.report.model import Bars

MOST = 80
"""Most bins of a picture."""


def bars(histogram: Histogram) -> Bars | None:
    """Return a histogram with neighbouring bins joined until ``MOST`` are left; None of an empty one.

    Example:
        >>> import numpy as np
        >>> bars(Histogram.of(np.float32([0.0, 0.5, 0.75]))).counts[0]
        1
    """
    import numpy as np

    if not histogram.counts.size:
        return None
    # Whole numbers of bins are joined, so that counts stay exact.
    joined = -(-histogram.counts.size // MOST)
    counts = np.add.reduceat(histogram.counts, np.arange(0, histogram.counts.size, joined))
    width = histogram.width * joined
    return Bars(histogram.first * histogram.width, width, tuple(int(count) for count in counts))
