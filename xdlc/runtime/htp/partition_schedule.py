"""Schedule of a graph in partitions: those that HTP has compiled, and the CPU's between them.

A partition is a set of ops that no path leaves and enters again, so that it can run in one go.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from xdlc.errors import ContainerError
from xdlc.ir import Graph, Op
from xdlc.ir.partitions import leaving, partition_of

_Node = str | Op  # a partition, or an op that is in none


@dataclass(frozen=True, slots=True)
class ScheduledPartition:
    """Ops that run in one go.

    Attributes:
        name: Name of the compiled graph that runs them; None for the CPU.
        ops: The ops, in the order of their graph.
    """

    name: str | None
    ops: tuple[Op, ...]


def partition_name(graph: str, number: int, taken: Collection[str] = ()) -> str:
    """Return the name of a compiled partition, a valid identifier of C that is not taken.

    Example:
        >>> partition_name("main graph", 0)
        'main_graph_part0'
    """
    base = re.sub(r"[^A-Za-z0-9_]", "_", graph)
    base = f"_{base}" if not base or base[0].isdigit() else base
    name = f"{base}_part{number}"
    while name in taken:
        name = f"_{name}"
    return name


def partition_graph(graph: Graph, ops: Iterable[str], name: str) -> Graph:
    """Return a partition of a graph as a graph of its own.

    Its inputs are what it reads from outside, its outputs what others read and the graph outputs.

    Args:
        graph: The graph.
        ops: Names of the ops.
        name: Name of the result.

    Raises:
        ContainerError: If the graph has no such op, or there is none at all.
    """
    wanted = set(ops)
    found = [op for op in graph.ops if op.name in wanted]
    if len(found) != len(wanted) or not found:
        missing = sorted(wanted.difference(op.name for op in found))
        raise ContainerError(
            f"names ops that graph {graph.name!r} does not have: {', '.join(missing[:8]) or 'none at all'}",
            where=f"partition {name!r}",
            fix="prepare the model again",
        )
    partition = partition_of(graph, found, leaving(graph, found, (tensor.name for tensor in graph.outputs)))
    partition.name = name
    return partition


def schedule(graph: Graph, partitions: Mapping[str, Iterable[str]]) -> list[ScheduledPartition]:
    """Return all ops of a graph, in partitions that can run one after the other.

    Args:
        graph: The graph.
        partitions: Names of the ops of each compiled partition.

    Raises:
        ContainerError: If a partition names an op that is missing or is another partition's, or if partitions
            wait for each other.
    """
    owner = _owners(graph, partitions)
    rank = {name: number for number, name in enumerate(partitions)}
    place = {op: number for number, op in enumerate(graph.ops)}
    members: dict[_Node, list[Op]] = {}
    for op in graph.ops:
        members.setdefault(owner.get(op, op), []).append(op)
    waits, followers = _order(graph, owner, members)
    ready = [node for node in members if not waits[node]]
    found: list[ScheduledPartition] = []
    while ready:
        host = [node for node in ready if isinstance(node, Op)]
        ready = [node for node in ready if not isinstance(node, Op)]
        for op in host:  # grows by all that needs no further partition
            free = _released(op, waits, followers)
            host += [node for node in free if isinstance(node, Op)]
            ready += [node for node in free if not isinstance(node, Op)]
        if host:
            found.append(ScheduledPartition(None, tuple(sorted(host, key=place.__getitem__))))
        if ready:
            partition = min(ready, key=lambda node: rank[str(node)])
            ready.remove(partition)
            found.append(ScheduledPartition(str(partition), tuple(members[partition])))
            ready += _released(partition, waits, followers)
    held = [str(node) for node in members if waits[node] and not isinstance(node, Op)]
    if held:
        raise ContainerError(
            "a path leaves this partition and enters it again, so that it cannot run in one go",
            where=f"graph {graph.name!r}: partition {', '.join(held)}",
            fix="prepare the model again",
        )
    return found


def _order(
    graph: Graph, owner: Mapping[Op, str], members: Mapping[_Node, Sequence[Op]]
) -> tuple[dict[_Node, set[_Node]], dict[_Node, list[_Node]]]:
    """Return the predecessors and the successors of each partition and op."""
    waits: dict[_Node, set[_Node]] = {node: set() for node in members}
    followers: dict[_Node, list[_Node]] = {node: [] for node in members}
    for op in graph.ops:
        node = owner.get(op, op)
        for tensor in op.inputs:
            before = tensor.producer if tensor is not None else None
            source = owner.get(before, before) if before is not None else None
            if source is not None and source != node and source not in waits[node]:
                waits[node].add(source)
                followers[source].append(node)
    return waits, followers


def _released(
    done: _Node, waits: Mapping[_Node, set[_Node]], followers: Mapping[_Node, Sequence[_Node]]
) -> list[_Node]:
    for node in followers[done]:
        waits[node].discard(done)
    return [node for node in followers[done] if not waits[node]]


def _owners(graph: Graph, partitions: Mapping[str, Iterable[str]]) -> dict[Op, str]:
    ops = {op.name: op for op in graph.ops}
    owner: dict[Op, str] = {}
    for partition, names in partitions.items():
        for name in names:
            op = ops.get(name)
            if op is None or owner.setdefault(op, partition) != partition:
                found = "has no such op" if op is None else f"has it in partition {owner[op]!r} already"
                raise ContainerError(
                    f"names op {name!r}: graph {graph.name!r} {found}",
                    where=f"partition {partition!r}",
                    fix="prepare the model again",
                )
    return owner
