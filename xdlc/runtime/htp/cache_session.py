"""Sessions of a model's main graph from one of its caches.

Partitions, those of branches and loop bodies too, are steps of the CPU's execution plan.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

from xdlc import passes
from xdlc.container import cache_provenance
from xdlc.container.cache_entry import read_entry
from xdlc.container.caches import Cache, shared_weights
from xdlc.errors import BackendError, ContainerError
from xdlc.ir import Graph, Model, Op
from xdlc.opdefs.control_flow import reachable
from xdlc.options import spell
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.htp.graph_io import GraphIO, as_known, given_results, stored_feeds
from xdlc.runtime.htp.partition_schedule import partition_graph, schedule
from xdlc.runtime.htp.worker_session import WorkerSession
from xdlc.runtime.steps import Step, Values
from xdlc.runtime.timeout import Watch

if TYPE_CHECKING:
    from xdlc.runtime.udo.kernels import Kernels


Array = Any  # numpy.ndarray


class CacheSession:
    """A cache, loaded in a child process.

    Args:
        cache: The cache, which the verdict finds usable.
        timeout: Seconds that loading may take.
        loop_timeout: Seconds that each loop may take, at most 15; default: 2.
        kernels: Kernels of UDOs.

    Attributes:
        served: The child process; close it in the end.
        partitions: Number of the partitions that the cache holds of the graph and of those that it runs; 0 if
            it holds the whole graph.

    Raises:
        BackendError: If the library does not load it, or its content is not that of its description.
    """

    def __init__(
        self,
        model: Model,
        cache: Cache,
        *,
        timeout: float,
        loop_timeout: float | None = None,
        kernels: Kernels | None = None,
    ) -> None:
        if cache.data is None or shared_weights(model, cache.name):
            raise BackendError("the emulation loads no caches that share their weights", where=cache.name)
        main = model.main
        facts = _facts(model).get(cache.name)
        whole, partitions = _held(facts, main.name, {graph.name for graph in reachable(main, model.graphs)})
        self.partitions = sum(map(len, partitions.values()))
        self.served = WorkerSession.of_cache(cache.data, timeout=timeout, name=cache.name)
        try:
            _check_soc(cache, self.served)
            self._runs: CpuSession | _Compiled
            if partitions:
                for name in chain(*partitions.values()):
                    _check_graph(cache, self.served, name, None)
                emulated = EmulatedPartitions(model, partitions, self.served)
                self._runs = CpuSession(
                    model, loop_timeout=loop_timeout, kernels=kernels, accelerator=emulated
                )
            else:
                _check_graph(cache, self.served, whole, main)
                self._runs = _Compiled(main, passes.htp_query(), whole, self.served)
        except BaseException:
            self.served.close()
            raise

    def run(self, feeds: Mapping[str, Array], *, native: bool) -> dict[str, Array]:
        """Return the outputs by tensor name, see ``HtpSession.run``."""
        return self._runs.run(feeds, native=native)


def _facts(model: Model) -> dict[str, cache_provenance.CacheFacts]:
    try:
        return cache_provenance.read(model)
    except ContainerError:  # the verdict has reported it
        return {}


def _held(
    facts: cache_provenance.CacheFacts | None, main: str, graphs: Collection[str]
) -> tuple[str, dict[str, dict[str, tuple[str, ...]]]]:
    """Return the main graph's name in a cache, and partitions' ops by name.

    Args:
        facts: What is known of the cache.
        main: Name of the main graph.
        graphs: Names of it and of the graphs that it runs.
    """
    partitions: dict[str, dict[str, tuple[str, ...]]] = {}
    whole = main
    for name, graph in facts.graphs.items() if facts else ():
        if graph.source == main and graph.ops is None:
            whole = name
        elif graph.source in graphs and graph.ops is not None:
            partitions.setdefault(graph.source, {})[name] = graph.ops
    return whole, partitions


def _check_soc(cache: Cache, served: WorkerSession) -> None:
    stated = read_entry(cache.entry).soc_id
    if served.soc_id != stated:
        raise BackendError(
            f"is described as one for the SoC with id {stated}, but was compiled for id {served.soc_id}",
            where=cache.name,
            fix=f"prepare the model again, with {spell('overwrite_cache_records', True)}",
        )


def _check_graph(cache: Cache, served: WorkerSession, name: str, graph: Graph | None) -> None:
    sides = served.graphs.get(name)
    if sides is None:
        problem = f"holds no graph {name!r}, only {', '.join(map(repr, served.graphs)) or 'none'}"
    elif graph is not None and list(map(sorted, sides)) != [
        sorted(tensor.name for tensor in side) for side in (graph.inputs, graph.outputs)
    ]:
        problem = f"holds a graph {name!r} from {', '.join(sides[0])} to {', '.join(sides[1])}"
    else:
        return
    raise BackendError(
        f"{problem}, which its description does not have",
        where=cache.name,
        fix=f"prepare the model again, with {spell('overwrite_cache_records', True)}",
    )


class Emulation(Protocol):
    """Runs the graphs of a cache, as ``worker_session.WorkerSession`` does."""

    def run(self, feeds: Mapping[str, Array], *, native: bool, graph: str) -> dict[str, Array]:
        """Return the outputs of a graph by name."""


class _Compiled:
    """A graph of a cache on the emulation, with the model's inputs and outputs."""

    def __init__(self, graph: Graph, stage: Sequence[passes.Pass], name: str, emulation: Emulation) -> None:
        adapted = graph.clone()
        passes.run(adapted, stage)
        self._name, self._emulation = name, emulation
        self._inputs = list(map(GraphIO, map(as_known, graph.inputs), adapted.inputs))
        self._outputs = list(map(GraphIO, map(as_known, graph.outputs), adapted.outputs))
        self.inputs = [tensor.name for tensor in graph.inputs]

    def run(self, feeds: Mapping[str, Array], *, native: bool) -> dict[str, Array]:
        results = self._emulation.run(stored_feeds(self._inputs, feeds), native=True, graph=self._name)
        place = f"graph {self._name!r} of the cache"
        return given_results(self._outputs, results, native=native, where=place)


@dataclass(frozen=True, slots=True)
class _Step:
    """A compiled partition as a step of an execution plan."""

    compiled: _Compiled

    def run(self, values: Values, watch: Watch) -> None:
        """Run the partition, which cannot be stopped; loops around it wait."""
        watch.check()
        results = self.compiled.run({name: values[name] for name in self.compiled.inputs}, native=False)
        for name, array in results.items():
            values[name] = array.astype("float32") if array.dtype.name == "bfloat16" else array
        watch.check()


class EmulatedPartitions:
    """Partitions of a model's graphs on the emulation, for a session of the CPU.

    Args:
        partitions: Names of the ops of each compiled partition, by the graph's name and the partition's name
            in the cache.
        emulation: Runs the cache.
    """

    def __init__(
        self, model: Model, partitions: Mapping[str, Mapping[str, Sequence[str]]], emulation: Emulation
    ) -> None:
        self._graphs, self._partitions, self._emulation = model.graphs, partitions, emulation

    def schedule(self, graph: Graph) -> list[tuple[Step | None, Sequence[Op]]]:
        """Return the ops of a graph in groups, each with its step on the emulation.

        Raises:
            ContainerError: If the partitions do not fit the graph.
        """
        return [
            (None if each.name is None else self._step(graph.name, each.name), each.ops)
            for each in schedule(graph, self._partitions.get(graph.name, {}))
        ]

    def _step(self, graph: str, name: str) -> _Step:
        partition = partition_graph(self._graphs[graph], self._partitions[graph][name], name)
        return _Step(_Compiled(partition, passes.stage("htp"), name, self._emulation))
