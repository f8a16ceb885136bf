"""Partitioner: divides a graph into partitions for HTP and the rest for the CPU, by a cost model.

There are as few partitions as possible.  Those whose computation does not make up for the copies to HTP and
back go to the CPU.  Branches and loop bodies are divided in the same way, as if they ran once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from xdlc.ir import Graph, Op, Tensor
from xdlc.ir.partitions import levels
from xdlc.opdefs.traits import macs, traits

CALL = 1 << 16
"""Cost of starting a partition, in bytes copied to HTP: about what takes as long to copy."""
AT_ONCE = 8
"""Of so many partitions that gain too little, one is dropped at a time: a network can have thousands."""


def stages(graph: Graph, taken: Collection[Op]) -> dict[Op, int]:
    """Return the number of the partition of each op that HTP supports.

    An op waits for a further partition only if a path from a supported op to it has one that is not.

    Args:
        graph: The graph.
        taken: The ops that HTP supports.
    """
    numbers = levels(
        graph.ops,
        lambda source, op: op in taken and source not in taken,
        lambda op: 0 if op in taken else -1,
    )
    return {op: number for op, number in numbers.items() if op in taken}


def move_later(graph: Graph, numbers: dict[Op, int]) -> None:
    """Move ops to later partitions where no more bytes cross between partitions for it.

    Args:
        graph: The graph.
        numbers: The number of each taken op's partition; changed in place.
    """
    for op in reversed(list(graph.ops)):
        if op not in numbers:
            continue
        readers = [reader for tensor in op.outputs for reader in graph.consumers(tensor)]
        if not readers or not all(reader in numbers for reader in readers):
            continue
        now, later = numbers[op], min(numbers[reader] for reader in readers)
        if later == now:
            continue
        before = _crossing(graph, op, numbers)
        numbers[op] = later
        if _crossing(graph, op, numbers) > before:
            numbers[op] = now


def _crossing(graph: Graph, op: Op, numbers: dict[Op, int]) -> int:
    """Return the bytes of those tensors around an op that cross from a partition to elsewhere."""
    tensors = {tensor for tensor in (*op.inputs, *op.outputs) if tensor is not None and not tensor.is_static}
    return sum(tensor.nbytes for tensor in tensors if leaves(graph, tensor, numbers))


def leaves(graph: Graph, tensor: Tensor, numbers: dict[Op, int]) -> bool:
    """Return whether a tensor is computed in a partition and read outside of it.

    Graph outputs do not count, so that marking such tensors as outputs changes nothing here.
    """
    if tensor.producer is None or tensor.producer not in numbers:
        return False
    own = numbers[tensor.producer]
    return any(numbers.get(reader, -1) != own for reader in graph.consumers(tensor))


def crossings(graph: Graph, numbers: dict[Op, int]) -> list[Tensor]:
    """Return the tensors that leave the partitions, in the order of the ops."""
    return [tensor for op in graph.ops for tensor in op.outputs if leaves(graph, tensor, numbers)]


def components(graph: Graph, numbers: dict[Op, int]) -> list[list[Op]]:
    """Return the connected components of the partitions: ops that share a tensor other than static ones."""
    boss: dict[Op, Op] = {op: op for op in numbers}

    def root(op: Op) -> Op:
        while boss[op] is not op:
            boss[op] = op = boss[boss[op]]
        return op

    for tensor in graph.tensors.values():
        first: dict[int, Op] = {}
        producer = () if tensor.producer is None else (tensor.producer,)
        for op in () if tensor.is_static else (*producer, *graph.consumers(tensor)):
            if op in numbers:
                boss[root(op)] = root(first.setdefault(numbers[op], op))
    found: dict[Op, list[Op]] = {}
    for op in graph.ops:
        if op in numbers:
            found.setdefault(root(op), []).append(op)
    return list(found.values())


def work(op: Op) -> int:
    """Return the operations of an op: its multiply-accumulates, or else one for each result.

    Moving and copying counts as none, as the copy to HTP already is one.
    """
    return 0 if traits(op).copies else macs(op) or sum(tensor.size for tensor in op.outputs)


def partition(taken: Mapping[Graph, Collection[Op]]) -> dict[Graph, dict[Op, int]]:
    """Return the number of the partition of each op on HTP, for a graph and those that it runs.

    Components with fewer operations than bytes to copy between CPU and HTP for them go to the CPU, and so do
    partitions that do not make up for starting them besides.  If that would be all of a graph, the latter
    stay; if nothing would be left of any graph, all stay that compute anything.

    Args:
        taken: The ops that HTP supports, of each graph.
    """
    found = {graph: _gainful(graph, ops, CALL) or _gainful(graph, ops, 0) for graph, ops in taken.items()}
    if not any(found.values()):
        for graph, ops in taken.items():
            parts = components(graph, _numbers(graph, ops))
            found[graph] = _numbers(graph, {op for each in parts if any(map(work, each)) for op in each})
    return found


def _gainful(graph: Graph, taken: Collection[Op], least: int) -> dict[Op, int]:
    kept = set(taken)
    while True:
        numbers = _numbers(graph, kept)
        costly = _costly(graph, numbers, least)
        if not costly:
            return numbers
        kept.difference_update(costly)


def _numbers(graph: Graph, taken: Collection[Op]) -> dict[Op, int]:
    numbers = stages(graph, taken)
    move_later(graph, numbers)
    return numbers


def _costly(graph: Graph, numbers: dict[Op, int], least: int) -> list[Op]:
    """Return the ops of components that do not pay off, or else of the partitions that gain least of all.

    Without them others may be joined, so that few are dropped at a time: one, or of very many an eighth.
    """
    gains: dict[int, int] = {}
    members: dict[int, list[Op]] = {}
    costly: list[Op] = []
    for component in components(graph, numbers):
        gain = sum(map(work, component)) - _over(graph, component, numbers)
        if gain < 0:
            costly += component
        gains[numbers[component[0]]] = gains.get(numbers[component[0]], 0) + gain
        members.setdefault(numbers[component[0]], []).extend(component)
    if costly or not gains:
        return costly
    low = sorted((number for number in gains if gains[number] < least), key=lambda number: gains[number])
    return [op for number in low[: max(1, len(low) // AT_ONCE)] for op in members[number]]


def _over(graph: Graph, component: Iterable[Op], numbers: dict[Op, int]) -> int:
    """Return the bytes that are copied from the CPU to a component and back."""
    read: set[Tensor] = set()
    results: set[Tensor] = set()
    for op in component:
        read.update(tensor for tensor in op.inputs if tensor is not None and not tensor.is_static)
        for tensor in op.outputs:
            readers = graph.consumers(tensor)
            if not readers or any(reader not in numbers for reader in readers):
                results.add(tensor)
    outside = (tensor for tensor in read if tensor.producer is None or tensor.producer not in numbers)
    return sum(tensor.nbytes for tensor in (*outside, *results))
