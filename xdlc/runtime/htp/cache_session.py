"""A model's main graph out of one of its caches, on the emulation: as a whole, or in parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from xdlc import passes
from xdlc.container import cache_provenance
from xdlc.container.cache_entry import read_entry
from xdlc.container.caches import Cache, shared_weights
from xdlc.errors import BackendError, ContainerError
from xdlc.ir import Graph, Model
from xdlc.runtime.htp.graph_io import Port, as_known, given_results, stored_feeds
from xdlc.runtime.htp.partition_session import PartitionSession
from xdlc.runtime.htp.worker_session import WorkerSession

if TYPE_CHECKING:
    from xdlc.runtime.udo.kernels import Kernels

Array = Any  # numpy.ndarray


class CacheSession:
    """A cache, loaded in a child process.

    Args:
        model: The model.
        cache: The cache, which the verdict finds usable.
        timeout: Seconds that loading may take.
        kernels: Kernels of users' ops.

    Attributes:
        served: The child process; close it in the end.
        parts: Number of the parts that the cache holds of the graph; 0 if it holds the whole graph.

    Raises:
        BackendError: If the library does not load it, or it holds something else than its description says.
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
    except ContainerError:  # the verdict has told of it
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
        f"{problem}, which is not what its description says",
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
