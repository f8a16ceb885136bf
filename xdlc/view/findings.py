"""Findings about a model from outside of it: overlays, flags, problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdlc.ir import Graph
from xdlc.view.overlays import Overlay, Value
from xdlc.view.statistics import Record

Place = tuple[int, int]
"""Index of a graph and of an op in it."""
Problem = tuple[str, int | None, int | None]
"""A problem, and the place of its op where it has one."""


@dataclass(slots=True)
class Findings:
    """What reports and judges say about a model.

    Attributes:
        problems: Problems of ops and of the whole model.
        activations: Statistics of activations by graph and name of the tensor.
        facts: Facts of the whole model.
        notices: What the user should know of the reading.
    """

    overlays: list[Overlay] = field(default_factory=list)
    flags: dict[Place, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    activations: dict[int, dict[str, Record]] = field(default_factory=dict)
    facts: list[tuple[str, str]] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def flag(self, place: Place, flag: int) -> None:
        """Set a flag of an op."""
        self.flags[place] = self.flags.get(place, 0) | flag


class Ops:
    """Places of ops by name.

    Args:
        graphs: The graphs in their order.
    """

    def __init__(self, graphs: Sequence[Graph]) -> None:
        self.graphs = graphs
        self._counts = [len(graph) for graph in graphs]
        self._by_graph: list[dict[str, int]] = [
            {op.name: place for place, op in enumerate(graph.ops)} for graph in graphs
        ]
        self._numbers = {graph.name: number for number, graph in enumerate(graphs)}

    def find(self, name: str, graph: str | None = None) -> Place | None:
        """Return the place of an op, in the named graph or in the first that has it."""
        number = None if graph is None else self._numbers.get(graph)
        for each in range(len(self.graphs)) if number is None else (number,):
            if name in self._by_graph[each]:
                return each, self._by_graph[each][name]
        return None

    def columns(self, values: Mapping[Place, Value]) -> list[list[Value]]:
        """Return values by graph and op; None where there is none."""
        return [
            [values.get((number, place)) for place in range(count)]
            for number, count in enumerate(self._counts)
        ]

    def notes(self, texts: Mapping[Place, str]) -> list[dict[int, str]]:
        """Return texts by graph and index of the op."""
        rows: list[dict[int, str]] = [{} for _ in self.graphs]
        for (number, place), text in texts.items():
            rows[number][place] = text
        return rows
