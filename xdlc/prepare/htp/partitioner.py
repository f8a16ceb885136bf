"""Partitioner: divides a graph into partitions for HTP and the rest for the CPU, by a cost model.

There are as few partitions as possible.  Those whose computation does not make up for the copies to HTP and
back go to the CPU.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from xdlc.ir import Graph, Op, Tensor
from xdlc.opdefs.traits import macs, traits


def stages(graph: Graph, taken: Collection[Op]) -> dict[Op, int]:
    """Return for each op that is taken the number of its part.

    An op waits for a further part only if a path from a taken op to it leads through one that is not.
    No division has fewer parts, and in none can a path leave a part and enter it again: numbers never fall
    along a path, and rise where it comes back from an op that is not taken.

    Args:
        graph: The graph.
        taken: The ops that the device takes.
    """
    found: dict[Op, int] = {}
    left: dict[Op, int] = {}
    for op in graph.ops:
        before = [tensor.producer for tensor in op.inputs if tensor is not None]
        inner = max((found[held] for held in before if held in found), default=-1)
        outer = max((left[held] for held in before if held in left), default=-1)
        if op in taken:
            found[op] = max(inner, outer + 1)
        else:
            left[op] = max(inner, outer)
    return found


def settle(graph: Graph, numbers: dict[Op, int]) -> None:
    """Move ops to later parts where no more bytes cross between parts for it.

    Args:
        graph: The graph.
        numbers: The number of each taken op's part; changed in place.
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
    """Return the bytes of those tensors around an op that cross from a part to elsewhere."""
    tensors = {tensor for tensor in (*op.inputs, *op.outputs) if tensor is not None and not tensor.is_static}
    return sum(tensor.nbytes for tensor in tensors if leaves(graph, tensor, numbers))


def leaves(graph: Graph, tensor: Tensor, numbers: dict[Op, int]) -> bool:
    """Return whether an op of a part makes a tensor and one outside of this part reads it.

    Whether the caller gets it too makes no difference, so that marking what leaves changes nothing here.
    """
    if tensor.producer is None or tensor.producer not in numbers:
        return False
    own = numbers[tensor.producer]
    return any(numbers.get(reader, -1) != own for reader in graph.consumers(tensor))


def crossings(graph: Graph, numbers: dict[Op, int]) -> list[Tensor]:
    """Return what leaves the parts, in the order of the ops."""
    return [tensor for op in graph.ops for tensor in op.outputs if leaves(graph, tensor, numbers)]


def components(graph: Graph, numbers: dict[Op, int]) -> list[list[Op]]:
    """Return the ops of the parts in pieces: ops of one part that hand values on or read the same ones."""
    boss: dict[Op, Op] = {op: op for op in numbers}

    def root(op: Op) -> Op:
        while boss[op] is not op:
            boss[op] = op = boss[boss[op]]
        return op

    for group in _neighbours(graph, numbers):
        first, *others = group
        for op in others:
            boss[root(op)] = root(first)
    pieces: dict[Op, list[Op]] = {}
    for op in graph.ops:
        if op in numbers:
            pieces.setdefault(root(op), []).append(op)
    return list(pieces.values())


def _neighbours(graph: Graph, numbers: dict[Op, int]) -> Iterable[list[Op]]:
    for tensor in graph.tensors.values():
        if tensor.is_static:
            continue
        users = [*([tensor.producer] if tensor.producer is not None else []), *graph.consumers(tensor)]
        by_part: dict[int, list[Op]] = {}
        for op in users:
            if op in numbers:
                by_part.setdefault(numbers[op], []).append(op)
        yield from by_part.values()


CALL = 1 << 16
"""What starting a part costs, in bytes that go over to HTP: about what takes as long to copy."""
AT_ONCE = 8
"""Of so many parts that gain too little, one goes at a time: a network can have thousands."""


def work(op: Op) -> int:
    """Return the operations of an op: its multiply-accumulates, or else one for each result.

    Moving and copying is none: the way to HTP is that already.
    """
    return 0 if traits(op).copies else macs(op) or sum(tensor.size for tensor in op.outputs)


def divide(graph: Graph, taken: Collection[Op]) -> tuple[dict[Op, int], list[Op]]:
    """Return the number of the part of each op that HTP gets, and the ops that are not worth it.

    Pieces that do fewer operations than bytes have to cross between CPU and HTP for them go to the CPU, and
    so do parts that do not make up for starting them besides.  If that would be all of them, the latter
    stay; if that would still be all, all stay that compute anything.

    Args:
        graph: The graph.
        taken: The ops that HTP takes.
    """
    numbers = _worth(graph, taken, CALL) or _worth(graph, taken, 0)
    if not numbers:
        pieces = components(graph, _parts(graph, taken))
        numbers = _parts(graph, {op for piece in pieces if any(map(work, piece)) for op in piece})
    return numbers, [op for op in graph.ops if op in taken and op not in numbers]


def _worth(graph: Graph, taken: Collection[Op], least: int) -> dict[Op, int]:
    kept = set(taken)
    while True:
        numbers = _parts(graph, kept)
        poor = _poor(graph, numbers, least)
        if not poor:
            return numbers
        kept.difference_update(poor)


def _parts(graph: Graph, taken: Collection[Op]) -> dict[Op, int]:
    numbers = stages(graph, taken)
    settle(graph, numbers)
    return numbers


def _poor(graph: Graph, numbers: dict[Op, int], least: int) -> list[Op]:
    """Return the ops of pieces that are not worth it, or else of the parts that gain least of all.

    Without them others may come together, so that few go at a time: one, or of very many an eighth.
    """
    gains: dict[int, int] = {}
    members: dict[int, list[Op]] = {}
    poor: list[Op] = []
    for piece in components(graph, numbers):
        gain = sum(map(work, piece)) - _over(graph, piece, numbers)
        if gain < 0:
            poor += piece
        gains[numbers[piece[0]]] = gains.get(numbers[piece[0]], 0) + gain
        members.setdefault(numbers[piece[0]], []).extend(piece)
    if poor or not gains:
        return poor
    low = sorted((number for number in gains if gains[number] < least), key=lambda number: gains[number])
    return [op for number in low[: max(1, len(low) // AT_ONCE)] for op in members[number]]


def _over(graph: Graph, piece: Iterable[Op], numbers: dict[Op, int]) -> int:
    """Return the bytes that go over from the CPU to a piece and back."""
    read: set[Tensor] = set()
    given: set[Tensor] = set()
    for op in piece:
        read.update(tensor for tensor in op.inputs if tensor is not None and not tensor.is_static)
        for tensor in op.outputs:
            readers = graph.consumers(tensor)
            if not readers or any(reader not in numbers for reader in readers):
                given.add(tensor)
    come = (tensor for tensor in read if tensor.producer is None or tensor.producer not in numbers)
    return sum(tensor.nbytes for tensor in (*come, *given))
