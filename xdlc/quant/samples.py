"""Calibration samples, read as often as algorithms need."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np

Sample: TypeAlias = Mapping[str, "np.ndarray"]


class Samples:
    """Samples in order; an iterator, which can be read but once, is written to disk as it is read.

    Args:
        source: Arrays by input name, one mapping a sample.
        again: Whether they will be read again.
    """

    def __init__(self, source: Iterable[Sample], *, again: bool = True) -> None:
        self._source = source
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._kept = 0
        self._once = again and iter(source) is source

    def __enter__(self) -> Samples:
        return self

    def __exit__(self, *exception: object) -> None:
        """Remove what was written."""
        if self._folder is not None:
            self._folder.cleanup()

    def __iter__(self) -> Iterator[Sample]:
        if not self._once:
            yield from self._source
            return
        for index in range(self._kept):
            yield self._read(index)
        for sample in self._source:
            self._keep(sample)
            yield sample

    def first(self, count: int) -> list[Sample]:
        """Return at most ``count`` samples from the start."""
        return list(islice(self, count))

    def _path(self, index: int) -> Path:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="xdlc-samples-")
        return Path(self._folder.name, f"{index}.npz")

    def _keep(self, sample: Sample) -> None:
        import numpy as np

        arrays = {f"{place}": np.asarray(array) for place, array in enumerate(sample.values())}
        np.savez(self._path(self._kept), allow_pickle=False, names=np.array(list(sample)), **arrays)
        self._kept += 1

    def _read(self, index: int) -> Sample:
        import numpy as np

        with np.load(self._path(index), allow_pickle=False) as held:
            return {str(name): held[f"{place}"] for place, name in enumerate(held["names"])}
