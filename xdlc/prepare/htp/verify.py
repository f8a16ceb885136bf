"""Verification of caches: results on the emulation against those of the host.

The outputs of the network are a screen: one that is nearer than rounding explains is right.  Else each op
is judged alone, on the values that the emulation has computed for its inputs, and only an op that is wrong
alone is an error: rounding that adds up over a network is a figure.  What the budget does not cover is
verified in parts, ops that the compiler treats apart first.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from xdlc.compare.engines import HostEngine
from xdlc.compare.figures import Difference
from xdlc.container import cache_provenance
from xdlc.container.cache_entry import read_entry
from xdlc.container.cache_provenance import CacheFacts, GraphFacts, OutputFigures, Verification
from xdlc.container.caches import Cache, remove_caches, shares_weights
from xdlc.errors import BackendError, UsageError, XdlcError
from xdlc.ir import Graph, Model, ScaleOffset, Tensor
from xdlc.ir.data import Array
from xdlc.ir.graph import is_udo
from xdlc.opdefs.control_flow import has_control_flow, outer_graphs, reachable
from xdlc.opdefs.traits import traits
from xdlc.options import spell
from xdlc.prepare.htp.cache_records import held_caches, options_of_facts
from xdlc.prepare.htp.compile_jobs import Site
from xdlc.prepare.htp.op_judgement import (
    USELESS,
    Feeds,
    Ran,
    WrongCacheError,
    judge,
    judge_parts,
    seconds,
    wrong,
)
from xdlc.runtime.htp import CompileOptions
from xdlc.runtime.htp.partition_schedule import partition_graph
from xdlc.runtime.htp.process import EndedError, Launch, WorkerSession, start
from xdlc.runtime.htp.session import CacheSession
from xdlc.runtime.states import with_first_values
from xdlc.runtime.timeout import EMULATED
from xdlc.worker.process import ChildDiedError
from xdlc.worker.temporary import TemporaryFolder

_FLOATS = 3.0
"""Largest seeded number of a float input."""
_MOST = 1 << 27
"""Most values of all inputs."""


class NoInputError(UsageError):
    """Inputs that cannot be made, or a network that cannot be verified."""


def seeded(graph: Graph, states: Mapping[str, object] = {}) -> dict[str, Array]:
    """Return inputs of a graph that depend on names and shapes alone.

    Raises:
        NoInputError: If an input has dynamic dimensions, or the inputs are too large.
    """
    count = sum(tensor.size for tensor in graph.inputs)
    if count > _MOST:
        raise NoInputError(f"its inputs have {count:,} values, more than {_MOST:,}")
    feeds: dict[str, Array] = {}
    for tensor in graph.inputs:
        if tensor.name in states:
            continue
        if tensor.dynamic_axes:
            raise NoInputError(f"input {tensor.name!r} has dynamic dimensions")
        rng = np.random.default_rng(crc32(tensor.name.encode()))
        if isinstance(tensor.encoding, ScaleOffset) and tensor.dtype.is_fixed:
            scale, bits = tensor.encoding.scale, 8 * tensor.dtype.numpy.itemsize
            first = -(1 << bits - 1) if tensor.dtype.numpy.kind == "i" else 0
            low, high = ((first + add + tensor.encoding.offset) * scale for add in (0, (1 << bits) - 1))
            values = rng.normal((low + high) / 2, (high - low) / 6, tensor.shape)
            feeds[tensor.name] = np.clip(values, low, high).astype(np.float32)
        elif tensor.dtype.is_float:
            values = np.clip(rng.standard_normal(tensor.shape), -_FLOATS, _FLOATS)
            feeds[tensor.name] = values.astype(np.float32).astype(tensor.dtype.numpy)
        else:
            most = min(_bounds(graph, tensor), default=2)
            feeds[tensor.name] = rng.integers(0, max(most, 1), tensor.shape).astype(tensor.dtype.numpy)
    return feeds


def _bounds(graph: Graph, tensor: Tensor) -> Iterator[int]:
    """Yield how many entries each table has that integers are indices of."""
    reached, waiting = {tensor}, [tensor]
    while waiting:
        source = waiting.pop()
        for op in graph.consumers(source):
            table = op.inputs[0]
            if traits(op).selects and len(op.inputs) > 1 and op.inputs[1] is source and table is not None:
                if op.type == "Gather":
                    yield table.shape[int(op.param("axis", 0))]
                else:
                    yield min(table.shape, default=1)
            elif traits(op).copies or op.type == "Cast":
                waiting += [result for result in op.outputs if result not in reached]
                reached.update(op.outputs)


Serve = Callable[[], WorkerSession]
"""Returns a child process with graphs that it compiled, which stays open for the next run."""
WHOLE = 0.7
"""Share of the budget that a run of the whole network may take; parts have the rest."""


@dataclass(frozen=True, slots=True)
class Verifying:
    """Inputs and limits of verifications.

    Attributes:
        sample: Arrays by input of the main graph; None: seeded inputs.
        budget: Seconds that a cache may take.
        served: Children that have the graphs of caches as they compiled them, by SoC.
    """

    sample: Feeds | None = None
    budget: float = 30.0
    launch: Launch = start
    served: Mapping[str, WorkerSession] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verified:
    """Results of verifying caches.

    Attributes:
        notices: Caches that are not verified, or in part, and why.
        failures: The errors of wrong caches by SoC.
    """

    notices: Sequence[str] = ()
    failures: Mapping[str, XdlcError] = field(default_factory=dict)


def verify_caches(
    site: Site, socs: Sequence[str], verifying: Verifying, *, name: str, timeout: float
) -> Verified:
    """Verify the caches of SoCs; store the results in the model of the site.

    Caches that were verified whole are not run again, except on a sample.  Wrong caches that xdlc compiled
    are removed.

    Args:
        timeout: Seconds that compiling parts of the model may take.
    """
    model = site.model
    existing, facts = held_caches(model), cache_provenance.read(model)
    todo = [soc for soc in socs if not _is_proven(model, existing[soc].facts, verifying)]
    notices: dict[str, str] = {}
    failures: dict[str, XdlcError] = {}
    for soc, result in _results(site, todo, verifying, name, timeout):
        record, own_facts = existing[soc].cache.name, existing[soc].facts
        if isinstance(result, NoInputError):
            notices[soc] = f"{soc}: xdlc did not verify {record}: {result.problem}"
        elif isinstance(result, WrongCacheError):
            failures[soc] = result
        elif isinstance(result, XdlcError):  # the host does not run it, or not with this input
            notices[soc] = (
                f"{soc}: xdlc did not verify {record}: {result.where or 'running it'}: {result.problem}"
            )
        elif isinstance(result, Exception):
            raise result
        else:
            notice = _notice(result)
            if notice is not None:
                notices[soc] = f"{soc}: {record}: {notice}"
            if own_facts is not None:
                facts[record] = replace(own_facts, verified=result)
    cache_provenance.write(model, facts)
    for soc in failures:
        if existing[soc].facts is not None:
            remove_caches(model, soc)
    ordered = [soc for soc in todo if soc in notices]
    return Verified(
        [notices[soc] for soc in ordered], {soc: failures[soc] for soc in todo if soc in failures}
    )


def _results(
    site: Site, socs: Sequence[str], verifying: Verifying, name: str, timeout: float
) -> Iterator[tuple[str, Any]]:
    """Yield SoCs, each with the verification of its cache or an error."""
    with ExitStack() as stack:
        if site.workers.are_processes:
            path = Path(stack.enter_context(TemporaryFolder())) / "model.dlc"
            site.model.save(path, crc=False)
            site = replace(site, path=path)
        tasks = {soc: site.task(_verify_cache, soc, verifying, name=name, timeout=timeout) for soc in socs}
        yield from site.workers.each(tasks, name)


def _verify_cache(
    model: Model, _: Path, soc: str, verifying: Verifying, *, name: str, timeout: float, launch: Launch
) -> Verification:
    own = held_caches(model)[soc]
    whole = {graph: GraphFacts("", graph) for graph in model.graphs}
    sources = whole if own.facts is None else own.facts.graphs
    options = None if own.facts is None else options_of_facts(own.facts)
    verifying = replace(verifying, launch=launch)
    return verify(model, own.cache, sources, verifying, name=name, timeout=timeout, options=options)


def _is_proven(model: Model, facts: CacheFacts | None, verifying: Verifying) -> bool:
    """Return whether verifying a cache could add nothing to its record.

    Records of older versions have no outputs of further graphs.
    """
    if facts is None or facts.verified is None or verifying.sample is not None:
        return False
    verified = facts.verified
    further = [graph for graph in outer_graphs(model) if graph is not model.main]
    return {verified.share, verified.judged} <= {1.0, None} and all(
        any(name.startswith(_label(graph)) for name in verified.outputs)
        for graph in further
        if _parts_of(graph, model, facts.graphs)
    )


def _label(graph: Graph) -> str:
    """Return what is in front of the outputs of a further graph."""
    return f"{graph.name}: "


def _parts_of(graph: Graph, model: Model, sources: Mapping[str, GraphFacts]) -> list[str]:
    """Return the graphs of a cache that are of a graph, or of one that it calls."""
    called = {inner.name for inner in reachable(graph, model.graphs)}
    return [number for number, part in sources.items() if part.source in called]


def _notice(result: Verification) -> str | None:
    """Return what a user should know about a verification, or None."""
    poor = {name: figures.sqnr for name, figures in result.outputs.items() if figures.sqnr < USELESS}
    if result.judged is not None and result.judged < 1:
        return (
            f"rounding does not explain an output, and xdlc compared only {result.judged:.0%} of the ops "
            f"one by one; a higher {spell('verify_budget')} compares more"
        )
    if poor:
        worst = min(poor, key=lambda name: poor[name])
        return (
            f"output {worst!r} is {poor[worst]:.1f} dB compared with the CPU's output, but no op is wrong by "
            f"itself; {spell('verify', 'LIST')} verifies with your inputs"
        )
    return f"xdlc verified {result.share:.0%} of the ops" if result.share < 1 else None


def verify(
    model: Model,
    cache: Cache,
    sources: Mapping[str, GraphFacts],
    verifying: Verifying,
    *,
    name: str,
    timeout: float,
    options: CompileOptions | None = None,
) -> Verification:
    """Run a cache and the network that it is of; return their difference.

    Each graph that callers run has its share of the budget; the sample is for the main one.  A cache whose
    graphs share weights is not loaded: its graphs run in the context that compiled it, or they are compiled
    once more.

    Args:
        sources: Sources of the graphs of the cache, by their name in it.
        timeout: Seconds that compiling parts may take.
        options: Options that the cache was compiled with, if they are known.

    Raises:
        NoInputError: If no input can be made, or neither side runs the network.
        BackendError: If an op of the cache is wrong.
    """
    _check_runs(model, cache, options)
    graphs = {
        number: source if part.ops is None else partition_graph(source, part.ops, number)
        for number, part in sources.items()
        for source in [model.graphs[part.source]]
    }
    outer = outer_graphs(model)
    results: list[tuple[int, Verification]] = []
    with ExitStack() as stack:
        serve = None
        if options is not None and options.share_graph_weights:
            serve = _compiling(stack, graphs, cache.soc, options, f"{name}: {cache.soc}", timeout, verifying)
        for graph in outer:
            own = {number: graphs[number] for number in _parts_of(graph, model, sources)}
            is_main = graph is model.main
            limits = replace(
                verifying,
                sample=verifying.sample if is_main else None,
                budget=verifying.budget / len(outer),
            )
            place = f"{name}: {cache.soc}" if is_main else f"{name}: {cache.soc}: graph {graph.name!r}"
            if own:
                alone = model.with_main(graph.name)
                result = _of_graph(alone, cache, own, sources, limits, serve, place, timeout)
                results.append((max(sum(map(len, own.values())), 1), result))
    if not results:
        raise NoInputError("the cache has no graph of the model")
    return _merged(results, compiled=serve is not None)


def _compiling(
    stack: ExitStack,
    graphs: Mapping[str, Graph],
    soc: str,
    options: CompileOptions,
    place: str,
    timeout: float,
    verifying: Verifying,
) -> Serve:
    """Return a function that compiles graphs when it is first called."""

    @functools.cache
    def serve() -> WorkerSession:
        served = verifying.served.get(soc) or WorkerSession.of_graphs(
            Model(dict(graphs)), soc, options, timeout=timeout, name=place, launch=verifying.launch
        )
        return stack.enter_context(served)

    return serve


def _merged(results: Sequence[tuple[int, Verification]], *, compiled: bool) -> Verification:
    """Return the verification of all graphs of a cache.

    Args:
        results: Number of ops of each graph that callers run, and its verification.
        compiled: Whether the context that compiled the graphs ran.
    """
    total = sum(count for count, _ in results)
    origins = {result.inputs for _, result in results}
    judged = [(count, result.judged) for count, result in results if result.judged is not None]
    return replace(
        results[0][1],
        inputs=max(origins),  # seeded, if any is
        share=round(sum(count * result.share for count, result in results) / total, 4),
        outputs={name: figures for _, result in results for name, figures in result.outputs.items()},
        judged=round(sum(count * share for count, share in judged) / sum(count for count, _ in judged), 4)
        if judged
        else None,
        compiled=compiled,
    )


def _of_graph(
    model: Model,
    cache: Cache,
    graphs: Mapping[str, Graph],
    sources: Mapping[str, GraphFacts],
    verifying: Verifying,
    serve: Serve | None,
    place: str,
    timeout: float,
) -> Verification:
    """Run the main graph of a model and its part of a cache; return their difference.

    Args:
        graphs: The graphs of the cache that are of the main graph, by their name in it.
        timeout: Seconds that compiling parts may take.
    """
    states: Mapping[str, Any] = model.metadata.get("states", {})
    sample = seeded(model.main, states) if verifying.sample is None else verifying.sample
    feeds = with_first_values(model.main, states, sample)
    count = max(sum(map(len, graphs.values())), 1)
    until = time.monotonic() + verifying.budget
    run = _Run(model, cache, feeds, place, verifying.launch, serve)
    origin = "seeded" if verifying.sample is None else "samples"
    result = Verification(cache.soc, read_entry(cache.entry).build or "", origin, 0.0, {})
    main = [
        graph
        for number, graph in graphs.items()
        if sources[number].source == model.main.name and not has_control_flow(graph)
    ]
    longest = WHOLE * verifying.budget
    if sum(map(seconds, main)) <= longest and (whole := run.whole(longest)) is not None:
        label = "" if place.endswith(cache.soc) else _label(model.main)
        figures = {f"{label}{tensor.name}": _rounded(error) for tensor, error in whole.differences().items()}
        ran = sum(len(graphs[number]) for number in run.observed) or count
        judged = _judged(run, whole, graphs, until, timeout)
        return replace(result, share=round(ran / count, 4), outputs=figures, judged=judged)
    ran = sum(judge_parts(run.alone(graph), until, timeout) for graph in main)
    return replace(result, share=round(ran / count, 4))


def _judged(run: _Run, whole: Ran, graphs: Mapping[str, Graph], until: float, timeout: float) -> float | None:
    """Compare the ops of a run; return the share, None if rounding explains all."""
    parts = [whole]
    if run.observed and not whole.is_near():
        parts = [run.partition(graphs[name], name) for name in run.observed]
    shares = [(judge(part, until, timeout), len(part.model.main)) for part in parts]
    counts = [(share * count, count) for share, count in shares if share is not None]
    return round(sum(ops for ops, _ in counts) / sum(count for _, count in counts), 4) if counts else None


def _check_runs(model: Model, cache: Cache, options: CompileOptions | None) -> None:
    """Refuse models that cannot run both on the host and the emulation."""
    is_compiled = options is not None and options.share_graph_weights
    if cache.data is None or (not is_compiled and shares_weights(model, cache)):
        raise NoInputError("the emulation cannot load caches that share their weights")
    for graph in model.graphs.values():
        if any(is_udo(op) for op in graph.ops):
            raise NoInputError("it has user-defined operations")
        if any(op.type.startswith("Random") for op in graph.ops):
            raise NoInputError("it draws random numbers")


class _Run:
    """Runs of a cache and of its partitions, on the emulation and on the host.

    Attributes:
        observed: Inputs and results of the last run of each partition on the emulation, by its name.
    """

    def __init__(
        self, model: Model, cache: Cache, feeds: Feeds, place: str, launch: Launch, serve: Serve | None
    ) -> None:
        self._model, self._cache, self._feeds = model, cache, feeds
        self._place, self._launch, self._serve = place, launch, serve
        self._seconds = 0.0
        self.observed: dict[str, tuple[Feeds, Feeds]] = {}

    def whole(self, limit: float) -> Ran | None:
        """Run the cache, or return None if the emulation lacks time or memory.

        Args:
            limit: Seconds that loading may take, and running.
        """
        names = [tensor.name for tensor in self._model.main.outputs]
        start = time.monotonic()
        host = HostEngine(self._model, until=start + limit)
        with ThreadPoolExecutor(1) as pool:  # the host, while the emulation starts
            running = pool.submit(host.values, self._feeds, names)
            try:
                results = self._emulated(limit)
                expected = running.result()
            except BackendError as error:
                lacks = isinstance(error, ChildDiedError) and (error.is_late or error.is_killed)
                if lacks or isinstance(error, EndedError) or time.monotonic() > start + limit:
                    return None
                running.result()  # an error of the host comes first
                if has_control_flow(self._model.main):  # the host's loop waits, and has a time-out
                    raise
                raise wrong(f"the emulation does not run the cache: {error.problem}", self._place) from error
        self._seconds = time.monotonic() - start
        return self._ran(self._model, self._feeds, expected, results)

    def _emulated(self, limit: float) -> Feeds:
        def observe(name: str, entering: Feeds, results: Feeds) -> None:
            self.observed[name] = (dict(entering), results)

        session = CacheSession(
            self._model,
            self._cache,
            timeout=limit,
            loop_timeout=EMULATED,
            launch=self._launch,
            observe=observe,
            serve=self._serve,
        )
        session.served.run_timeout = limit
        try:
            return session.run(self._feeds, native=False)
        finally:
            if self._serve is None:
                session.served.close()

    def partition(self, graph: Graph, name: str) -> Ran:
        """Return the last run of a partition, with what the host computes of its inputs."""
        entering, results = self.observed[name]
        alone = Model({graph.name: graph}, self._model.metadata)
        expected = HostEngine(alone).values(entering, [tensor.name for tensor in graph.outputs])
        return self._ran(alone, entering, expected, results)

    def alone(self, graph: Graph) -> Ran:
        """Return a graph that did not run, with inputs that the host computes."""
        needed = [tensor.name for tensor in graph.inputs if tensor.name not in self._feeds]
        values = HostEngine(self._model).values(self._feeds, needed) if needed else {}
        entering = {
            tensor.name: self._feeds[tensor.name] if tensor.name in self._feeds else values[tensor.name]
            for tensor in graph.inputs
        }
        return self._ran(Model({graph.name: graph}), entering, {}, {})

    def _ran(self, model: Model, feeds: Feeds, expected: Feeds, results: Feeds) -> Ran:
        soc = self._cache.soc
        return Ran(model, soc, feeds, expected, results, self._seconds, self._place, self._launch)


def _rounded(error: Difference) -> OutputFigures:
    figures = error.figures()
    return OutputFigures(round(figures.db, 1), float(f"{figures.largest:.3g}"))
