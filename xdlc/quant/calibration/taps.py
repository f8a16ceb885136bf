"""What calibration adds to a lowered graph: reductions behind tensors, all results in one vector.

A run gives a few numbers a tensor and no activations.  One result for all makes onnxruntime run each
reduction right behind the tensor that it reads, for it orders nodes from the results back: activations
are still in the cache then, and let go as soon as in a plain float session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from xdlc.ir.data import Array
from xdlc.quant.calibration.observers import PartTaps
from xdlc.quant.calibration.reading import Key, Reading

if TYPE_CHECKING:
    from xdlc.runtime.lower import Lowered


class Taps:
    """Adds reductions to each part of a graph and those it runs, and takes their results.

    A tensor is measured in the first part that has it.

    Args:
        watched: Activations whose ranges are wanted.
        averaged: Activations of which the mean of each channel is wanted.
        limit: Most values of a tensor that are wanted for its histogram.
    """

    def __init__(self, watched: Sequence[Key], averaged: Sequence[Key], *, limit: int = 0) -> None:
        self._watched = {key: index for index, key in enumerate(watched)}
        self._averaged = set(averaged)
        self._limit = limit
        self._count = len(watched)
        self._parts: dict[str, PartTaps] = {}
        self._reading = self._fresh()

    def refine(self, lowered: Lowered) -> None:
        """Add what is wanted of the tensors that this part is the first to have."""
        graph = lowered.graph
        part = PartTaps(f"calibration:{len(self._parts)}")
        # Of two nodes that can run, onnxruntime takes the one that was added last.
        for name in reversed(graph.tensors):
            key = (graph.name, name)
            index, mean = self._watched.pop(key, None), key in self._averaged
            self._averaged.discard(key)
            if index is not None or mean:
                part.tap(lowered, graph.tensors[name], index, mean=key if mean else None, limit=self._limit)
        if part.close(lowered):
            self._parts[part.name] = part

    def see(self, results: Mapping[str, Array]) -> None:
        """Add what a run of a part tells to that of the sample."""
        for name in self._parts.keys() & results.keys():
            self._parts[name].read(results, self._reading)

    def take(self) -> Reading:
        """Return what the runs since the last call tell."""
        taken, self._reading = self._reading, self._fresh()
        for part in self._parts.values():
            part.runs = 0
        return taken

    def _fresh(self) -> Reading:
        import numpy as np

        lows, highs = np.full(self._count, np.inf), np.full(self._count, -np.inf)
        values: list[list[Array]] = [[] for _ in range(self._count)] if self._limit else []
        return Reading(lows, highs, np.zeros(self._count), values=values)
