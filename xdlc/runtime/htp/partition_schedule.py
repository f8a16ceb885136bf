"""Schedule of a graph in partitions for HTP and for the CPU.

A partition is a set of ops that no path leaves and enters again, so that it can run in one go.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

from xdlc.errors import ContainerError
from xdlc.ir import Graph, Op
from xdlc.ir.partitions import leaving, partition_of, sources

_Node = str | Op  # a partition, or an op that is in none


def partition_name(graph: str, number: int, taken: Collection[str] = ()) -> str:
    """Return the name of a compiled partition, an identifier of C that is free.

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
    """Return a partition of a graph as a separate graph.

    Its inputs are what it reads from outside, its outputs what others read and the graph outputs.

    Raises:
        ContainerError: If the graph has no such op, or no op is named.
    """
    op_names = set(ops)
    present = [op for op in graph.ops if op.name in op_names]
    if len(present) != len(op_names) or not present:
        missing = sorted(op_names.difference(op.name for op in present))
        raise ContainerError(
            f"the partition has ops that graph {graph.name!r} lacks: {', '.join(missing[:8]) or 'no ops'}",
            where=f"partition {name!r}",
            fix="prepare the model again",
        )
    partition = partition_of(
        graph, present, leaving(graph, present, (tensor.name for tensor in graph.outputs))
    )
    partition.name = name
    return partition


def schedule(graph: Graph, partitions: Mapping[str, Iterable[str]]) -> list[tuple[str | None, list[Op]]]:
    """Return all ops of a graph in partitions that can run in sequence.

    Each has the name of the compiled graph that runs it, None for the CPU, and its ops in order.

    Args:
        partitions: Names of the ops of each compiled partition.

    Raises:
        ContainerError: If a partition names an op that is missing or is another partition's, or if partitions
            wait for each other.
    """
    owner = _owners(graph, partitions)
    rank = {name: number for number, name in enumerate(partitions)}
    place = {op: number for number, op in enumerate(graph.ops)}
    members: dict[_Node, list[Op]] = {}
    sorter: TopologicalSorter[_Node] = TopologicalSorter()
    for op in graph.ops:
        node = owner.get(op, op)
        members.setdefault(node, []).append(op)
        sorter.add(node, *({owner.get(source, source) for source in sources(op)} - {node}))
    try:
        sorter.prepare()
    except CycleError as error:
        names = [node for node in dict.fromkeys(error.args[1]) if not isinstance(node, Op)]
        raise ContainerError(
            "a path leaves this partition and enters it again, so the partition cannot run as one unit",
            where=f"graph {graph.name!r}: partition {', '.join(names)}",
            fix="prepare the model again",
        ) from error
    ready: list[str] = []
    scheduled: list[tuple[str | None, list[Op]]] = []
    while sorter.is_active():
        host: list[Op] = []
        while nodes := sorter.get_ready():  # grows by all ops that need no further partition
            ready += [node for node in nodes if not isinstance(node, Op)]
            ops = [node for node in nodes if isinstance(node, Op)]
            sorter.done(*ops)
            host += ops
        if host:
            scheduled.append((None, sorted(host, key=place.__getitem__)))
        if ready:
            partition = min(ready, key=rank.__getitem__)
            ready.remove(partition)
            scheduled.append((partition, members[partition]))
            sorter.done(partition)
    return scheduled


def _owners(graph: Graph, partitions: Mapping[str, Iterable[str]]) -> dict[Op, str]:
    ops = {op.name: op for op in graph.ops}
    owner: dict[Op, str] = {}
    for partition, names in partitions.items():
        for name in names:
            op = ops.get(name)
            if op is None or owner.setdefault(op, partition) != partition:
                fault = (
                    "has no op with this name" if op is None else f"has this op in partition {owner[op]!r}"
                )
                raise ContainerError(
                    f"the partition has op {name!r}, but graph {graph.name!r} {fault}",
                    where=f"partition {partition!r}",
                    fix="prepare the model again",
                )
    return owner
