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
from xdlc.runtime.htp.graph_io import Port, as_known, given_results, stored_feeds
from xdlc.runtime.htp.partition_schedule import partition_graph, schedule
from xdlc.runtime.htp.worker_session import WorkerSession
from xdlc.runtime.plan import given_out, segment_of

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
        parts: Number of the parts that the cache holds of the graph; 0 if it holds the whole graph.

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
        parts = {name: graph.ops for name, graph in own.items() if graph.ops is not None}
        whole = next(iter(own), main.name)
        self.parts = len(parts)
        self.served = WorkerSession.of_cache(cache.data, timeout=timeout, name=cache.name)
        try:
            _check_soc(cache, self.served)
            self._runs: PartitionSession | _Whole
            if parts:
                for name in parts:
                    _check_graph(cache, self.served, name, None)
                self._runs = PartitionSession(model, parts, self.served, kernels=kernels)
            else:
                _check_graph(cache, self.served, whole, main)
                self._runs = _Whole(main, whole, self.served)
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
    told = read_entry(cache.entry).soc_id
    if served.soc_id != told:
        raise BackendError(
            f"is described as one for the SoC with id {told}, but was compiled for id {served.soc_id}",
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


class _Whole:
    """A graph that a cache holds as a whole, with inputs and outputs as the model has them."""

    def __init__(self, graph: Graph, name: str, served: WorkerSession) -> None:
        adapted = graph.clone()
        passes.run(adapted, passes.htp_query())
        self._name, self._served = name, served
        self._inputs = list(map(Port, map(as_known, graph.inputs), adapted.inputs))
        self._outputs = list(map(Port, map(as_known, graph.outputs), adapted.outputs))

    def run(self, feeds: Mapping[str, Array], *, native: bool) -> dict[str, Array]:
        stored = stored_feeds(self._inputs, feeds)
        results = self._served.run(stored, native=True, graph=self._name)
        place = f"graph {self._name!r} of the cache"
        return given_results(self._outputs, results, native=native, where=place)


Values = dict[str, Array]


class Emulation(Protocol):
    """What runs the graphs of a cache, as ``serving.WorkerSession`` does."""

    def run(self, feeds: Mapping[str, Array], *, native: bool, graph: str) -> dict[str, Array]:
        """Return the outputs of a graph by name."""


class _Compiled:
    """A part on the emulation."""

    def __init__(self, part: Graph, emulation: Emulation) -> None:
        self._name, self._emulation = part.name, emulation
        known = [as_known(tensor) for tensor in (*part.inputs, *part.outputs)]
        passes.run(part, passes.stage("htp"))
        ports = list(map(Port, known, (*part.inputs, *part.outputs)))
        self._inputs, self._outputs = ports[: len(part.inputs)], ports[len(part.inputs) :]

    def run(self, values: Values) -> None:
        """Add the part's results to ``values``, both stored."""
        feeds = {port.tensor.name: port.stored(values[port.tensor.name]) for port in self._inputs}
        results = self._emulation.run(feeds, native=True, graph=self._name)
        place = f"graph {self._name!r} of the cache"
        values.update(given_results(self._outputs, results, native=True, where=place))


class _Host:
    """Ops on the CPU."""

    def __init__(
        self,
        model: Model,
        graph: Graph,
        ops: Sequence[Op],
        *,
        threads: int | None,
        kernels: Kernels | None,
    ) -> None:
        given = given_out(graph, ops, (tensor.name for tensor in graph.outputs))
        self._part = segment_of(graph, ops, given)
        called = reachable(self._part, model.graphs)  # the part comes first
        whole = Model({held.name: held for held in called}, model.metadata, model.records)
        self._session = CpuSession(whole, threads=threads, kernels=kernels) if given else None

    def run(self, values: Values) -> None:
        """Add the results of the ops to ``values``, both stored."""
        if self._session is None:
            return
        feeds = {tensor.name: values[tensor.name] for tensor in self._part.inputs}
        results = self._session.run(feeds, native=True)
        for tensor in self._part.outputs:
            values[tensor.name] = results[tensor.name].astype(tensor.dtype.numpy, copy=False)


class PartitionSession:
    """A graph in parts, ready to run.

    Args:
        model: The model.
        parts: Names of the ops of each compiled part, by the part's name in the cache.
        emulation: Runs the cache.
        graph: Name of the graph; default: the main one.
        threads: Threads of one op on the CPU; default: one per core.
        kernels: Kernels of UDOs.

    Raises:
        ContainerError: If the parts do not fit the graph.
        XdlcError: What the CPU's sessions raise.
    """

    def __init__(
        self,
        model: Model,
        parts: Mapping[str, Sequence[str]],
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
            else _Compiled(partition_graph(self.graph, (op.name for op in each.ops), each.name), emulation)
            for each in schedule(self.graph, parts)
        ]

    def run(self, feeds: Mapping[str, Array], *, native: bool = False) -> dict[str, Array]:
        """Return the outputs by tensor name.

        Args:
            feeds: One array per input.  A fixed-point input takes float values (any float type) or
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
            step.run(values)
        return {tensor.name: _given(tensor, values[tensor.name], native) for tensor in self.graph.outputs}


def _stored(tensor: Tensor, feeds: Mapping[str, Array], given: Mapping[str, Array]) -> Array:
    """Return what an input stores.

    Args:
        tensor: The input.
        feeds: The arrays of the caller.
        given: The same as the CPU takes it.
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
