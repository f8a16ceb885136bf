"""What is kept of one tensor."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdlc.quant.ranges import NOTHING, Range
from xdlc.quant.statistics.histogram import Histogram

DECAY = 0.9
"""Weight of what went before in the moving average of minima and maxima."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """What calibration knows of a tensor.

    Attributes:
        seen: Smallest and largest value, exact.
        count: Samples merged.
        lows: Sum over samples of ``low * DECAY^age``, for the moving average of minima.
        highs: The same of maxima.
        histogram: Of a part of the values; empty where no method asked for one.
    """

    seen: Range = NOTHING
    count: int = 0
    lows: float = 0.0
    highs: float = 0.0
    histogram: Histogram = field(default_factory=Histogram)

    @classmethod
    def of(cls, seen: Range, histogram: Histogram | None = None) -> Statistics:
        """Return the statistics of one sample; those of an empty one are of no sample."""
        if seen.is_empty:
            return cls()
        return cls(seen, 1, seen.low, seen.high, Histogram() if histogram is None else histogram)

    @property
    def average(self) -> Range:
        """Moving average of the ranges of samples, the latest weighing most; empty if there were none."""
        if not self.count:
            return NOTHING
        weight = (1.0 - DECAY**self.count) / (1.0 - DECAY)
        return Range(self.lows / weight, self.highs / weight)

    def merge(self, later: Statistics) -> Statistics:
        """Return the statistics of these samples and then those of ``later``; associative."""
        fade = DECAY**later.count
        return Statistics(
            self.seen.merge(later.seen),
            self.count + later.count,
            self.lows * fade + later.lows,
            self.highs * fade + later.highs,
            self.histogram.merge(later.histogram),
        )
