"""Partitions of a graph: groups of ops that no path leaves and enters again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from xdlc.ir.graph import Graph, Op
from xdlc.ir.tensor import Role, Tensor


def sources(op: Op) -> set[Op]:
    """Return the ops whose results an op reads."""
    tensors = (tensor for tensor in op.inputs if tensor is not None)
    return {tensor.producer for tensor in tensors if tensor.producer is not None}


def levels(
    ops: Iterable[Op], waits: Callable[[Op, Op], bool], first: Callable[[Op], int] = lambda op: 0
) -> dict[Op, int]:
    """Return the level of each op; ops of one level form a partition.

    Levels never fall along a path, and rise where an op waits: no division has fewer levels, and in none can
    a path leave a level and enter it again.

    Args:
        waits: Whether an op, the second, has to be in a later level than the op whose result it reads.
        first: The level of an op that reads no result of the ops.
    """
    numbers: dict[Op, int] = {}
    for op in ops:
        reached = (numbers[source] + waits(source, op) for source in sources(op) if source in numbers)
        numbers[op] = max([first(op), *reached])
    return numbers


def components(ops: Iterable[Op], pairs: Iterable[tuple[Op, Op]]) -> list[list[Op]]:
    """Return the groups of ops that pairs of them join, each in the order of the ops."""
    members = list(ops)
    leaders = {op: op for op in members}

    def leader(op: Op) -> Op:
        while leaders[op] is not op:
            leaders[op] = op = leaders[leaders[op]]
        return op

    for first, second in pairs:
        leaders[leader(second)] = leader(first)
    groups: dict[Op, list[Op]] = {}
    for op in members:
        groups.setdefault(leader(op), []).append(op)
    return list(groups.values())


def entering(ops: Sequence[Op]) -> list[Tensor]:
    """Return the tensors that the ops read but do not compute, except static ones."""
    computed = {tensor for op in ops for tensor in op.outputs}
    read = dict.fromkeys(tensor for op in ops for tensor in op.inputs if tensor is not None)
    return [tensor for tensor in read if not tensor.is_static and tensor not in computed]


def leaving(graph: Graph, ops: Sequence[Op], wanted: Iterable[str] = ()) -> list[str]:
    """Return the names of tensors that other ops read, or that are wanted."""
    inside, names = set(ops), set(wanted)
    return [
        tensor.name
        for op in ops
        for tensor in op.outputs
        if tensor.name in names or not inside.issuperset(graph.consumers(tensor))
    ]


def partition_of(graph: Graph, ops: Sequence[Op], outputs: Sequence[str]) -> Graph:
    """Return a graph of copies of ops; its inputs are the tensors that enter them."""
    partition = Graph(graph.name)
    inputs = set(entering(ops))
    twins: dict[Tensor, Tensor] = {}

    def twin(tensor: Tensor) -> Tensor:
        if tensor not in twins:
            role = Role.STATIC if tensor.is_static else Role.NATIVE
            twins[tensor] = replace(tensor, role=role, producer=None)
        return twins[tensor]

    for op in ops:
        for tensor in op.inputs:
            if tensor is not None and tensor in inputs and tensor not in twins:
                partition.add_input(twin(tensor))
        partition.append(op.twin(twin))
    for name in outputs:
        partition.add_output(partition.tensors[name])
    return partition
