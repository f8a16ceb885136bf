"""Mergeable statistics of activations: ranges, histograms and channel means.

A bin of a histogram is ``[i * 2^k, (i + 1) * 2^k)`` for whole ``i``; k is the smallest for which the data fit
into ``BINS`` bins.  Growing to a larger k joins pairs of bins: one pass over all data counts the same as
merged passes over parts of them, in any order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from xdlc.ir.data import Array
from xdlc.quant.ranges import NOTHING, Range

BINS = 2048
"""Most bins of a histogram."""

DECAY = 0.9
"""Weight of earlier samples in the moving average of minima and maxima."""

CLIPS = 5
"""Least samples for a mean without the smallest and the largest."""

RULED = 0.25
"""Largest shift of a mean by its two extremes, relative to the mean of the others."""

FAR = 8.0
"""Least ratio of the distances of an outlier and of the other end from the mean."""

_SMALLEST = -126
"""Smallest exponent of a bin's width: that of normal float32 numbers."""


def _empty() -> Array:
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
        """Return the histogram of an array; it is empty if the array is.

        Args:
            values: Finite float values in the range of float32.

        Raises:
            ValueError: If one is NaN or infinite.

        Example:
            >>> import numpy as np
            >>> Histogram.of(np.float32([0.0, 1.0, 1.0])).total
            3
        """
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

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how workers send it: counts in their smallest type."""
        counts = self.counts.astype(np.min_scalar_type(int(self.counts.max(initial=0))))
        return _received, (self.exponent, self.first, counts)

    @property
    def width(self) -> float:
        return 2.0**self.exponent

    @property
    def total(self) -> int:
        """How many values were counted."""
        return int(self.counts.sum())

    @property
    def edges(self) -> Array:
        """Edges of the bins, float64: one more than there are bins."""
        return (self.first + np.arange(self.counts.size + 1)) * self.width

    @property
    def centres(self) -> Array:
        """Middles of the bins, float64."""
        return (self.first + np.arange(self.counts.size) + 0.5) * self.width

    def merge(self, histogram: Histogram) -> Histogram:
        """Return the exact histogram of both sets of values, the same in any order."""
        if not self.counts.size:
            return histogram
        if not histogram.counts.size:
            return self
        exponent = max(self.exponent, histogram.exponent)
        while True:
            ends = [part._ends(exponent) for part in (self, histogram)]
            first, last = min(end[0] for end in ends), max(end[1] for end in ends)
            if last - first < BINS:
                break
            exponent += 1
        counts = np.zeros(last - first + 1, np.int64)
        for part in (self, histogram):
            shift = exponent - part.exponent
            places = (part.first + np.arange(part.counts.size)) >> shift
            np.add.at(counts, places - first, part.counts)
        return Histogram(exponent, first, counts)

    def _ends(self, exponent: int) -> tuple[int, int]:
        shift = exponent - self.exponent
        return self.first >> shift, (self.first + self.counts.size - 1) >> shift


def _received(exponent: int, first: int, counts: Array) -> Histogram:
    return Histogram(exponent, first, counts.astype(np.int64))


def share_below(sizes: Array, counts: Array, share: float) -> float:
    """Return the smallest magnitude that covers a share of the counted values.

    Args:
        sizes: The size of the values of each bin, [bins], in any order.
        counts: How many there are, of any type: sums of floats are compared with their own last one.
        share: Share of all values, 0 to 1.

    Returns:
        One of the sizes; 0 where nothing was counted.
    """
    order = np.argsort(sizes, kind="stable")
    below = np.cumsum(counts[order])
    if not below.size or not below[-1] > 0:
        return 0.0
    place = min(int(np.searchsorted(below, min(share, 1.0) * below[-1])), below.size - 1)
    return float(sizes[order[place]])


def _fitting(low: float, high: float) -> int:
    """Return the smallest exponent for which [low, high] fits into ``BINS`` bins."""
    width = max(high - low, abs(low) * 2.0**-40, abs(high) * 2.0**-40, 2.0**_SMALLEST)
    exponent = max(_SMALLEST, math.frexp(width / BINS)[1] - 2)
    while math.floor(math.ldexp(high, -exponent)) - math.floor(math.ldexp(low, -exponent)) >= BINS:
        exponent += 1
    return exponent


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of a tensor.

    Attributes:
        seen: Smallest and largest value, exact.
        lows: Sum over samples of ``low * DECAY^age``, for the moving average of minima.
        highs: The same of maxima.
        histogram: Histogram of a part of the values; empty if no method needs one.
    """

    seen: Range = NOTHING
    count: int = 0
    lows: float = 0.0
    highs: float = 0.0
    histogram: Histogram = field(default_factory=Histogram)

    @classmethod
    def of(cls, seen: Range, histogram: Histogram | None = None) -> Statistics:
        """Return the statistics of one sample; without values they count no sample."""
        if seen.is_empty:
            return cls()
        return cls(seen, 1, seen.low, seen.high, Histogram() if histogram is None else histogram)

    @property
    def average(self) -> Range:
        """Moving average of the samples' ranges, the latest with the most weight.

        It is empty without samples.
        """
        if not self.count:
            return NOTHING
        weight = (1.0 - DECAY**self.count) / (1.0 - DECAY)
        return Range(self.lows / weight, self.highs / weight)

    def merge(self, later: Statistics) -> Statistics:
        """Return the statistics of these samples followed by ``later``; associative."""
        fade = DECAY**later.count
        return Statistics(
            self.seen.merge(later.seen),
            self.count + later.count,
            self.lows * fade + later.lows,
            self.highs * fade + later.highs,
            self.histogram.merge(later.histogram),
        )


VALUES = 4096
"""Most values of a tensor and sample that go into its histogram."""

ALL_VALUES = 1 << 20
"""Most values of all tensors of a sample together."""

Key: TypeAlias = tuple[str, str]
"""Name of a graph and of a tensor in it."""


def spread(size: int, limit: int) -> tuple[int, int]:
    """Return start and stride of at most ``limit`` indices evenly below ``size``.

    The stride has no divisor in common with ``size``, so that the values come from all columns.

    Example:
        >>> spread(1000, 100)
        (5, 11)
    """
    stride = max(1, -(-size // max(limit, 1)))
    while stride > 1 and math.gcd(stride, size) > 1:
        stride += 1
    return stride // 2, stride


def values_each(tensors: int) -> int:
    """Return how many values of each of so many tensors are counted in a sample."""
    return min(VALUES, ALL_VALUES // max(tensors, 1))


@dataclass
class SampleStatistics:
    """Statistics of one sample.

    Attributes:
        lows: Smallest value of each watched tensor, float64; infinite of one that no run has reached.
        highs: Largest values.
        sums: NaN where a tensor holds NaN, which minima and maxima may pass over; else any number.
        means: Mean over all axes but the last of each averaged tensor, float64, summed up over ``runs``.
        runs: How often each averaged tensor was computed: more than once in a loop.
        values: By position of the watched tensor, values for its histogram.
    """

    lows: Array
    highs: Array
    sums: Array
    means: dict[Key, Array] = field(default_factory=dict)
    runs: dict[Key, int] = field(default_factory=dict)
    values: list[list[Array]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ChannelMeans:
    """Means over samples of the mean of each channel, without outliers.

    Attributes:
        table: Sum, smallest and largest of their means, float64, [3, channels].
    """

    count: int
    table: Array

    @classmethod
    def of(cls, mean: Array) -> ChannelMeans:
        """Return the channel means of one sample."""
        return cls(1, np.stack([mean, mean, mean]))

    def merge(self, other: ChannelMeans) -> ChannelMeans:
        """Return the channel means of both sets of samples."""
        (total, low, high), (more, lower, higher) = self.table, other.table
        table = np.stack([total + more, np.minimum(low, lower), np.maximum(high, higher)])
        return ChannelMeans(self.count + other.count, table)

    @property
    def clipped(self) -> Array:
        """The mean of each channel, without its two extreme samples if they dominate."""
        total, low, high = self.table
        plain = total / self.count
        if self.count < CLIPS:
            return np.asarray(plain)
        with np.errstate(over="ignore", invalid="ignore"):
            rest = (total - low - high) / (self.count - 2)
            near, far = np.sort([high - rest, rest - low], axis=0)
            is_ruled = (np.abs(plain - rest) > RULED * np.abs(rest)) & (far > FAR * near)
        return np.where(is_ruled & np.isfinite(rest), rest, plain)


@dataclass(frozen=True, slots=True)
class ModelStatistics:
    """Statistics of activations over some samples.

    Attributes:
        statistics: Statistics of the watched tensors; a sample does not reach those of a branch not taken.
        means: Means of the channels of the averaged tensors, over samples.
    """

    count: int = 0
    statistics: dict[Key, Statistics] = field(default_factory=dict)
    means: dict[Key, ChannelMeans] = field(default_factory=dict)

    def merge(self, later: ModelStatistics) -> ModelStatistics:
        """Return the statistics of these samples followed by ``later``."""
        merged, means = dict(self.statistics), dict(self.means)
        for name, statistics in later.statistics.items():
            merged[name] = merged[name].merge(statistics) if name in merged else statistics
        for name, more in later.means.items():
            means[name] = means[name].merge(more) if name in means else more
        return ModelStatistics(self.count + later.count, merged, means)
