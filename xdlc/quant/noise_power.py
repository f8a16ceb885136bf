"""Power of signal and noise, summed sample by sample."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from xdlc.ir.data import Array

EXACT = 200.0
"""Ratio in dB of no noise at all, and with a minus of noise without a signal or that is no number."""


def power(values: Array) -> float:
    """Return the sum of squares of an array, in float64."""
    import numpy as np

    flat = values.reshape(-1)
    return float(np.einsum("i,i->", flat, flat, dtype=np.float64, casting="unsafe"))


@dataclass(slots=True)
class Noise:
    """Signal and noise of one place.

    Attributes:
        signal: Sum of squares of the wanted values.
        noise: Sum of squares of the differences.
    """

    signal: float = 0.0
    noise: float = 0.0

    @classmethod
    def of(cls, pairs: Iterable[tuple[Array, Array]]) -> Noise:
        """Return what pairs of wanted values and others have together."""
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

    def add(self, wanted: Array, found: Array) -> None:
        """Count values; elements whose wanted value is not finite, as in masks, are omitted."""
        import numpy as np

        with np.errstate(over="ignore", invalid="ignore"):
            difference = wanted - found
            signal, noise = power(wanted), power(difference)
        if not math.isfinite(signal):
            held = np.isfinite(wanted)
            signal, noise = power(wanted[held]), power(difference[held])
        self.signal += signal
        self.noise += noise

    def plus(self, other: Noise) -> Noise:
        """Return what both noises make together if they are independent, of one signal."""
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


def mean_db(noises: Iterable[Noise]) -> float | None:
    """Return the mean over outputs of their ratios in dB, None if there are no outputs."""
    ratios = [noise.db for noise in noises]
    return sum(ratios) / len(ratios) if ratios else None
