"""Whether a part of a graph is worth going over to HTP and back."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from xdlc.ir import Graph, Op, Tensor
from xdlc.opdefs.traits import macs, traits
from xdlc.prepare.htp.partitioner import components, settle, stages

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
