"""Partitioner: the choice of the ops that run on HTA.

Sections are runs of ops in the order of execution, on HTA and on HNN by turns.  Of all ways to divide the
order, the one with the most work on HTA is chosen, less the cost of crossings between sections:

    work of the ops on HTA - sum over crossings (WORK_OF_CROSSING * work of all ops + WORK_OF_BYTE * bytes)

Work is multiply-accumulates plus elements written.  The bytes of a crossing are those of all values that are
computed before it and read after it.  The two prices are estimates: the vendor's documentation only has
that many sections cost time and accuracy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from operator import itemgetter

from xdlc.container.aip_record import Engine
from xdlc.ir import Graph, Op
from xdlc.opdefs.traits import macs
from xdlc.runtime.htp_fusion import Bond

WORK_OF_CROSSING = 1 / 200  # of the work of the whole graph: requantizing a small value has a cost too
WORK_OF_BYTE = 1.0  # moving an element is as expensive as computing one


@dataclass(frozen=True, slots=True)
class Run:
    """Successive ops on one engine.

    Attributes:
        engine: HTA, or HNN for the HVX unit.
        ops: The ops.
    """

    engine: Engine
    ops: tuple[Op, ...]


def automatic(graph: Graph, ops: Sequence[Op], accepted: Collection[Op], bonds: Iterable[Bond]) -> list[Run]:
    """Return the runs of the largest gain, see the module's text.

    Args:
        graph: The graph.
        ops: Its layers, in order.
        accepted: Ops that HTA takes.
        bonds: Ops that have to stay in one section.
    """
    works = [work(op) for op in ops]
    prices = _prices(graph, ops, sum(works), bonds)
    # Of the best way to divide ops[:index + 1] with the last one on each engine: its gain, the engine before.
    gain = {Engine.HTA: 0.0, Engine.HNN: 0.0}
    before: list[dict[Engine, Engine]] = []
    for index, op in enumerate(ops):
        price = prices[index - 1] if index else 0.0
        chosen: dict[Engine, Engine] = {}
        following: dict[Engine, float] = {}
        for engine, other in ((Engine.HTA, Engine.HNN), (Engine.HNN, Engine.HTA)):
            stays = gain[engine] >= gain[other] - price
            chosen[engine] = engine if stays else other
            following[engine] = gain[engine] if stays else gain[other] - price
        following[Engine.HTA] += works[index] if op in accepted else -float("inf")
        gain = following
        before.append(chosen)
    engine = Engine.HTA if gain[Engine.HTA] > gain[Engine.HNN] else Engine.HNN
    engines = [engine]
    for chosen in reversed(before[1:]):
        engine = chosen[engine]
        engines.append(engine)
    return joined(zip(reversed(engines), ops, strict=False))


def joined(placed: Iterable[tuple[Engine, Op]]) -> list[Run]:
    """Return ops with their engines as runs."""
    groups = groupby(placed, key=itemgetter(0))
    return [Run(engine, tuple(op for _, op in group)) for engine, group in groups]


def by_hand(ops: Sequence[Op], ranges: Sequence[Sequence[Op]]) -> list[Run]:
    """Return the runs of the ops of ranges on HTA, and of the rest of ``ops`` on HNN.

    Ranges that touch stay sections of their own.
    """
    owner = {op: index for index, members in enumerate(ranges) for op in members}
    groups = groupby(ops, key=owner.get)
    return [Run(Engine.HNN if index is None else Engine.HTA, tuple(group)) for index, group in groups]


def work(op: Op) -> float:
    """Return the work of an op, see the module's text."""
    return float(macs(op) + sum(tensor.size for tensor in op.outputs))


def _prices(graph: Graph, ops: Sequence[Op], total: float, bonds: Iterable[Bond]) -> list[float]:
    """Return the cost of a crossing after each op; infinite where a bond spans it."""
    positions = {op: position for position, op in enumerate(ops)}
    begins, ends = [0] * (len(ops) + 1), [0] * (len(ops) + 1)
    for index, op in enumerate(ops):
        for tensor in op.outputs:
            last = max((positions.get(reader, index) for reader in graph.consumers(tensor)), default=index)
            begins[index] += tensor.nbytes
            ends[last] += tensor.nbytes
    carried = list(accumulate(begin - end for begin, end in zip(begins, ends, strict=True)))
    spans = [0] * (len(ops) + 1)
    for bond in bonds:
        spans[positions[bond.producer]] += 1
        spans[positions[bond.reader]] -= 1
    tied = list(accumulate(spans))
    fixed = WORK_OF_CROSSING * total
    return [
        float("inf") if tied[index] else fixed + WORK_OF_BYTE * carried[index] for index in range(len(ops))
    ]
