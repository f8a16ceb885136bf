"""Partitioner: the choice of the layers that run on HTA, and their order.

Sections are runs of ops in the order of execution, on HTA and on HNN by turns.  Of all ways to divide the
order, the one with the most work on HTA is chosen, less the cost of crossings between sections:

    work of the ops on HTA - sum over crossings (WORK_OF_CROSSING * work of all ops + WORK_OF_BYTE * bytes)

Work is multiply-accumulates plus elements written.  The bytes of a crossing are those of all values that are
computed before it and read after it.  The two prices are estimates: the vendor's documentation only has
that many sections cost time and accuracy.

Layers may be reordered.  Taking all layers of one engine that can run before the first of the other has to,
by turns, has the fewest changes of all orders that begin with that engine; the better of both beginnings is
chosen.  Ranges of layer ids, as in ``--hta_partitions 0-11,177-215``, choose layers by hand.
"""

from __future__ import annotations

import heapq
import re
from bisect import bisect, bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from operator import itemgetter
from typing import NamedTuple

from xdlc.container.aip_record import Engine
from xdlc.errors import UsageError, XdlcError, raise_all
from xdlc.ir import Graph, Op
from xdlc.ir.partitions import components
from xdlc.opdefs.traits import macs
from xdlc.options import spell
from xdlc.runtime.htp_fusion import Bond

_RANGE = re.compile(r"\s*(\d{1,9})\s*-\s*(\d{1,9})\s*")


class Range(NamedTuple):
    """Layers from a first to a last id, inclusive."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"


def parse_ranges(text: str) -> tuple[Range, ...]:
    """Return the ranges of a list like ``0-11,177-215``.

    Raises:
        UsageError: If a word is not a range, or ranges are reversed, overlap, or do not rise; several
            problems make a ProblemList.

    Example:
        >>> [str(one) for one in parse_ranges("0-11, 177-215")]
        ['0-11', '177-215']
    """
    problems: list[XdlcError] = []
    ranges: list[Range] = []
    for word in text.split(","):
        match = _RANGE.fullmatch(word)
        if match is None:
            fix = f"write {word.strip()}-{word.strip()}" if word.strip().isdigit() else "write FIRST-LAST"
            problems.append(_problem(f"{word.strip()!r} is not a range of layer ids like 0-11", fix))
            continue
        layers = Range(int(match[1]), int(match[2]))
        if layers.first > layers.last:
            turned = Range(layers.last, layers.first)
            problems.append(_problem(f"the range {layers} is reversed", f"write {turned}"))
            layers = turned
        ranges.append(layers)
    problems += _misplaced(ranges)
    raise_all(problems)
    return tuple(ranges)


def _misplaced(ranges: Sequence[Range]) -> list[XdlcError]:
    problems: list[XdlcError] = []
    placed: list[Range] = []  # by layer id, none of which overlap
    for index, layers in enumerate(ranges):
        place = bisect(placed, layers)
        near = placed[max(place - 1, 0) : place + 1]
        overlapped = next(
            (each for each in near if each.first <= layers.last and layers.first <= each.last), None
        )
        if overlapped is None:
            placed.insert(place, layers)
        else:
            low, high = max(layers.first, overlapped.first), min(layers.last, overlapped.last)
            shared = f"layer {low}" if low == high else f"layers {Range(low, high)}"
            problem = f"the ranges {overlapped} and {layers} overlap in {shared}"
            problems.append(_problem(problem, "put each layer into one range"))
        if index and layers.last < ranges[index - 1].first:
            problems.append(
                _problem(
                    f"the range {layers} follows {ranges[index - 1]}, but its layers come earlier",
                    "order the ranges by layer id",
                )
            )
    return problems


def ops_in(ranges: Sequence[Range], ids: Mapping[Op, int]) -> list[tuple[Op, ...]]:
    """Return the ops of each range, in order.

    Args:
        ranges: Result of ``parse_ranges``.
        ids: Layer ids of the ops, which never decrease; so the ops of a range follow each other.

    Raises:
        UsageError: If a range reaches beyond the last layer or covers no op; several make a ProblemList.
    """
    layers, every = list(ids.values()), list(ids)
    end = max(layers, default=-1)
    problems: list[XdlcError] = []
    groups = []
    for span in ranges:
        ops = tuple(every[bisect_left(layers, span.first) : bisect(layers, span.last)])
        if span.last > end:
            problems.append(
                _problem(
                    f"the range {span} exceeds the last layer, {end}",
                    "use ids that `xdlc info --ops` prints",
                )
            )
        elif not ops:
            problems.append(
                _problem(f"the layers of range {span} have no operations", "use ids that xdlc info prints")
            )
        groups.append(ops)
    raise_all(problems)
    return groups


def _problem(problem: str, fix: str) -> UsageError:
    return UsageError(problem, where=spell("partitions"), fix=fix)


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
    """Return runs of ops: those in ``ranges`` on HTA, the rest on HNN.

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


def fewest_changes(
    graph: Graph, ops: Sequence[Op], on_hta: Collection[Op], bonds: Iterable[Bond]
) -> list[Op]:
    """Return layers in an order with the fewest changes of engine.

    Args:
        ops: Its layers, in order.
        on_hta: Layers for HTA.
        bonds: Layers that have to stay together; a group of them is on HTA if all of them are.
    """
    members = {group[0]: group for group in components(ops, ((bond.producer, bond.reader) for bond in bonds))}
    groups = {op: first for first, group in members.items() for op in group}
    readers: dict[Op, set[Op]] = {first: set() for first in members}
    for op in ops:
        read = {groups[each] for out in op.outputs for each in graph.consumers(out) if each in groups}
        readers[groups[op]].update(read - {groups[op]})
    sides = {first: all(op in on_hta for op in group) for first, group in members.items()}
    orders = [list(ops)]
    for begin in (True, False):
        order = [op for first in _order(readers, sides, begin) for op in members[first]]
        if len(order) == len(ops):  # groups that read each other have no order
            orders.append(order)
    return min(orders, key=lambda order: _changes(order, on_hta))


def _order(readers: dict[Op, set[Op]], sides: dict[Op, bool], side: bool) -> list[Op]:
    """Return the groups in order, each as early as engine and sources permit."""
    positions = {first: position for position, first in enumerate(readers)}
    waits = dict.fromkeys(readers, 0)
    for group in readers.values():
        for reader in group:
            waits[reader] += 1
    ready: dict[bool, list[tuple[int, Op]]] = {True: [], False: []}
    order: list[Op] = []

    def release(first: Op) -> None:
        if not waits[first]:
            heapq.heappush(ready[sides[first]], (positions[first], first))

    for first in readers:
        release(first)
    while ready[True] or ready[False]:
        if not ready[side]:
            side = not side
        _, first = heapq.heappop(ready[side])
        order.append(first)
        for reader in readers[first]:
            waits[reader] -= 1
            release(reader)
    return order


def _changes(order: Sequence[Op], on_hta: Collection[Op]) -> int:
    return sum((one in on_hta) != (other in on_hta) for one, other in pairwise(order))
