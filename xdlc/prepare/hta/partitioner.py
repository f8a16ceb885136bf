"""Partitioner: the choice of the layers that run on HTA, and their order.

Sections are runs of ops in the order of execution, on HTA and on HNN by turns.  All layers that HTA supports
run on HTA, but ops that a bond joins stay in one section.  Ranges of layer ids, as in
``--hta_partitions 0-11,177-215``, choose layers by hand.

Layers may be reordered.  Taking all layers of one engine that can run before the first of the other has to,
by turns, has the fewest changes of all orders that begin with that engine; the better of both beginnings is
chosen.
"""

from __future__ import annotations

import re
from bisect import bisect, bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import NamedTuple

from xdlc.container.aip_record import Engine
from xdlc.errors import UsageError, XdlcError, raise_all
from xdlc.ir import Graph, Op
from xdlc.ir.partitions import components
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


@dataclass(frozen=True, slots=True)
class Run:
    """Successive ops on one engine: HTA, or HNN for the HVX unit."""

    engine: Engine
    ops: tuple[Op, ...]


def automatic(ops: Sequence[Op], accepted: Collection[Op], bonds: Iterable[Bond]) -> list[Run]:
    """Return the runs with the most layers on HTA.

    Args:
        bonds: Ops that have to stay in one section.
    """
    places = {op: place for place, op in enumerate(ops)}
    ends = list(range(len(ops)))
    for bond in bonds:
        ends[places[bond.producer]] = max(ends[places[bond.producer]], places[bond.reader])
    on_hta: set[Op] = set()
    start = reach = 0
    for place, end in enumerate(ends):
        reach = max(reach, end)
        if place == reach:
            span = ops[start : place + 1]
            on_hta.update(span if all(op in accepted for op in span) else ())
            start = reach = place + 1
    return by_hand(ops, [list(on_hta)])


def by_hand(ops: Sequence[Op], ranges: Sequence[Sequence[Op]]) -> list[Run]:
    """Return runs of ops: those in ``ranges`` on HTA, the rest on HNN.

    Ranges that touch stay sections of their own.
    """
    owner = {op: index for index, members in enumerate(ranges) for op in members}
    groups = groupby(ops, key=owner.get)
    return [Run(Engine.HNN if index is None else Engine.HTA, tuple(group)) for index, group in groups]


def fewest_changes(
    graph: Graph, ops: Sequence[Op], on_hta: Collection[Op], bonds: Iterable[Bond]
) -> list[Op]:
    """Return layers in an order with the fewest changes of engine.

    Args:
        ops: The layers of the graph, in order.
        bonds: Layers that have to stay together; a group of them is on HTA if all of them are.
    """
    members = {group[0]: group for group in components(ops, ((bond.producer, bond.reader) for bond in bonds))}
    groups = {op: first for first, group in members.items() for op in group}
    sources: dict[Op, set[Op]] = {first: set() for first in members}
    for op in ops:
        for reader in (reader for out in op.outputs for reader in graph.consumers(out) if reader in groups):
            sources[groups[reader]] |= {groups[op]} - {groups[reader]}
    sides = {first: all(op in on_hta for op in group) for first, group in members.items()}
    orders = [list(ops)]
    for begin in (True, False):
        order = [op for first in _order(sources, sides, begin) for op in members[first]]
        if len(order) == len(ops):  # groups that read each other have no order
            orders.append(order)
    return min(orders, key=lambda order: sum((a in on_hta) != (b in on_hta) for a, b in pairwise(order)))


def _order(sources: Mapping[Op, set[Op]], sides: Mapping[Op, bool], side: bool) -> Iterable[Op]:
    """Return the groups in order, each as early as engine and sources permit."""
    order: dict[Op, None] = {}
    is_stuck = False
    while True:
        before = len(order)
        for first, read in sources.items():
            if sides[first] is side and first not in order and read <= order.keys():
                order[first] = None
        if len(order) == before:
            if is_stuck or before == len(sources):
                return order
            side = not side
        is_stuck = len(order) == before
