"""A few samples spread evenly over all, kept while they pass by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xdlc.ir.data import Array
from xdlc.quant.samples import Sample


@dataclass(slots=True)
class Kept:
    """A sample, and what the float model makes of it.

    Attributes:
        number: Its number among all samples.
        sample: Arrays by input name, copies.
        floats: Values of the float model by tensor name; empty until they are given.
    """

    number: int
    sample: Sample
    floats: Mapping[str, Array] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        held = (*self.sample.values(), *self.floats.values())
        return sum(array.nbytes for array in held)


class Spread:
    """Keeps a copy of every n-th sample, n doubling as they come.

    Args:
        most: Most samples to keep.
        most_bytes: Most bytes of what is kept; the first sample is kept whatever its size.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._stride = 1
        self.kept: list[Kept] = []
        self.count = 0

    def add(self, number: int, sample: Sample) -> None:
        """Count a sample, and keep it if it is its turn.

        Args:
            number: Its number among all samples, of which some may not be added.
            sample: Arrays by input name.
        """
        import numpy as np

        if self.count % self._stride == 0:
            self.kept.append(Kept(number, {name: np.array(array) for name, array in sample.items()}))
            self._thin()
        self.count += 1

    def give(self, number: int, floats: Mapping[str, Array]) -> None:
        """Take what the float model makes of a sample; keep it if the sample is kept."""
        for kept in self.kept:
            if kept.number == number:
                kept.floats = floats
                self._thin()
                return

    def evenly(self, most: int) -> list[Kept]:
        """Return up to ``most`` of what is kept, spread evenly, the first and the last among them.

        Args:
            most: At least two.
        """
        last = len(self.kept) - 1
        if last < most:
            return self.kept
        return [self.kept[place * last // (most - 1)] for place in range(most)]

    def _thin(self) -> None:
        while len(self.kept) > 1 and self._is_too_much():
            self.kept, self._stride = self.kept[::2], self._stride * 2

    def _is_too_much(self) -> bool:
        return len(self.kept) > self._most or sum(kept.nbytes for kept in self.kept) > self._most_bytes
