"""What calibration reads in one sample, and how much of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TypeAlias

from xdlc.ir.data import Array

VALUES = 4096
"""Most values of a tensor and sample that go into its histogram."""

ALL_VALUES = 1 << 20
"""Most values of all tensors of a sample together."""

Key: TypeAlias = tuple[str, str]
"""Name of a graph and of a tensor in it."""


def spread(size: int, limit: int) -> tuple[int, int]:
    """Return first index and stride of at most ``limit`` values that lie evenly among ``size``.

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
class Reading:
    """What one sample tells.

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
