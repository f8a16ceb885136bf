"""Session of a model on the emulation of a SoC."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

from xdlc import passes
from xdlc.container import cache_provenance
from xdlc.container.cache_entry import read_entry
from xdlc.container.caches import Cache, caches, shares_weights
from xdlc.errors import (
    BackendError,
    ConstraintError,
    ContainerError,
    ProblemList,
    UsageError,
    XdlcError,
    each_problem,
    nearest_names,
    raise_all,
)
from xdlc.ir import Graph, Model, Op
from xdlc.opdefs.control_flow import has_control_flow, reachable
from xdlc.options import spell
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.htp.cache_verdict import PERMISSIVE, choose, refuse_to_compile
from xdlc.runtime.htp.context_binary import described
from xdlc.runtime.htp.graph_io import GraphIO, as_known, given_results, stored_feeds
from xdlc.runtime.htp.library import library_folder, unswept
from xdlc.runtime.htp.partition_schedule import partition_graph, schedule
from xdlc.runtime.htp.process import OPENING, RUNNING, Launch, WorkerSession, start
from xdlc.runtime.plan import Accelerator
from xdlc.runtime.states import with_first_values
from xdlc.runtime.steps import Step, Values
from xdlc.runtime.timeout import EMULATED, Watch, checked

if TYPE_CHECKING:
    from xdlc.runtime.udo.kernels import Kernels


Array = Any  # numpy.ndarray


Divide = Callable[[Model, str], Model]
Observe = Callable[[str, Mapping[str, Array], Mapping[str, Array]], None]


class HtpSession:
    """A model's main graph on the emulation of a SoC, for any number of runs.

    Of the model's caches the one is loaded that fits best: the SoC's own, or else the one of the latest
    architecture and the most vector memory.  If none is usable, ``notify`` receives the reason for each, and
    the model is compiled.  A child process holds what is loaded: use as a context manager, or call ``close``.

    Args:
        soc: Name of the SoC to emulate; default: the one of the first usable cache, or else sm8650.
        mode: How caches are judged: ``permissive``, ``strict`` or ``always_generate_new``.
        outputs: Names of tensors to output in addition to the graph's outputs.
        validate: Fail instead of compiling if no cache is usable.
        divide: Called with the model and the SoC's name if the HTP refuses the model, or the host has to run
            branches and loops of it; returns the model with a cache of the partitions that HTP supports.
            Default: that is an error.
        notify: Called with sentences that the user should read.
        timeout: Seconds that loading or compiling may take.
        run_timeout: Seconds that one run may take.
        loop_timeout: Seconds that each loop may take, at most 15, which is the default.
        kernels: Kernels of UDOs, which run on the CPU; the caller closes them, unless the session
            owns them.

    Attributes:
        choice: What was chosen, and the verdict on each cache.
        record: Name of the cache that runs; None if the model was compiled.
        partitions: Number of partitions on the emulation, with the rest on the CPU; 0 if all runs there.
        soc: Name of the SoC.
        graph: The graph that runs.

    Raises:
        UsageError: If the SoC, the mode or an output is not known.
        ConstraintError: If no cache is usable and ``validate`` is set, or HTP refuses an op; a ProblemList
            of them if it refuses several.
        BackendError: If the library is missing, unknown, or fails.
    """

    def __init__(
        self,
        model: Model,
        soc: str | None = None,
        *,
        mode: str = PERMISSIVE,
        outputs: Iterable[str] = (),
        validate: bool = False,
        divide: Divide | None = None,
        notify: Callable[[str], None] = lambda text: None,
        timeout: float = OPENING,
        run_timeout: float = RUNNING,
        name: str = "model",
        loop_timeout: float | None = None,
        kernels: Kernels | None = None,
        launch: Launch = start,
    ) -> None:
        library_folder()  # or each cache would fail for the want of it
        self._model = with_outputs(model, outputs)
        self.graph = self._model.main
        asked = [tensor.name for tensor in self.graph.outputs]
        self.choice = choose(model, soc, outputs=asked, mode=mode)  # by the graph that was compiled
        self.soc = self.choice.soc
        self.record: str | None = None
        self.partitions = 0
        self._options: Any = {
            "timeout": timeout,
            "loop_timeout": EMULATED if loop_timeout is None else checked(loop_timeout),
            "kernels": kernels,
            "launch": launch,
        }
        failures: list[str] = []
        runs: WorkerSession | CacheSession | None = self._of_caches(failures, notify)
        if runs is None and validate:
            raise refuse_to_compile(self.choice, failures, asked)
        if runs is None:
            reasons = [*failures, *self.choice.reasons]
            if notice := unswept():
                notify(notice)
            for reason in reasons:
                notify(f"xdlc uses no cache on {self.soc}: {reason}")
            if reasons:
                notify(f"xdlc compiles {name} for {self.soc} now")
            runs = self._compiled(name, divide, notify)
        self._runs = runs
        self._served.run_timeout = run_timeout

    def _of_caches(self, failures: list[str], notify: Callable[[str], None]) -> CacheSession | None:
        """Load the best accepted cache; add the errors of other caches to ``failures``."""
        for cache in self.choice.records:
            try:
                stored = CacheSession(self._model, cache, **self._options)
            except BackendError as error:
                failures.append(f"{error.where or cache.name}: {error.problem}")
                continue
            self.record = cache.name
            for row in self.choice.verdicts:
                if row.record == cache.name and row.unjudged:
                    doubts = "; ".join(map(str, row.unjudged))
                    notify(f"xdlc uses {cache.name} without a verdict on all rules: {doubts}")
            if failures:
                notify(f"xdlc uses {cache.name}, because better caches do not load: {'; '.join(failures)}")
            self._served, self.partitions = stored.served, stored.partitions
            return stored
        return None

    def _compiled(
        self, name: str, divide: Divide | None, notify: Callable[[str], None]
    ) -> WorkerSession | CacheSession:
        if divide is None or not has_control_flow(self.graph):
            try:
                options = {key: self._options[key] for key in ("timeout", "launch")}
                self._served = WorkerSession.of_model(self._model, self.soc, name=name, **options)
                return self._served
            except (ConstraintError, ProblemList) as error:
                if divide is None:
                    raise
                first, *others = each_problem(error)
                place = f"{first.where}: " if first.where else ""
                notify(f"HTP rejects at least {1 + len(others)} op(s), first {place}{first.problem}")
        divided = divide(self._model, self.soc)
        (cache,) = (held for held in caches(divided) if held.soc == self.soc)
        stored = CacheSession(divided, cache, **self._options)
        self._served, self.partitions = stored.served, stored.partitions
        return stored

    def __enter__(self) -> HtpSession:
        return self

    def __exit__(self, *raised: Any) -> None:
        self._served.close()

    def close(self) -> None:
        """End the child process."""
        self._served.close()

    def end(self) -> None:
        """End the child process at once; runs of other threads fail."""
        self._served.end()

    def run(self, feeds: Mapping[str, Array], *, native: bool = False) -> dict[str, Array]:
        """Return the outputs by tensor name.

        Args:
            feeds: One array per graph input, in the input's shape.  A quantized input accepts float
                values (any float type) or quantized values (its own type).
            native: Give quantized outputs as quantized values instead of float32.

        Raises:
            UsageError: If an array is missing or does not fit.
            BackendError: If the library fails, or the run takes too long; the session is over then.
        """
        states = self._model.metadata.get("states", {})
        results = self._runs.run(with_first_values(self.graph, states, feeds), native=native)
        return {tensor.name: results[tensor.name] for tensor in self.graph.outputs}


class BinarySession:
    """A graph of a cache whose model is missing, on the emulation of a SoC.

    Use as a context manager.

    Args:
        model: A model without graphs that holds caches, as of a context binary.
        soc: Name of the SoC to emulate; default: the one that the cache was made for.
        graph: Name of the graph; default: the first.

    Attributes:
        graph: Inputs and outputs of the graph, without ops.
        soc: Name of the SoC.
        record: Name of the cache.
        partitions: 0, as for a session of a model.

    Raises:
        UsageError: If the model holds no cache, or there is no such graph.
        ContainerError: If the description of the cache is damaged.
        BackendError: If the library is missing, or does not load the cache.
    """

    partitions = 0

    def __init__(
        self, model: Model, soc: str | None = None, *, graph: str | None = None, launch: Launch = start
    ) -> None:
        cache, graphs = described(model, soc)
        self.graph = Model(graphs).graph_named(graph)
        if cache.data is None or shares_weights(model, cache):
            raise BackendError(
                "the emulation cannot load caches that share their weights",
                where=cache.name,
                fix="run the cache on a device, or emulate the DLC without shared weights",
            )
        self.record, self.soc = cache.name, soc or cache.soc
        self._served = WorkerSession.of_cache(cache.data, soc=soc, name=cache.name, launch=launch)

    def __enter__(self) -> BinarySession:
        return self

    def __exit__(self, *raised: Any) -> None:
        self._served.close()

    def end(self) -> None:
        """End the child process at once, see ``HtpSession.end``."""
        self._served.end()

    def run(self, feeds: Mapping[str, Array], *, native: bool = False) -> dict[str, Array]:
        """Return the outputs by name, see ``HtpSession.run``."""
        return self._served.run(feeds, native=native, graph=self.graph.name)


def with_outputs(model: Model, names: Iterable[str]) -> Model:
    """Return a model with more outputs of its main graph, or the same model.

    Raises:
        UsageError: If the main graph computes no such tensor; a ProblemList of all of them.
    """
    graph = model.main
    problems: list[XdlcError] = []
    new = [name for name in dict.fromkeys(names) if all(name != output.name for output in graph.outputs)]
    for name in new:
        tensor = graph.tensors.get(name)
        if tensor is None or tensor.producer is None:
            what = "has no tensor" if tensor is None else "does not compute the tensor"
            computed = [entry.name for entry in graph.tensors.values() if entry.producer is not None]
            fix = nearest_names(name, computed) or "use the name of a tensor that an op computes"
            problems.append(UsageError(f"{what} {name!r}", where=f"graph {graph.name!r}", fix=fix))
    raise_all(problems)
    if not new:
        return model
    copy = model.clone()
    for name in new:
        copy.main.add_output(copy.main.tensors[name])
    return copy


class CacheSession:
    """A cache, loaded in a child process.

    Args:
        timeout: Seconds that loading may take.
        loop_timeout: Seconds that each loop may take, at most 15; default: 2.
        observe: Called after each run of a partition with its name, inputs and results.
        serve: Returns a child process with the graphs of the cache; default: it loads the cache.

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
        launch: Launch = start,
        observe: Observe | None = None,
        serve: Callable[[], WorkerSession] | None = None,
    ) -> None:
        if cache.data is None or (serve is None and shares_weights(model, cache)):
            raise BackendError("the emulation cannot load caches that share their weights", where=cache.name)
        main = model.main
        facts = _facts(model).get(cache.name)
        whole, partitions = _held(facts, main.name, {graph.name for graph in reachable(main, model.graphs)})
        self.partitions = sum(map(len, partitions.values()))
        if serve is None:
            serve = partial(
                WorkerSession.of_cache, cache.data, timeout=timeout, name=cache.name, launch=launch
            )
        self.served = serve()
        try:
            _check_soc(cache, self.served)
            self._runs: CpuSession | _Compiled
            if partitions:
                for name in chain(*partitions.values()):
                    _check_graph(cache, self.served, name, None)
                emulated = emulated_partitions(model, partitions, self.served, observe)
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
            f"the DLC states SoC id {stated} for the cache, but the cache was compiled for {served.soc_id}",
            where=cache.name,
            fix=f"prepare the model again, with {spell('overwrite_cache_records', True)}",
        )


def _check_graph(cache: Cache, served: WorkerSession, name: str, graph: Graph | None) -> None:
    sides = served.graphs.get(name)
    if sides is None:
        problem = f"the cache has no graph {name!r}, only {', '.join(map(repr, served.graphs)) or 'none'}"
    elif graph is not None and list(map(sorted, sides)) != [
        sorted(tensor.name for tensor in side) for side in (graph.inputs, graph.outputs)
    ]:
        problem = f"the cache has graph {name!r} from {', '.join(sides[0])} to {', '.join(sides[1])}"
    else:
        return
    raise BackendError(
        f"{problem}, unlike its description",
        where=cache.name,
        fix=f"prepare the model again, with {spell('overwrite_cache_records', True)}",
    )


class Emulation(Protocol):
    """Runs the graphs of a cache, like ``WorkerSession``."""

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
    name: str
    observe: Observe | None

    def run(self, values: Values, watch: Watch) -> None:
        """Run the partition, which cannot be stopped; loops around it wait."""
        watch.check()
        entering = {name: values[name] for name in self.compiled.inputs}
        results = self.compiled.run(entering, native=False)
        if self.observe is not None:
            self.observe(self.name, entering, results)
        for name, array in results.items():
            values[name] = array.astype("float32") if array.dtype.name == "bfloat16" else array
        watch.check()


def emulated_partitions(
    model: Model,
    partitions: Mapping[str, Mapping[str, Sequence[str]]],
    emulation: Emulation,
    observe: Observe | None = None,
) -> Accelerator:
    """Return the function that divides graphs into emulated steps and ops of the CPU.

    It raises a ContainerError if the partitions do not fit a graph.

    Args:
        partitions: Names of the ops of each compiled partition, by the graph's name and the partition's name
            in the cache.
        observe: Called after each run of a partition with its name, inputs and results.
    """

    def step(graph: str, name: str) -> _Step:
        partition = partition_graph(model.graphs[graph], partitions[graph][name], name)
        return _Step(_Compiled(partition, passes.stage("htp"), name, emulation), name, observe)

    def scheduled(graph: Graph) -> list[tuple[Step | None, Sequence[Op]]]:
        return [
            (None if name is None else step(graph.name, name), ops)
            for name, ops in schedule(graph, partitions.get(graph.name, {}))
        ]

    return scheduled
