"""RNN, step by step: no backend has an operation for it."""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._recurrent import Cell, time_major, unrolled
from xdlc.converter.operators.registry import Node, importer
from xdlc.converter.values import Value


@importer("RNN", since=7)
def rnn(node: Node, b: Builder) -> list[Value]:
    """Write h' = f(x W + h R + biases)."""

    def step(cell: Cell, share: Value, states: Sequence[Value]) -> list[Value]:
        return [cell.activate(0, cell.sum(share, cell.recur(states[0], 0, 1)))]

    return time_major(node, b, lambda inner, b: unrolled(inner, b, 1, ["Tanh"], [5], step), [5])
