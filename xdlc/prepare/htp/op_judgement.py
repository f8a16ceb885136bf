"""Judgement of compiled ops one by one: emulation against host."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from xdlc import passes
from xdlc.compare.engines import HostEngine, HtpEngine, computed
from xdlc.compare.figures import Difference
from xdlc.compare.first_wrong import Segment, apart, compare, first_wrong, grouped, segments, unrounded
from xdlc.container.metadata import add_step
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
from xdlc.ir.dtype import FLOAT16, FLOAT32
from xdlc.opdefs.traits import macs
from xdlc.options import spell
from xdlc.runtime.htp.process import Launch
from xdlc.runtime.htp.session import HtpSession

MACS, VALUES = 1.5e9, 3e7
"""Multiply-accumulates, and values of results and weights, that the emulation computes in a second.

Measured with networks of 0.35 to 55 G: 2.6e9 and 5.5e7 on an idle machine.
"""
NEAR = 34.0
"""SQNR in dB of floats that float16 explains, a relative error of 2e-2."""
STEPS = 1.5
"""Steps of an encoding that right results are off, as a root of the mean square."""
USELESS = 10.0
"""SQNR in dB below which an output is of no use, whatever the reason."""
WIDER = 1.01
"""Factor of the steps that a network is rounded to again."""
MARGIN, MARGIN_OF_FLOATS = 1.0, 6.0
"""SQNR in dB that the emulation may be further off than a network that is rounded again."""
AGAIN = 2.0
"""Time of compiling and running a graph with all values as outputs over that of running it."""
_TURNS = 8
"""Least number of groups of parts, where a few parts take all of the time."""
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
class Ran:
    """A compiled graph, or partition, that ran on the emulation.

    Attributes:
        model: Model whose main graph it is.
        expected: Its outputs on the host, by name.
        results: Its outputs on the emulation.
        seconds: Time of the run, loading included.
    """

    model: Model
    soc: str
    feeds: Feeds
    expected: Feeds
    results: Feeds
    seconds: float
    place: str
    launch: Launch

    def differences(self) -> dict[Tensor, Difference]:
        """Return the difference of each output."""
        outputs = self.model.main.outputs
        return {out: difference(self.expected[out.name], self.results[out.name]) for out in outputs}

    def is_near(self) -> bool:
        """Return whether the rounding of a single result explains each output."""
        return all(is_near(tensor, error) for tensor, error in self.differences().items())


def difference(expected: Array, result: Array) -> Difference:
    """Return the difference of two arrays where float16 holds the first."""
    first, second = (np.asarray(each, np.float32).reshape(-1) for each in (expected, result))
    counted = ~(np.abs(first) >= HIGHEST)
    sums = Difference()
    sums.add(first[counted], second[counted])
    return sums


def is_near(tensor: Tensor, error: Difference) -> bool:
    """Return whether the rounding of a single result explains a difference."""
    figures = error.figures()
    if figures.nans or figures.infs:
        return False
    if figures.db >= NEAR or not error.count:
        return True
    if not isinstance(tensor.encoding, ScaleOffset | AxisScaleOffset):
        return False
    scale = tensor.encoding.scale if isinstance(tensor.encoding, ScaleOffset) else max(tensor.encoding.scales)
    noise = error.power / 10.0 ** (figures.db / 10.0) / error.count
    return bool(noise <= (STEPS * scale) ** 2)


def is_explained(ran: Ran) -> bool:
    """Return whether rounding explains the differences of outputs that are not near.

    That of all values together moves an output as far as wider steps do, and floats of 16 bits: the same
    network, as right, with other roundings.  An output that is of no use shows no fault: it is not explained.
    """
    differences = ran.differences()
    far = [tensor for tensor, error in differences.items() if not is_near(tensor, error)]
    if any(_is_useless(differences[tensor]) for tensor in far):
        return False
    again, margin = _rounded_again(ran.model)
    others = HostEngine(again).values(ran.feeds, [tensor.name for tensor in far])
    is_as_near = all(
        differences[tensor].figures().db + margin
        >= difference(ran.expected[tensor.name], others[tensor.name]).figures().db
        for tensor in far
    )
    return is_as_near and _overflowing(ran) is None


def _rounded_again(model: Model) -> tuple[Model, float]:
    """Return a network with other roundings, and the margin in dB of the emulation."""
    again, margin = model.clone(), MARGIN_OF_FLOATS
    for graph in again.graphs.values():
        for tensor in {out for op in graph.ops for out in op.outputs}:
            if tensor.dtype is FLOAT32:
                tensor.dtype = FLOAT16
            elif tensor.dtype.is_fixed and isinstance(tensor.encoding, ScaleOffset):
                tensor.encoding = ScaleOffset(tensor.encoding.scale * WIDER, tensor.encoding.offset)
                margin = MARGIN
    add_step(again, "xdlc-graph-prepare", {"float_bitwidth": "16"})  # the host rounds them
    return again, margin


def _is_useless(error: Difference) -> bool:
    figures = error.figures()
    return figures.db < USELESS or bool(figures.nans or figures.infs)


def judge(ran: Ran, until: float, timeout: float) -> float | None:
    """Compare ops one by one; return the share, None if rounding explains all.

    All of its values are computed on the emulation if that takes no longer than there is time, else those
    of parts, the riskiest first.  Rounding may hide a fault: where it explains an output, ops that HTP
    computes in another form are compared.

    Args:
        until: Time of the monotonic clock at which judging ends.
        timeout: Seconds that compiling may take.

    Raises:
        WrongCacheError: If an op is wrong alone, or several are when fused.
    """
    if ran.is_near():
        return None
    if is_explained(ran):
        judge_parts(ran, until, timeout, only_risky=True)
        return None
    problem: XdlcError | None = None
    if time.monotonic() + AGAIN * ran.seconds < until:
        try:
            _judge_whole(ran, until)
            return 1.0
        except WrongCacheError:
            raise
        except (BackendError, ConstraintError, ProblemList) as error:
            problem = error
    count = judge_parts(ran, until, timeout)
    differences = ran.differences().values()
    if problem is not None and any(map(_is_useless, differences)) and time.monotonic() < until:
        lowest = min(error.figures().db for error in differences)
        raise wrong(
            f"an output differs from the CPU's output ({lowest:.1f} dB), but xdlc cannot name the op: "
            f"HTP cannot run the graph with all tensors as outputs: {problem.problem:.200}",
            ran.place,
        ) from problem
    return count / len(ran.model.main)


def _judge_whole(ran: Ran, until: float) -> None:
    """Compile a graph with all values as outputs; raise an error if one is wrong."""
    alone = Model({ran.model.main.name: ran.model.main})
    engine = HtpEngine(alone, ran.soc, until=until, launch=ran.launch)
    try:
        rows = compare(HostEngine(alone), engine, alone, lambda: [ran.feeds])
    finally:
        engine.close()
    tensors = ran.model.main.tensors
    worst = [
        row
        for row in rows
        if row.is_wrong
        and row.isolated is not None
        and row.isolated.db < NEAR
        and not _are_places(tensors[row.tensor])
    ]
    row = first_wrong(worst)
    if row is not None and row.isolated is not None:
        raise wrong(
            f"{row.tensor!r} is {row.isolated.db:.1f} dB from the host's result of the same values"
            + _overflow(ran, row.tensor),
            f"{ran.place}: op {row.op!r} ({row.type})",
            node=row.op,
            op=row.type,
        )
    differences = ran.differences()
    if min(error.figures().db for error in differences.values()) < USELESS:
        overflow = _overflowing(ran)
        if overflow is not None:
            op, largest = overflow
            raise wrong(
                f"float16 overflows: its values reach {largest:.3g}, but the largest number is {HIGHEST:g}",
                f"{ran.place}: op {op.name!r} ({op.type})",
                node=op.name,
                op=op.type,
            )
    cumulative = {row.tensor: row.cumulative.db for row in rows}
    for tensor, error in differences.items():
        own = error.figures().db
        if not is_near(tensor, error) and cumulative.get(tensor.name, own) > own + APART:
            raise wrong(
                f"output {tensor.name!r} of the cache is at {own:.1f} dB, but at "
                f"{cumulative[tensor.name]:.1f} dB if the ops run one by one, so ops together are wrong",
                ran.place,
            )


def _are_places(tensor: Tensor) -> bool:
    """Return whether integers are places of reals that their op computes, too.

    Those of equal values are in any order; the values are compared.
    """
    op = tensor.producer
    first = tensor if op is None else op.outputs[0]
    return first is not tensor and tensor.dtype.is_integer and (first.dtype.is_float or first.dtype.is_fixed)


def _overflowing(ran: Ran) -> tuple[Op, float] | None:
    """Return the first op with finite values beyond float16, and the largest."""
    graph = ran.model.main
    for part in grouped(graph, segments(graph, computed(graph))):
        names = [segment.tensor.name for segment in part if segment.tensor.dtype.is_float]
        values = HostEngine(ran.model).values(ran.feeds, names) if names else {}
        for name in names:
            array = np.abs(np.asarray(values[name], np.float64))
            largest = float(array[np.isfinite(array)].max(initial=0))
            op = graph.tensors[name].producer
            if largest > HIGHEST and op is not None:
                return op, largest
    return None


def _overflow(ran: Ran, name: str) -> str:
    """Return a clause about values beyond float16, or an empty text."""
    if ran.model.main.tensors[name].dtype.is_fixed:
        return ""
    values = HostEngine(ran.model).values(ran.feeds, [name])[name]
    largest = float(np.abs(np.asarray(values, np.float64)).max(initial=0))
    return f": float16 overflows, the values reach {largest:.3g}" if largest > HIGHEST else ""


def wrong(problem: str, where: str, node: str | None = None, op: str | None = None) -> WrongCacheError:
    """Return the error of a wrong cache."""
    fix = (
        f"rewrite the op, or run the op on the CPU; {spell('verify', False)} stores the cache without this "
        "check"
    )
    return WrongCacheError(problem, where=where, fix=fix, node=node, op=op)


def seconds(graph: Graph) -> float:
    """Return about how long the emulation takes for a run."""
    return sum(map(_cost, graph.ops))


def _cost(op: Op) -> float:
    weights = sum(tensor.size for tensor in op.inputs if tensor is not None and tensor.is_static)
    return macs(op) / MACS + (weights + sum(tensor.size for tensor in op.outputs)) / VALUES


def judge_parts(ran: Ran, until: float, timeout: float, *, only_risky: bool = False) -> int:
    """Compare ops apart on the host's values, the riskiest first; return their number.

    Arguments and errors are those of ``judge``.

    Args:
        only_risky: Whether to compare only ops that HTP computes in another form.
    """
    graph = ran.model.main
    left = 0.5 * (until - time.monotonic())  # the host and the compiler need the rest
    hidden = unrounded(graph)
    parts = [part for part in segments(graph, set(computed(graph)) - hidden) if part.inputs]
    risk = _risk(graph)
    chosen: list[Segment] = []
    for part in sorted(parts, key=risk, reverse=True):
        if only_risky and not risk(part)[0]:
            break
        cost = sum(map(_cost, part.ops))
        if cost <= left:
            left -= cost
            chosen.append(part)
    places = {part.tensor: place for place, part in enumerate(parts)}
    chosen.sort(key=lambda part: (not risk(part)[0], places[part.tensor]))  # in order: the host goes on
    host = HostEngine(Model({graph.name: graph}), until=until)
    compared: set[Op] = set()
    for chunk in _chunks(chosen, (until - time.monotonic()) / _TURNS):
        if time.monotonic() >= until:
            break
        if _judge_chunk(ran, host, chunk, until, timeout):
            compared |= {op for part in chunk for op in part.ops}
    return len(compared)


def _chunks(parts: Sequence[Segment], most: float) -> Iterator[list[Segment]]:
    """Yield parts in groups of at most so many seconds, one at least."""
    chunk: list[Segment] = []
    total = 0.0
    for part in parts:
        cost = sum(map(_cost, part.ops))
        if chunk and (len(chunk) == CHUNK or total + cost > most):
            yield chunk
            chunk, total = [], 0.0
        chunk.append(part)
        total += cost
    if chunk:
        yield chunk


def _as_float16(array: Array) -> Array:
    """Return floats as HTP reads them: float16, saturated.

    Example:
        >>> _as_float16([1e6, -float("inf"), 0.1]).tolist()
        [65504.0, -65504.0, 0.0999755859375]
    """
    return np.clip(array, -HIGHEST, HIGHEST).astype(np.float16).astype(np.float32)


def _judge_chunk(ran: Ran, host: HostEngine, parts: Sequence[Segment], until: float, timeout: float) -> bool:
    """Compare parts of a graph apart; return whether they ran.

    Arguments are those of ``judge``, and the engine of the whole graph.
    """
    graph = ran.model.main
    alone, entries = apart(graph, parts)
    needed = [name for name in entries if name not in ran.feeds]
    fed = {}
    try:
        values = {**ran.feeds, **host.values(ran.feeds, needed)}
    except BackendError:
        if time.monotonic() < until:
            raise
        return False
    for name, entry in entries.items():
        array = np.asarray(values[name])
        fed[entry] = _as_float16(array) if array.dtype.kind == "f" else array
    small = Model({alone.name: alone})
    left = max(until - time.monotonic(), 0.01)
    try:
        with HtpSession(
            small, ran.soc, launch=ran.launch, timeout=min(timeout, left), run_timeout=left
        ) as session:
            results = session.run(fed)
    except (BackendError, ConstraintError, ProblemList):
        return False  # parts that do not compile alone, or take too long
    expected = HostEngine(small).values(fed, [tensor.name for tensor in alone.outputs])
    for part, tensor in zip(parts, alone.outputs, strict=True):
        error = difference(expected[tensor.name], results[tensor.name])
        if not is_near(tensor, error) and not _are_places(part.tensor):
            op = part.ops[-1]
            raise wrong(
                f"{tensor.name!r} is {error.figures().db:.1f} dB from the host's result of the same values",
                f"{ran.place}: op {op.name!r} ({op.type})",
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
