"""What some samples tell of a model's activations, by name; that of more samples is merged in."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdlc.ir.data import Array
from xdlc.quant.statistics import Statistics


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
