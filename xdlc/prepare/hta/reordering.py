"""Reordering: an order of layers with the fewest changes between HTA and HNN.

Taking all layers of one engine that can run before the first of the other has to, by turns, has the fewest
changes of all orders that begin with that engine; the better of both beginnings is returned.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

from xdlc.ir import Graph, Op
from xdlc.runtime.htp_fusion import Bond


def fewest_changes(
    graph: Graph, ops: Sequence[Op], on_hta: Collection[Op], bonds: Iterable[Bond]
) -> list[Op]:
    """Return layers in an order with the fewest changes of engine.

    Args:
        ops: Its layers, in order.
        on_hta: Layers for HTA.
        bonds: Layers that have to stay together; a group of them is on HTA if all of them are.
    """
    groups = _groups(ops, bonds)
    members: dict[Op, list[Op]] = {}
    readers: dict[Op, set[Op]] = {}
    for op in ops:
        members.setdefault(groups[op], []).append(op)
        found = {groups[each] for out in op.outputs for each in graph.consumers(out) if each in groups}
        readers.setdefault(groups[op], set()).update(found - {groups[op]})
    sides = {first: all(op in on_hta for op in group) for first, group in members.items()}
    orders = [list(ops)]
    for begin in (True, False):
        order = [op for first in _order(readers, sides, begin) for op in members[first]]
        if len(order) == len(ops):  # groups that read each other have no order
            orders.append(order)
    return min(orders, key=lambda order: _changes(order, on_hta))


def _groups(ops: Sequence[Op], bonds: Iterable[Bond]) -> dict[Op, Op]:
    """Return the first op of the group of each op."""
    positions = {op: position for position, op in enumerate(ops)}
    parents = {op: op for op in ops}

    def root(op: Op) -> Op:
        while parents[op] is not op:
            parents[op] = op = parents[parents[op]]
        return op

    for bond in bonds:
        ends = sorted((root(bond.producer), root(bond.reader)), key=positions.__getitem__)
        parents[ends[1]] = ends[0]
    return {op: root(op) for op in ops}


def _order(readers: dict[Op, set[Op]], sides: dict[Op, bool], side: bool) -> list[Op]:
    """Return the groups, each as early as its engine and sources permit."""
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
