"""Every operator with every attribute at the edge, in constant order."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import accumulate
from typing import overload

from fuzz.differential.cases import target
from fuzz.differential.frameworks import Framework
from fuzz.differential.networks import Network
from fuzz.targets import Files, Target

LEAST = 100
"""Cases of an operator, at least."""

Samples = Callable[[], Mapping[str, Sequence[Network]]]
Changes = Callable[[Network], Iterator[Network]]
Change = Callable[[random.Random, Network], Network]


class Edges(Sequence[Files]):
    """The cases of all operators: single changes, then random ones up to ``LEAST``.

    Args:
        samples: Networks by operator, whose last node is the operator.
        changes: Iterates over the network with one value at the edge.
        change: Makes a random change.
    """

    def __init__(self, samples: Mapping[str, Sequence[Network]], changes: Changes, change: Change) -> None:
        self._samples, self._changes, self._change = samples, changes, change
        self._ops = sorted(op for op, networks in samples.items() if networks)
        self._listed: dict[str, tuple[Network, ...]] = {}
        self._ends = list(accumulate(max(LEAST, len(self._single(op))) for op in self._ops))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, number: int) -> Files: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Files]: ...
    def __getitem__(self, number: int | slice) -> Files | Sequence[Files]:
        """Return a case."""
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        place = bisect_right(self._ends, number)
        op, index = self._ops[place], number - (self._ends[place - 1] if place else 0)
        networks, changes = self._samples[op], self._single(op)
        if index < len(changes):
            return changes[index].files()
        rng = random.Random(f"{op} {index}")
        network = networks[index % len(networks)]
        for _ in range(rng.choice((1, 2, 2, 3))):
            network = self._change(rng, network)
        return network.files()

    def _single(self, op: str) -> tuple[Network, ...]:
        """Return the single changes of the first samples that have ``LEAST`` together."""
        if op not in self._listed:
            networks: list[Network] = []
            for sample in self._samples[op]:
                networks += self._changes(sample)
                if len(networks) >= LEAST:
                    break
            self._listed[op] = tuple(networks)
        return self._listed[op]


def row(files: Files) -> str:
    """Return the operator of a case."""
    return Network.read(files).nodes[-1].op


def edge_target(
    name: str,
    start: Callable[[], Framework],
    samples: Samples,
    changes: Changes,
    change: Change,
    *engine: str,
) -> Target:
    """Return the target of the cases of all operators of a framework."""

    @cache
    def listed() -> Edges:
        return Edges(samples(), changes, change)

    return replace(target(name, start, None, *engine, seconds=20), listed=listed, row=row)
