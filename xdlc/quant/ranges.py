"""Ranges of float values, mergeable."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdlc.ir.data import Array


@dataclass(frozen=True, slots=True)
class Range:
    """The smallest and the largest of some values; ``NOTHING`` before any was seen.

    Attributes:
        low: Smallest value.
        high: Largest value.
    """

    low: float
    high: float

    @property
    def is_empty(self) -> bool:
        """Whether no value was seen."""
        return self.low > self.high

    @property
    def is_finite(self) -> bool:
        """Whether both ends are numbers: neither NaN nor infinite."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def width(self) -> float:
        """Distance from the low to the high end, zero included in the range."""
        around_zero = self.with_zero()
        return around_zero.high - around_zero.low

    def merge(self, other: Range) -> Range:
        """Return the range of both sets of values; associative and commutative, NaN included.

        Example:
            >>> Range(-1.0, 2.0).merge(NOTHING).merge(Range(0.0, 3.0))
            Range(low=-1.0, high=3.0)
        """
        if math.isnan(self.low) or math.isnan(other.low):
            return NOT_A_NUMBER
        return Range(min(self.low, other.low), max(self.high, other.high))

    def with_zero(self) -> Range:
        """Return the range widened to hold zero."""
        return Range(min(self.low, 0.0), max(self.high, 0.0))

    def cut(self, limit: Range) -> Range:
        """Return the part of the range in ``limit``, or its nearest end if none does."""
        if self.is_empty:
            return self
        return Range(min(max(self.low, limit.low), limit.high), max(min(self.high, limit.high), limit.low))

    def within(self, other: Range) -> bool:
        """Return whether every value of this range is in ``other``."""
        return self.is_empty or (other.low <= self.low and self.high <= other.high)


NOTHING = Range(math.inf, -math.inf)
NOT_A_NUMBER = Range(math.nan, math.nan)


def range_of(array: Array) -> Range:
    """Return the range of an array: ``NOTHING`` of an empty one, NaN at both ends if it holds any NaN."""
    if array.size == 0:
        return NOTHING
    low, high = float(array.min()), float(array.max())
    return NOT_A_NUMBER if math.isnan(low) else Range(low, high)
