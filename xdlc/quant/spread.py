"""A few samples spread evenly over all, kept while they pass by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xdlc.quant.samples import Sample


class Spread:
    """Passes samples on and keeps a copy of every n-th, n doubling as they come.

    Args:
        samples: Any number of samples, read once.
        most: Most samples to keep.
        most_bytes: Most bytes of what is kept; the first sample is kept whatever its size.
    """

    def __init__(self, samples: Iterable[Sample], most: int, most_bytes: int) -> None:
        self._samples = samples
        self._most = most
        self._most_bytes = most_bytes
        self.kept: list[Sample] = []
        self.count = 0

    def __iter__(self) -> Iterator[Sample]:
        import numpy as np

        stride = 1
        for index, sample in enumerate(self._samples):
            if index % stride == 0:
                self.kept.append({name: np.array(array) for name, array in sample.items()})
                while len(self.kept) > 1 and self._is_too_much():
                    self.kept, stride = self.kept[::2], stride * 2
            self.count += 1
            yield sample

    def _is_too_much(self) -> bool:
        held = sum(array.nbytes for sample in self.kept for array in sample.values())
        return len(self.kept) > self._most or held > self._most_bytes
