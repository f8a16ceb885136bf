"""Progress of a run: values of a graph in several requests, each computed once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Run = Callable[[tuple[int, ...], dict[str, Any], list[str]], Mapping[str, Any]]


@dataclass(slots=True)
class _State:
    """What is computed of a sample.

    Attributes:
        feeds: Inputs of the graph.
        done: Numbers of the nodes that ran.
        alive: Values that other nodes read.
    """

    feeds: Mapping[str, Any]
    done: set[int] = field(default_factory=set)
    alive: dict[str, Any] = field(default_factory=dict)


class Progress:
    """Values of a graph in several requests, which continue from those before.

    A request keeps the values that later nodes read.  A request for others starts anew.

    Args:
        nodes: Names of the values that each node reads and computes, in execution order.
    """

    def __init__(self, nodes: Sequence[tuple[Sequence[str], Sequence[str]]]) -> None:
        self._nodes = nodes
        self._producers = {name: number for number, (_, writes) in enumerate(nodes) for name in writes}
        self._readers: dict[str, set[int]] = {}
        for number, (reads, _) in enumerate(nodes):
            for name in reads:
                self._readers.setdefault(name, set()).add(number)
        self._states: dict[int, _State] = {}

    def values(self, feeds: Mapping[str, Any], names: Sequence[str], sample: int, run: Run) -> dict[str, Any]:
        """Return values by name.

        Args:
            feeds: Arrays by name of the graph's inputs.
            names: Values that nodes compute.
            sample: Number of the sample, whose requests continue from each other.
            run: Called with numbers of nodes, the values that enter them, and the names that it returns.
        """
        state = self._states.get(sample)
        if state is None or not same(state.feeds, feeds):
            state = self._states[sample] = _State(dict(feeds))
        nodes = self._missing(names, state)
        if nodes is None:
            state = self._states[sample] = _State(state.feeds)
            nodes = self._missing(names, state) or ()
        state.done.update(nodes)
        requested, values = set(names), {**state.feeds, **state.alive}
        if nodes:
            writes = [name for number in nodes for name in self._nodes[number][1]]
            reads = dict.fromkeys(name for number in nodes for name in self._nodes[number][0])
            entering = {name: values[name] for name in reads if name in values}
            leaving = [name for name in writes if name in requested or self._is_alive(name, state)]
            results = run(nodes, entering, leaving)
            values |= results
            state.alive |= results
        state.alive = {name: value for name, value in state.alive.items() if self._is_alive(name, state)}
        return {name: values[name] for name in names}

    def _is_alive(self, name: str, state: _State) -> bool:
        """Return whether a node that did not run reads a value."""
        return not self._readers.get(name, set()) <= state.done

    def _missing(self, names: Sequence[str], state: _State) -> tuple[int, ...] | None:
        """Return the nodes to run; None if one ran before, and its result is gone."""
        missing: set[int] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            number = self._producers.get(name)
            if number is None or number in missing or name in state.alive:
                continue
            if number in state.done:
                return None
            missing.add(number)
            waiting.extend(self._nodes[number][0])
        return tuple(sorted(missing))


def same(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Return whether feeds are equal."""
    import numpy as np

    return first.keys() == second.keys() and all(
        first[name] is second[name] or np.array_equal(first[name], second[name]) for name in first
    )
