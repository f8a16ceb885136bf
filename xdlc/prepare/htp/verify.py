"""Verification of caches: results on the emulation against those of the host.

The outputs of the network are a screen: one that is nearer than rounding explains is right.  Else each op
is judged alone, on the values that the emulation has computed for its inputs, and only an op that is wrong
alone is an error: rounding that adds up over a network is a figure.  What the budget does not cover is
verified in parts, ops that the compiler treats apart first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from xdlc import passes
from xdlc.compare.engines import HostEngine, HtpEngine, computed
from xdlc.compare.figures import Difference
from xdlc.compare.first_wrong import Segment, apart, compare, first_wrong, grouped, segments, unrounded
from xdlc.container import cache_provenance
from xdlc.container.cache_entry import read_entry
from xdlc.container.cache_provenance import CacheFacts, GraphFacts, OutputFigures, Verification
from xdlc.container.caches import Cache, remove_caches, shared_weights
from xdlc.errors import BackendError, ConstraintError, ProblemList, XdlcError
from xdlc.ir import (
    AxisScaleOffset,
    BlockScaleOffset,
    BlockwiseExpansion,
    Graph,
    Model,
    Op,
    ScaleOffset,
    Tensor,
)
from xdlc.ir.data import Array
from xdlc.ir.graph import is_udo
from xdlc.opdefs.control_flow import has_control_flow
from xdlc.opdefs.traits import macs
from xdlc.options import spell
from xdlc.prepare.htp.cache_records import held_caches
from xdlc.prepare.htp.compile_jobs import each_of
from xdlc.prepare.htp.seeded_inputs import NoInputError, seeded
from xdlc.runtime.htp.partition_schedule import partition_graph
from xdlc.runtime.htp.session import CacheSession, HtpSession
from xdlc.runtime.states import with_first_values
from xdlc.worker.process import ChildDiedError

MACS, VALUES = 1.5e9, 3e7
"""Multiply-accumulates, and values of results and weights, that the emulation computes in a second.

Measured with networks of 0.35 to 55 G: 2.6e9 and 5.5e7 on an idle machine.
"""
NEAR = 34.0
"""SQNR in dB of floats that float16 explains, a relative error of 2e-2."""
STEPS = 1.5
"""Steps of an encoding that right results are off, as a root of the mean square."""
EQUAL = 0.99
"""Least share of equal integers."""
USELESS = 10.0
"""SQNR in dB below which an output is of no use, whatever the reason."""
WHOLE = 0.7
"""Share of the budget that a run of the whole network may take; parts have the rest."""
CHUNK = 12
"""Parts that are compiled at a time: one that does not compile drops the others."""
APART = 15.0
"""Difference in dB of an output between a cache and the same ops one by one that only a fault explains."""
HIGHEST = 65504.0
"""Largest number of float16."""

Feeds = Mapping[str, Array]


class WrongCacheError(BackendError):
    """A cache that computes other values than the host."""


@dataclass(frozen=True, slots=True)
class Verifying:
    """Inputs and limits of verifications.

    Attributes:
        sample: Arrays by input of the main graph; None: seeded inputs.
        budget: Seconds that a cache may take.
    """

    sample: Feeds | None = None
    budget: float = 30.0


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
    model: Model, socs: Sequence[str], verifying: Verifying, *, name: str, timeout: float, jobs: int
) -> Verified:
    """Verify the caches of SoCs; store the results in the model.

    Caches that were verified whole are not run again, except on a sample.  Wrong caches that xdlc compiled
    are removed.

    Args:
        name: What messages call the model.
        timeout: Seconds that compiling parts of the model may take.
        jobs: Number of caches to verify at a time.
    """
    existing, facts = held_caches(model), cache_provenance.read(model)
    todo = [soc for soc in socs if not _is_proven(existing[soc].facts, verifying)]
    whole = [GraphFacts("", graph) for graph in model.graphs]

    def work(soc: str) -> Verification:
        own = existing[soc]
        sources = whole if own.facts is None else list(own.facts.graphs.values())
        return verify(model, own.cache, sources, verifying, name=name, timeout=timeout)

    notices: dict[str, str] = {}
    failures: dict[str, XdlcError] = {}
    results = each_of(todo, work, jobs=jobs, started=lambda _soc: None, give_up=lambda: None)
    for soc, result in results:
        record, own_facts = existing[soc].cache.name, existing[soc].facts
        if isinstance(result, NoInputError):
            notices[soc] = f"{soc}: {record} is not verified: {result.problem}"
        elif isinstance(result, WrongCacheError):
            failures[soc] = result
        elif isinstance(result, XdlcError):  # the host does not run it, or not with this input
            notices[soc] = (
                f"{soc}: {record} is not verified: {result.where or 'running it'}: {result.problem}"
            )
        elif isinstance(result, Exception):
            raise result
        else:
            poor = {name: figures.sqnr for name, figures in result.outputs.items() if figures.sqnr < USELESS}
            if poor:
                worst = min(poor, key=lambda name: poor[name])
                notices[soc] = (
                    f"{soc}: output {worst!r} of {record} is at {poor[worst]:.1f} dB from the host's, though "
                    f"no op is wrong alone; {spell('verify', 'LIST')} verifies with your inputs"
                )
            elif result.share < 1:
                notices[soc] = f"{soc}: {result.share:.0%} of the ops of {record} are verified"
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


def _is_proven(facts: CacheFacts | None, verifying: Verifying) -> bool:
    """Return whether verifying a cache could add nothing to its record."""
    verified = None if facts is None else facts.verified
    return verified is not None and verified.share == 1 and verifying.sample is None


def verify(
    model: Model,
    cache: Cache,
    sources: Sequence[GraphFacts],
    verifying: Verifying,
    *,
    name: str,
    timeout: float,
) -> Verification:
    """Run a cache and the network that it is of; return their difference.

    Args:
        model: The model that has the cache.
        sources: Sources of the graphs of the cache.
        name: What messages call the model.
        timeout: Seconds that compiling parts may take.

    Raises:
        NoInputError: If no input can be made, or neither side runs the network.
        BackendError: If an op of the cache is wrong.
    """
    _check_runs(model, cache)
    feeds = seeded(model.main, _states(model)) if verifying.sample is None else dict(verifying.sample)
    graphs = {
        number: source if part.ops is None else partition_graph(source, part.ops, part.source)
        for number, part in enumerate(sources)
        for source in [model.graphs[part.source]]
    }
    count = sum(len(graph) for graph in graphs.values())
    entry, place = read_entry(cache.entry), f"{name}: {cache.soc}"
    result = Verification(
        cache.soc, entry.build or "", "seeded" if verifying.sample is None else "samples", 0.0, {}
    )
    until = time.monotonic() + verifying.budget
    main = [
        graph
        for number, graph in graphs.items()
        if sources[number].source == model.main.name and not has_control_flow(graph)
    ]
    longest = WHOLE * verifying.budget
    if sum(map(_seconds, main)) <= longest:
        differences = _screen(model, cache, feeds, longest, place)
        if differences is not None:
            for graph in main if not all(map(_is_near, *differences)) else ():
                _judge(model, graph, cache.soc, feeds, differences[1], place)
            figures = {tensor.name: _rounded(each) for tensor, each in zip(*differences, strict=True)}
            ran = sum(map(len, main)) if len(main) < len(graphs) else count
            return replace(result, share=round(ran / max(count, 1), 4), outputs=figures)
    ran = sum(_parts(model, graph, cache.soc, feeds, until, place, timeout) for graph in main)
    return replace(result, share=round(ran / max(count, 1), 4))


def _check_runs(model: Model, cache: Cache) -> None:
    """Refuse models that cannot run both on the host and the emulation."""
    if cache.data is None or shared_weights(model, cache.name):
        raise NoInputError("the emulation loads no caches that share their weights")
    for graph in model.graphs.values():
        if any(is_udo(op) for op in graph.ops):
            raise NoInputError("it has user-defined operations")
        if any(op.type.startswith("Random") for op in graph.ops):
            raise NoInputError("it draws random numbers")


def _seconds(graph: Graph) -> float:
    """Return about how long the emulation takes for a run."""
    return sum(map(_cost, graph.ops))


def _cost(op: Op) -> float:
    weights = sum(tensor.size for tensor in op.inputs if tensor is not None and tensor.is_static)
    return macs(op) / MACS + (weights + sum(tensor.size for tensor in op.outputs)) / VALUES


def _screen(
    model: Model, cache: Cache, feeds: Feeds, budget: float, place: str
) -> tuple[Sequence[Tensor], Sequence[Difference]] | None:
    """Return the differences of the outputs, or None if the emulation takes too long.

    Raises:
        BackendError: If the emulation ends.
    """
    outputs = model.main.outputs
    expected = HostEngine(model).values(feeds, [tensor.name for tensor in outputs])
    session = None
    try:
        session = CacheSession(model, cache, timeout=600.0)
        session.served.run_timeout = budget
        results = session.run(with_first_values(model.main, _states(model), feeds), native=False)
    except BackendError as error:
        if isinstance(error, ChildDiedError) and error.is_late:
            return None
        if has_control_flow(model.main):  # a loop of the host, which waits for the emulation, has a time-out
            raise
        raise _wrong(f"the emulation does not run the cache: {error.problem}", place) from error
    finally:
        if session is not None:
            session.served.close()
    return outputs, [_difference(expected[out.name], results[out.name]) for out in outputs]


def _difference(expected: Array, result: Array) -> Difference:
    """Return the difference of two arrays where float16 holds the first."""
    import numpy as np

    first, second = (np.asarray(each, np.float32).reshape(-1) for each in (expected, result))
    counted = ~(np.abs(first) >= HIGHEST)
    difference = Difference()
    difference.add(first[counted], second[counted])
    return difference


def _rounded(difference: Difference) -> OutputFigures:
    figures = difference.figures()
    return OutputFigures(round(figures.db, 1), float(f"{figures.largest:.3g}"))


def _is_near(tensor: Tensor, difference: Difference) -> bool:
    """Return whether rounding explains the difference of a tensor."""
    figures = difference.figures()
    if figures.nans or figures.infs:
        return False
    if figures.db >= NEAR or not difference.count:
        return True
    if not isinstance(tensor.encoding, ScaleOffset | AxisScaleOffset):
        return False
    scale = tensor.encoding.scale if isinstance(tensor.encoding, ScaleOffset) else max(tensor.encoding.scales)
    noise = difference.power / 10.0 ** (figures.db / 10.0) / difference.count
    return bool(noise <= (STEPS * scale) ** 2)


def _judge(
    model: Model, graph: Graph, soc: str, feeds: Feeds, outputs: Sequence[Difference], place: str
) -> None:
    """Raise an error if an op of a graph is wrong alone, or several are when fused.

    Args:
        graph: The compiled graph, or partition.
        feeds: Inputs of the model.
        outputs: The differences of the outputs of the model.
    """
    own = _entering(model, graph, feeds)
    alone = Model({graph.name: graph}, {})
    engine = HtpEngine(alone, soc)
    try:
        rows = compare(HostEngine(alone), engine, alone, lambda: [own])
    except (BackendError, ConstraintError, ProblemList) as error:
        figures = [difference.figures() for difference in outputs]
        if all(each.db >= USELESS and not each.nans and not each.infs for each in figures):
            return
        raise _wrong(
            f"an output is at {min(each.db for each in figures):.1f} dB from the host's, and the graph with "
            f"all values as outputs, which would name the op, does not run: {error.problem:.200}",
            place,
        ) from error
    finally:
        engine.close()
    worst = [row for row in rows if row.is_wrong and row.isolated is not None and row.isolated.db < NEAR]
    row = first_wrong(worst)
    if row is not None and row.isolated is not None:
        raise _wrong(
            f"{row.tensor!r} is at {row.isolated.db:.1f} dB from what the host computes of the same values"
            + _overflow(model, feeds, row.tensor),
            f"{place}: op {row.op!r} ({row.type})",
            node=row.op,
            op=row.type,
        )
    if min(difference.figures().db for difference in outputs) < USELESS:
        overflow = _overflowing(alone, own)
        if overflow is not None:
            op, largest = overflow
            raise _wrong(
                f"float16 overflows: its values reach {largest:.3g}, the largest number is {HIGHEST:g}",
                f"{place}: op {op.name!r} ({op.type})",
                node=op.name,
                op=op.type,
            )
    cumulative = {row.tensor: row.cumulative.db for row in rows}
    for tensor, difference in zip(model.main.outputs, outputs, strict=True):
        own_db = difference.figures().db
        if not _is_near(tensor, difference) and cumulative.get(tensor.name, own_db) > own_db + APART:
            raise _wrong(
                f"output {tensor.name!r} of the cache is at {own_db:.1f} dB, but at "
                f"{cumulative[tensor.name]:.1f} dB if the ops run one by one: they are wrong together",
                place,
            )


def _entering(model: Model, graph: Graph, feeds: Feeds) -> Feeds:
    """Return the inputs of a compiled graph, as the host computes them."""
    names = [tensor.name for tensor in graph.inputs]
    entering = with_first_values(model.main, _states(model), feeds)
    needed = [name for name in names if name not in entering]
    values = HostEngine(model).values(feeds, needed) if needed else {}
    return {name: entering[name] if name in entering else values[name] for name in names}


def _states(model: Model) -> Mapping[str, Any]:
    states: Mapping[str, Any] = model.metadata.get("states", {})
    return states


def _overflowing(model: Model, feeds: Feeds) -> tuple[Op, float] | None:
    """Return the first op with finite values beyond float16, and the largest."""
    import numpy as np

    graph = model.main
    for part in grouped(graph, segments(graph, computed(graph))):
        names = [segment.tensor.name for segment in part if segment.tensor.dtype.is_float]
        values = HostEngine(model).values(feeds, names) if names else {}
        for name in names:
            array = np.abs(np.asarray(values[name], np.float64))
            largest = float(array[np.isfinite(array)].max(initial=0))
            op = graph.tensors[name].producer
            if largest > HIGHEST and op is not None:
                return op, largest
    return None


def _overflow(model: Model, feeds: Feeds, name: str) -> str:
    """Return a clause about values beyond float16, or an empty text."""
    import numpy as np

    tensor = model.main.tensors.get(name)
    if tensor is None or tensor.dtype.is_fixed:
        return ""
    largest = float(
        np.abs(np.asarray(HostEngine(model).values(feeds, [name])[name], np.float64)).max(initial=0)
    )
    return f": float16 overflows, the values reach {largest:.3g}" if largest > HIGHEST else ""


def _wrong(problem: str, where: str, node: str | None = None, op: str | None = None) -> WrongCacheError:
    fix = f"rewrite the op, or leave it to the CPU; {spell('verify', False)} stores the cache without a proof"
    return WrongCacheError(problem, where=where, fix=fix, node=node, op=op)


def _parts(
    model: Model, graph: Graph, soc: str, feeds: Feeds, until: float, place: str, timeout: float
) -> int:
    """Verify ops of a graph apart, the riskiest first; return their number.

    Raises:
        BackendError: If one is wrong.
    """
    left = 0.5 * (until - time.monotonic())  # the host and the compiler need the rest
    hidden = unrounded(graph)
    parts = [part for part in segments(graph, set(computed(graph)) - hidden) if part.inputs]
    chosen: list[Segment] = []
    for part in sorted(parts, key=_risk(graph), reverse=True):
        cost = sum(map(_cost, part.ops))
        if cost <= left:
            left -= cost
            chosen.append(part)
    own = _entering(model, graph, feeds)
    verified: set[Op] = set()
    for start in range(0, len(chosen), CHUNK):
        remaining = min(timeout, until - time.monotonic())
        if remaining <= 0:
            break
        chunk = chosen[start : start + CHUNK]
        if _verify_chunk(graph, chunk, soc, own, remaining, place):
            verified |= {op for part in chunk for op in part.ops}
    return len(verified)


def _verify_chunk(
    graph: Graph, parts: Sequence[Segment], soc: str, own: Feeds, seconds: float, place: str
) -> bool:
    """Verify parts of a graph apart; return whether they ran.

    Args:
        own: Inputs of the graph.
        seconds: Seconds that compiling may take, and running.

    Raises:
        BackendError: If one is wrong.
    """
    import numpy as np

    alone, entries = apart(graph, parts)
    needed = [name for name in entries if name not in own]
    values = {**own, **HostEngine(Model({graph.name: graph})).values(own, needed)}
    fed = {}
    for name, entry in entries.items():
        array = np.asarray(values[name])
        fed[entry] = array.astype(np.float16).astype(np.float32) if array.dtype.kind == "f" else array
    small = Model({alone.name: alone})
    try:
        with HtpSession(small, soc, run_timeout=seconds / 2, timeout=seconds / 2) as session:
            results = session.run(fed)
    except (BackendError, ConstraintError, ProblemList):
        return False  # parts that do not compile alone, or take too long
    expected = HostEngine(small).values(fed, [tensor.name for tensor in alone.outputs])
    for part, tensor in zip(parts, alone.outputs, strict=True):
        difference = _difference(expected[tensor.name], results[tensor.name])
        if not _is_near(tensor, difference):
            op = part.ops[-1]
            raise _wrong(
                f"{tensor.name!r} is at {difference.figures().db:.1f} dB from what the host computes of the "
                "same values",
                f"{place}: op {op.name!r} ({op.type})",
                node=op.name,
                op=op.type,
            )
    return True


def _risk(graph: Graph) -> Callable[[Segment], tuple[int, float]]:
    """Return a key that sorts segments: another form for HTP or blocks, few values."""
    adapted = graph.clone()
    passes.run(adapted, passes.htp_query())
    kept = {(op.name, op.type): len(op.params) for op in adapted.ops}

    def has_blocks(op: Op) -> bool:
        forms = (BlockScaleOffset, BlockwiseExpansion)
        return any(tensor is not None and isinstance(tensor.encoding, forms) for tensor in op.inputs)

    def risk(part: Segment) -> tuple[int, float]:
        risky = sum(kept.get((op.name, op.type)) != len(op.params) or has_blocks(op) for op in part.ops)
        return risky, -sum(map(_cost, part.ops))

    return risk
