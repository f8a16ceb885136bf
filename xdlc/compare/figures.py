"""Figures of the difference between a reference and other values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from xdlc.ir.data import Array

EXACT = 200.0
"""Ratio in dB without noise; its negative if the signal is 0 or noise is NaN."""


def _power(values: Array) -> float:
    """Return the sum of squares of an array, in float64."""
    import numpy as np

    flat = values.reshape(-1)
    return float(np.einsum("i,i->", flat, flat, dtype=np.float64, casting="unsafe"))


@dataclass(slots=True)
class Noise:
    """Power of signal and noise, summed over values.

    Attributes:
        signal: Sum of squares of the wanted values.
        noise: Sum of squares of the differences.
    """

    signal: float = 0.0
    noise: float = 0.0

    @classmethod
    def of(cls, pairs: Iterable[tuple[Array, Array]]) -> Noise:
        """Return the noise of pairs of exact and rounded values."""
        noise = cls()
        for exact, rounded in pairs:
            noise.add(exact, rounded)
        return noise

    @property
    def kept(self) -> float:
        """Share of the signal's power that the noise leaves, 0 to 1."""
        if self.signal == 0.0:
            return 1.0
        return max(0.0, 1.0 - self.noise / self.signal) if math.isfinite(self.noise) else 0.0

    def add(self, exact: Array, rounded: Array) -> None:
        """Count the values of an array; values that are not finite are ignored."""
        import numpy as np

        with np.errstate(over="ignore", invalid="ignore"):
            difference = exact - rounded
            signal, noise = _power(exact), _power(difference)
        if not math.isfinite(signal):
            finite = np.isfinite(exact)
            signal, noise = _power(exact[finite]), _power(difference[finite])
        self.signal += signal
        self.noise += noise

    def plus(self, other: Noise) -> Noise:
        """Return the sum with an independent noise of the same signal."""
        return Noise(max(self.signal, other.signal), self.noise + other.noise)

    @property
    def db(self) -> float:
        """Signal-to-noise ratio in dB, between -``EXACT`` and ``EXACT``."""
        if self.noise == 0.0:
            return EXACT
        if self.signal == 0.0 or not math.isfinite(self.noise):
            return -EXACT
        ratio = 10.0 * (math.log10(self.signal) - math.log10(self.noise))
        return max(-EXACT, min(EXACT, ratio))


def percent(share: float) -> str:
    """Return a share in percent; only all is 100.0%.

    Example:
        >>> percent(0.99962)
        '99.9%'
    """
    return f"{share if share == 1.0 else min(share, 0.999):.1%}"


_LOWEST, _HIGHEST = -20.0, 120.0


def sqnr(exact: Array, rounded: Array) -> float:
    """Return the SQNR of an array in dB, between -20 and 120."""
    noise = Noise.of([(exact, rounded)])
    return min(max(noise.db, _LOWEST), _HIGHEST) if noise.signal or noise.noise else _HIGHEST


@dataclass(frozen=True, slots=True)
class Figures:
    """Difference of values from a reference.

    Attributes:
        db: SQNR in dB.
        cosine: Cosine of the angle between the two as vectors, 1 if both are zero; NaN counts as 0.
        largest: Largest absolute difference of finite values.
        nans: Number of NaN that the reference does not have there.
        infs: Number of infinities that the reference does not have there.
        custom: What the user's metric returns; None without one.
    """

    db: float
    cosine: float
    largest: float
    nans: int
    infs: int
    custom: float | None = None


_SMALLEST = 1e-12
"""Power below which squares of float32 may be 0."""


class Difference:
    """Sums of the difference of values from a reference, over any number of arrays.

    Args:
        metric: Called with the two arrays; returns a number.

    Attributes:
        count: Number of values.
    """

    def __init__(self, metric: Callable[..., float] | None = None) -> None:
        self.count = 0
        self._metric, self._scores = metric, list[float]()
        self._noise = Noise()
        self._product = self._candidate = self._reference = self._largest = self._sum = 0.0
        self._low, self._high = math.inf, -math.inf
        self._nans = self._infs = 0

    def add(self, reference: Array, candidate: Array) -> None:
        """Count the values of two arrays of one size.

        Places where both are the same infinity or both are NaN do not count.
        """
        import numpy as np

        if self._metric is not None:
            self._scores.append(self._metric(reference, candidate))
        self.count += int(np.size(reference))
        first = np.asarray(reference).reshape(-1).astype(np.float32, copy=False)
        second = np.asarray(candidate).reshape(-1).astype(np.float32, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):
            difference = second - first
            signal, candidate_power, noise = (float(np.dot(row, row)) for row in (first, second, difference))
        is_plain = math.isfinite(signal + candidate_power) and min(signal, candidate_power) > _SMALLEST
        if is_plain and (noise > _SMALLEST**2 or not difference.any()):
            self._noise.signal += signal
            self._noise.noise += noise
            self._product += float(np.dot(first, second))
            self._reference += signal
            self._candidate += candidate_power
        else:
            first, second = self._add_slowly(first, second)
            difference = second - first
        if first.size:
            self._largest = max(self._largest, float(difference.max()), -float(difference.min()))
            self._sum += float(difference.sum(dtype=np.float64))
            self._low, self._high = min(self._low, float(first.min())), max(self._high, float(first.max()))

    def _add_slowly(self, first: Array, second: Array) -> tuple[Array, Array]:
        """Count values in float64, and return the finite ones."""
        import numpy as np

        if not (np.isfinite(first).all() and np.isfinite(second).all()):
            counted = ~((first == second) | (np.isnan(first) & np.isnan(second)))
            self._nans += int(np.count_nonzero(np.isnan(second) & counted))
            self._infs += int(np.count_nonzero(np.isinf(second) & counted))
            if bool((counted & ~np.isfinite(second)).any()):
                self._noise.noise = math.inf
            both = np.isfinite(first) & np.isfinite(second)
            first, second = first[both], second[both]
        self._noise.add(first, second)
        self._product += float(np.einsum("i,i->", first, second, dtype=np.float64, casting="unsafe"))
        self._reference += _power(first)
        self._candidate += _power(second)
        return first, second

    @property
    def power(self) -> float:
        """Sum of squares of the reference."""
        return self._noise.signal

    @property
    def bias(self) -> float:
        """Mean of the differences of finite values."""
        return self._sum / max(self.count, 1)

    @property
    def extremes(self) -> tuple[float, float]:
        """Lowest and highest finite value of the reference."""
        return self._low, self._high

    def db_of(self, noise: float) -> float:
        """Return the SQNR in dB that a mean square of the noise makes."""
        return Noise(self.power, noise * self.count).db

    def figures(self) -> Figures:
        """Return the figures of all that was counted."""
        scores = self._scores
        custom = sum(scores) / len(scores) if scores else None
        norm = math.sqrt(self._reference) * math.sqrt(self._candidate)
        is_zero = not self._reference and not self._candidate
        cosine = self._product / norm if norm else float(is_zero)
        return Figures(self._noise.db, cosine, self._largest, self._nans, self._infs, custom)
