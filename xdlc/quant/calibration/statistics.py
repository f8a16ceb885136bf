"""Histograms whose bins are the same for everybody, so that merging them is exact.

A bin is ``[i * 2^k, (i + 1) * 2^k)`` for whole ``i``; k is the smallest for which the data fit into
``BINS`` bins.  Growing to a larger k joins pairs of bins: what one pass over all data counts is what
merged passes over its parts count, whatever the order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from xdlc.ir.data import Array
from xdlc.quant.ranges import NOTHING, Range

BINS = 2048
"""Most bins of a histogram."""

DECAY = 0.9
"""Weight of what went before in the moving average of minima and maxima."""

_SMALLEST = -126
"""Smallest exponent of a bin's width: that of normal float32 numbers."""


def _empty() -> Array:
    import numpy as np

    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """Counts of values in bins of one width.

    Attributes:
        exponent: The k of the bins' width 2^k.
        first: The i of the first bin.
        counts: int64, one number a bin; empty if nothing was counted.
    """

    exponent: int = _SMALLEST
    first: int = 0
    counts: Array = field(default_factory=_empty)

    @classmethod
    def of(cls, values: Array) -> Histogram:
        """Return the histogram of an array of any shape; that of an empty one is empty.

        Args:
            values: Finite reals in the range of float32.

        Raises:
            ValueError: If one is NaN or infinite.

        Example:
            >>> import numpy as np
            >>> Histogram.of(np.float32([0.0, 1.0, 1.0])).total
            3
        """
        import numpy as np

        if not values.size:
            return cls()
        low, high = float(values.min()), float(values.max())
        if not (math.isfinite(low) and math.isfinite(high)):
            raise ValueError(f"a histogram holds finite values, not {low} to {high}")
        exponent = _fitting(low, high)
        # Scaling float32 up by a power of two is exact; down, it may lose the sign of the smallest.
        kind = np.float32 if exponent <= 0 and values.dtype == np.float32 else np.float64
        places = np.multiply(values, 2.0**-exponent, dtype=kind).reshape(-1)
        np.floor(places, out=places)
        first = math.floor(math.ldexp(low, -exponent))
        places -= first
        return cls(exponent, first, np.bincount(places.astype(np.int64)))

    @property
    def width(self) -> float:
        """Width of a bin."""
        return 2.0**self.exponent

    @property
    def total(self) -> int:
        """How many values were counted."""
        return int(self.counts.sum())

    @property
    def edges(self) -> Array:
        """Edges of the bins, float64, one more than there are bins."""
        import numpy as np

        return (self.first + np.arange(self.counts.size + 1)) * self.width

    @property
    def centres(self) -> Array:
        """Middles of the bins, float64."""
        import numpy as np

        return (self.first + np.arange(self.counts.size) + 0.5) * self.width

    def merge(self, other: Histogram) -> Histogram:
        """Return the histogram of both sets of values; exact, associative and commutative."""
        import numpy as np

        if not self.counts.size:
            return other
        if not other.counts.size:
            return self
        exponent = max(self.exponent, other.exponent)
        while True:
            ends = [part._ends(exponent) for part in (self, other)]
            first, last = min(end[0] for end in ends), max(end[1] for end in ends)
            if last - first < BINS:
                break
            exponent += 1
        counts = np.zeros(last - first + 1, np.int64)
        for part in (self, other):
            shift = exponent - part.exponent
            places = (part.first + np.arange(part.counts.size)) >> shift
            np.add.at(counts, places - first, part.counts)
        return Histogram(exponent, first, counts)

    def _ends(self, exponent: int) -> tuple[int, int]:
        shift = exponent - self.exponent
        return self.first >> shift, (self.first + self.counts.size - 1) >> shift


def _fitting(low: float, high: float) -> int:
    """Return the smallest exponent for which [low, high] fits into ``BINS`` bins."""
    width = max(high - low, abs(low) * 2.0**-40, abs(high) * 2.0**-40, 2.0**_SMALLEST)
    exponent = max(_SMALLEST, math.frexp(width / BINS)[1] - 2)
    while math.floor(math.ldexp(high, -exponent)) - math.floor(math.ldexp(low, -exponent)) >= BINS:
        exponent += 1
    return exponent


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
