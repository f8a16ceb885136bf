"""Engines side by side: what returns the values of a graph's tensors for feeds."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Protocol

from xdlc.ir import Graph, Model
from xdlc.ir.data import Array
from xdlc.ir.partitions import partition_of

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


Values = Mapping[str, Array]


class Engine(Protocol):
    """What computes, or has computed, the values of tensors.

    Attributes:
        names: Names of the tensors of the graph whose values it returns, inputs apart.
    """

    @property
    def title(self) -> str:
        """What it is, for reports."""

    @property
    def names(self) -> Collection[str]:
        """Names of the tensors whose values it returns."""

    def values(self, feeds: Values, names: Sequence[str], sample: int = 0) -> dict[str, Array]:
        """Return the values of tensors by name, in the layout of the graph.

        Args:
            feeds: Arrays by name of the graph's inputs.
            names: Some of ``names``.
            sample: Number of the sample, for engines that have computed already.
        """


def computed(graph: Graph) -> list[str]:
    """Return the names of the tensors that ops of a graph compute, in order."""
    return [tensor.name for op in graph.ops for tensor in op.outputs]


class HostEngine:
    """A model on this machine.

    Args:
        model: The model, whose main graph runs.
        quantized: Whether fixed-point tensors are rounded to their encodings.
        until: Time of the monotonic clock at which runs end.
    """

    def __init__(
        self, model: Model, *, quantized: bool = True, kernels: Any = None, until: float | None = None
    ) -> None:
        self.model, self.quantized, self._kernels, self._until = model, quantized, kernels, until
        self.names: Collection[str] = computed(model.main)
        self.title = "host" if quantized else "host, floats"
        self._progress = Progress(
            [
                (
                    [tensor.name for tensor in op.computed],
                    [tensor.name for tensor in op.outputs],
                )
                for op in model.main.ops
            ]
        )
        self._open: tuple[Any, Any] = (None, None)

    def values(self, feeds: Values, names: Sequence[str], sample: int = 0) -> dict[str, Array]:
        """Return the values of tensors by name."""
        return self._progress.values(feeds, names, sample, self._run)

    def _run(self, numbers: tuple[int, ...], feeds: Values, names: Sequence[str]) -> dict[str, Array]:
        chosen, session = self._open
        if session is None or chosen != (numbers, tuple(names)):
            self._open, session = (None, None), None  # before another one takes memory
            graph = self.model.main
            part = partition_of(graph, [graph.ops[number] for number in numbers], names)
            inner = {name: body for name, body in self.model.graphs.items() if body is not graph}
            session = self.session(Model({part.name: part, **inner}, self.model.metadata), ())
            self._open = ((numbers, tuple(names)), session)
        results = session.run(feeds, until=self._until)
        return {name: results[name] for name in names}

    def session(self, model: Model, names: Sequence[str]) -> Any:
        """Return a session of a model, computed as this engine does."""
        from xdlc.runtime.cpu import CpuSession

        return CpuSession(model, quantized=self.quantized, outputs=names, kernels=self._kernels)


class HtpEngine:
    """A model on the emulation of a SoC, compiled for the tensors of a request.

    Args:
        model: The model, whose main graph runs.
        kernels: Kernels of UDOs, which run on this machine.
        options: Options of the session, such as ``launch``.
        until: Time of the monotonic clock at which compiling and runs end.
    """

    def __init__(
        self, model: Model, soc: str, *, kernels: Any = None, until: float = inf, **options: Any
    ) -> None:
        self.model, self.soc = model, soc
        self._options, self._until = {"kernels": kernels, **options}, until
        self.names: Collection[str] = computed(model.main)
        self.title = f"HTP of {soc}"
        self._open: tuple[tuple[str, ...], Any] = ((), None)

    def values(self, feeds: Values, names: Sequence[str], sample: int = 0) -> dict[str, Array]:
        """Return the values of tensors by name."""
        from xdlc.runtime.htp.process import OPENING, RUNNING
        from xdlc.runtime.htp.session import HtpSession

        del sample
        chosen, session = self._open
        if session is None or chosen != tuple(names):
            self.close()
            left = max(self._until - time.monotonic(), 0.01)
            session = HtpSession(
                self.model,
                self.soc,
                mode="always_generate_new",
                outputs=names,
                timeout=min(OPENING, left),
                run_timeout=min(RUNNING, left),
                **self._options,
            )
            self._open = (tuple(names), session)
        results = session.run(feeds)
        return {name: results[name] for name in names}

    def close(self) -> None:
        """End the child process."""
        if self._open[1] is not None:
            self._open[1].close()
        self._open = ((), None)
