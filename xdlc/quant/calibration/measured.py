"""What some samples tell of a model's activations; that of more samples is merged in."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from xdlc.ir.data import Array
from xdlc.quant.calibration.reading import Key
from xdlc.quant.calibration.statistics import Histogram, Statistics
from xdlc.quant.ranges import Range


@dataclass(frozen=True, slots=True)
class Measured:
    """Statistics of activations over some samples.

    Attributes:
        count: Number of samples.
        found: Statistics of the watched tensors; a sample does not reach those of a branch not taken.
        sums: Sum over samples of the mean of each channel, float64, of the averaged tensors.
        counts: Number of samples that have reached each of these.
    """

    count: int = 0
    found: dict[Key, Statistics] = field(default_factory=dict)
    sums: dict[Key, Array] = field(default_factory=dict)
    counts: dict[Key, int] = field(default_factory=dict)

    def merge(self, later: Measured) -> Measured:
        """Return what these samples and then those of ``later`` tell."""
        found, sums, counts = dict(self.found), dict(self.sums), dict(self.counts)
        for name, statistics in later.found.items():
            found[name] = found[name].merge(statistics) if name in found else statistics
        for name, total in later.sums.items():
            sums[name] = sums[name] + total if name in sums else total
            counts[name] = counts.get(name, 0) + later.counts[name]
        return Measured(self.count + later.count, found, sums, counts)

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
            widths=np.array([(self.counts[key], total.size) for key, total in self.sums.items()], np.int64),
            sums=np.concatenate([np.zeros(0), *self.sums.values()]),
        )

    @classmethod
    def load(cls, path: Path) -> Measured:
        """Return what ``save`` wrote."""
        import numpy as np

        with np.load(path, allow_pickle=False) as held:
            named = json.loads(held["names"].tobytes())
            watched, averaged = ([(graph, name) for graph, name in keys] for keys in named)
            bins = held["bins"].reshape(-1, 3)
            counts = np.split(held["counts"], np.cumsum(bins[:, 2])[:-1])
            rows = zip(
                watched, held["reals"].tolist(), held["samples"].tolist(), bins.tolist(), counts, strict=False
            )
            found = {
                name: Statistics(Range(low, high), samples, lows, highs, Histogram(exponent, first, numbers))
                for name, (low, high, lows, highs), samples, (exponent, first, _), numbers in rows
            }
            widths = held["widths"].reshape(-1, 2)
            sums = np.split(held["sums"], np.cumsum(widths[:, 1])[:-1])
            return cls(
                int(held["count"]),
                found,
                dict(zip(averaged, sums, strict=False)),
                dict(zip(averaged, widths[:, 0].tolist(), strict=True)),
            )
