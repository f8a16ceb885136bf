"""Sessions of a model's main graph from one of its caches, on the emulation: as a whole, or in partitions.

Between partitions values are passed as they are stored: fixed-point ones as quantized values, under the
encodings of the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from xdlc import passes
from xdlc.container import cache_provenance
from xdlc.container.cache_entry import read_entry
from xdlc.container.caches import Cache, shared_weights
from xdlc.errors import BackendError, ContainerError
from xdlc.ir import Graph, Model, Op, Tensor
from xdlc.ir.quantization import to_float, to_quantized, unpacked
from xdlc.opdefs.control_flow import reachable
from xdlc.runtime.cpu import CpuSession, feeds_of
from xdlc.runtime.htp.graph_io import GraphIO, as_known, given_results, stored_feeds
from xdlc.runtime.htp.partition_schedule import partition_graph, schedule
from xdlc.runtime.htp.worker_session import WorkerSession
from xdlc.runtime.plan import given_out, partition_of

if TYPE_CHECKING:
    from xdlc.runtime.udo.kernels import Kernels


Array = Any  # numpy.ndarray


class CacheSession:
    """A cache, loaded in a child process.

    Args:
        model: The model.
        cache: The cache, which the verdict finds usable.
        timeout: Seconds that loading may take.
        kernels: Kernels of UDOs.

    Attributes:
        served: The child process; close it in the end.
        partitions: Number of the partitions that the cache holds of the graph; 0 if it holds the whole graph.

    Raises:
        BackendError: If the library does not load it, or its content is not that of its description.
    """

    def __init__(self, model: Model, cache: Cache, *, timeout: float, kernels: Kernels | None = None) -> None:
        if cache.data is None or shared_weights(model, cache.name):
            raise BackendError("the emulation loads no caches that share their weights", where=cache.name)
        main = model.main
        facts = _facts(model).get(cache.name)
        held = facts.graphs.items() if facts else ()
        own = {name: graph for name, graph in held if graph.source == main.name}
        partitions = {name: graph.ops for name, graph in own.items() if graph.ops is not None}
        whole = next(iter(own), main.name)
        self.partitions = len(partitions)
        self.served = WorkerSession.of_cache(cache.data, timeout=timeout, name=cache.name)
        try:
            _check_soc(cache, self.served)
            self._runs: PartitionSession | _Compiled
            if partitions:
                for name in partitions:
                    _check_graph(cache, self.served, name, None)
                self._runs = PartitionSession(model, partitions, self.served, kernels=kernels)
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


def _check_soc(cache: Cache, served: WorkerSession) -> None:
    stated = read_entry(cache.entry).soc_id
    if served.soc_id != stated:
        raise BackendError(
            f"is described as one for the SoC with id {stated}, but was compiled for id {served.soc_id}",
            where=cache.name,
            fix="prepare the model again, with --overwrite_cache_records",
        )


def _check_graph(cache: Cache, served: WorkerSession, name: str, graph: Graph | None) -> None:
    held = served.graphs.get(name)
    if held is None:
        problem = f"holds no graph {name!r}, only {', '.join(map(repr, served.graphs)) or 'none'}"
    elif graph is not None and list(map(sorted, held)) != [
        sorted(tensor.name for tensor in side) for side in (graph.inputs, graph.outputs)
    ]:
        problem = f"holds a graph {name!r} from {', '.join(held[0])} to {', '.join(held[1])}"
    else:
        return
    raise BackendError(
        f"{problem}, which its description does not have",
        where=cache.name,
        fix="prepare the model again, with --overwrite_cache_records",
    )


class Emulation(Protocol):
    """Runs the graphs of a cache, as ``worker_session.WorkerSession`` does."""

    def run(self, feeds: Mapping[str, Array], *, native: bool, graph: str) -> dict[str, Array]:
        """Return the outputs of a graph by name."""


class _Compiled:
    """A graph of a cache on the emulation, with inputs and outputs as the model has them."""

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


class _Host:
    """Ops on the CPU."""

    def __init__(
        self, model: Model, graph: Graph, ops: Sequence[Op], *, threads: int | None, kernels: Kernels | None
    ) -> None:
        outputs = given_out(graph, ops, (tensor.name for tensor in graph.outputs))
        partition = partition_of(graph, ops, outputs)
        called = reachable(partition, model.graphs)  # the partition comes first
        whole = Model({held.name: held for held in called}, model.metadata, model.records)
        self._session = CpuSession(whole, threads=threads, kernels=kernels) if outputs else None
        self._outputs = partition.outputs
        self.inputs = [tensor.name for tensor in partition.inputs] if outputs else []

    def run(self, feeds: Mapping[str, Array], *, native: bool) -> dict[str, Array]:
        results = self._session.run(feeds, native=native) if self._session is not None else {}
        return {
            tensor.name: results[tensor.name].astype(tensor.dtype.numpy, copy=False)
            for tensor in self._outputs
        }


class PartitionSession:
    """A graph in partitions, ready to run.

    Args:
        model: The model.
        partitions: Names of the ops of each compiled partition, by the partition's name in the cache.
        emulation: Runs the cache.
        graph: Name of the graph; default: the main one.
        threads: Threads of one op on the CPU; default: one per core.
        kernels: Kernels of UDOs.

    Raises:
        ContainerError: If the partitions do not fit the graph.
        XdlcError: What the CPU's sessions raise.
    """

    def __init__(
        self,
        model: Model,
        partitions: Mapping[str, Sequence[str]],
        emulation: Emulation,
        *,
        graph: str | None = None,
        threads: int | None = None,
        kernels: Kernels | None = None,
    ) -> None:
        self.graph = model.main if graph is None else model.graphs[graph]
        self._steps = [
            _Host(model, self.graph, each.ops, threads=threads, kernels=kernels)
            if each.name is None
            else _Compiled(
                partition_graph(self.graph, (op.name for op in each.ops), each.name),
                passes.stage("htp"),
                each.name,
                emulation,
            )
            for each in schedule(self.graph, partitions)
        ]

    def run(self, feeds: Mapping[str, Array], *, native: bool = False) -> dict[str, Array]:
        """Return the outputs by tensor name.

        Args:
            feeds: One array per input.  A fixed-point input accepts float values (any float type) or
                quantized values (its own integer type).
            native: Give fixed-point outputs as quantized values instead of float32.

        Raises:
            UsageError: If an input is missing, unknown, or has another shape or type.
            BackendError: If the emulation or onnxruntime fails.
        """
        given = feeds_of(self.graph, feeds)
        values = {tensor.name: _stored(tensor, feeds, given) for tensor in self.graph.inputs}
        values.update((tensor.name, _constant(tensor)) for tensor in self.graph.outputs if tensor.is_static)
        for step in self._steps:
            values.update(step.run({name: values[name] for name in step.inputs}, native=True))
        return {tensor.name: _given(tensor, values[tensor.name], native) for tensor in self.graph.outputs}


def _stored(tensor: Tensor, feeds: Mapping[str, Array], given: Mapping[str, Array]) -> Array:
    """Return the stored values of an input.

    Args:
        tensor: The input.
        feeds: The arrays of the caller.
        given: The same in the form of the CPU.
    """
    import numpy

    array = numpy.asarray(feeds[tensor.name])
    if not tensor.dtype.is_fixed:
        return given[tensor.name].astype(tensor.dtype.numpy, copy=False)
    return array if array.dtype == tensor.dtype.numpy else to_quantized(given[tensor.name], tensor)


def _given(tensor: Tensor, stored: Array, native: bool) -> Array:
    if native or tensor.encoding is None:
        return stored
    return to_float(stored, tensor.encoding, where=f"tensor {tensor.name!r}")


def _constant(tensor: Tensor) -> Array:
    return unpacked(tensor).numpy().reshape(tensor.shape)
