"""What some samples tell of a model's activations, by name; that of more samples is merged in."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from xdlc.ir.data import Array
from xdlc.quant.ranges import Range
from xdlc.quant.statistics import Histogram, Statistics


@dataclass(frozen=True, slots=True)
class Measured:
    """Statistics of activations over some samples.

    Attributes:
        count: Number of samples.
        found: Statistics by name of the watched tensors.
        sums: Sum over samples of the mean of each channel, float64, by name of the averaged tensors.
    """

    count: int = 0
    found: dict[str, Statistics] = field(default_factory=dict)
    sums: dict[str, Array] = field(default_factory=dict)

    def merge(self, later: Measured) -> Measured:
        """Return what these samples and then those of ``later`` tell."""
        found, sums = dict(self.found), dict(self.sums)
        for name, statistics in later.found.items():
            found[name] = found[name].merge(statistics) if name in found else statistics
        for name, total in later.sums.items():
            sums[name] = sums[name] + total if name in sums else total
        return Measured(self.count + later.count, found, sums)

    def save(self, path: Path) -> None:
        """Write it to a file of plain arrays, bit for bit."""
        import numpy as np

        found = list(self.found.values())
        histograms = [statistics.histogram for statistics in found]
        names = json.dumps([list(self.found), list(self.sums)])
        np.savez(
            path,
            allow_pickle=False,
            names=np.frombuffer(names.encode(), np.uint8),
            count=np.array(self.count),
            reals=np.array([[s.seen.low, s.seen.high, s.lows, s.highs] for s in found], np.float64),
            samples=np.array([statistics.count for statistics in found], np.int64),
            bins=np.array([[h.exponent, h.first, h.counts.size] for h in histograms], np.int64),
            counts=np.concatenate([np.zeros(0, np.int64), *(h.counts for h in histograms)]),
            widths=np.array([total.size for total in self.sums.values()], np.int64),
            sums=np.concatenate([np.zeros(0), *self.sums.values()]),
        )

    @classmethod
    def load(cls, path: Path) -> Measured:
        """Return what ``save`` wrote."""
        import numpy as np

        with np.load(path, allow_pickle=False) as held:
            watched, averaged = json.loads(held["names"].tobytes())
            bins = held["bins"].reshape(-1, 3)
            counts = np.split(held["counts"], np.cumsum(bins[:, 2])[:-1])
            rows = zip(
                watched, held["reals"].tolist(), held["samples"].tolist(), bins.tolist(), counts, strict=False
            )
            found = {
                name: Statistics(Range(low, high), samples, lows, highs, Histogram(exponent, first, numbers))
                for name, (low, high, lows, highs), samples, (exponent, first, _), numbers in rows
            }
            sums = np.split(held["sums"], np.cumsum(held["widths"])[:-1])
            return cls(int(held["count"]), found, dict(zip(averaged, sums, strict=False)))
