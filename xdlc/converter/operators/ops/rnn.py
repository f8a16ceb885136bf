"""RNN and GRU, step by step: no backend has an operation for them."""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import number
from xdlc.converter.operators.ops._recurrent import Cell, time_major, unrolled
from xdlc.converter.operators.registry import Node, importer
from xdlc.converter.values import Value
from xdlc.opdefs.elementwise_enums import SUBTRACT

UPDATE, RESET, HIDDEN = range(3)


@importer("RNN", since=7)
def rnn(node: Node, b: Builder) -> list[Value]:
    """Write h' = f(x W + h R + biases)."""

    def step(cell: Cell, share: Value, states: Sequence[Value]) -> list[Value]:
        return [cell.activate(0, cell.sum(share, cell.recur(states[0], 0, 1)))]

    return time_major(node, b, lambda inner, b: unrolled(inner, b, 1, ["Tanh"], [5], step), [5])


@importer("GRU", since=7)
def gru(node: Node, b: Builder) -> list[Value]:
    """Write h' = (1 - z) * g(...) + z * h with the update gate z; the reset gate acts before or after R."""
    behind = bool(node.attr("linear_before_reset", 0))

    def step(cell: Cell, share: Value, states: Sequence[Value]) -> list[Value]:
        (state,) = states
        both = cell.sum(cell.gate(share, UPDATE, 2), cell.recur(state, UPDATE, 2))
        gates = cell.activate(0, both)
        update, reset = cell.gate(gates, 0), cell.gate(gates, 1)
        if behind:
            inner = cell.times(reset, cell.recur(state, HIDDEN, 1))
        else:
            inner = cell.recur(cell.times(reset, state), HIDDEN, 1)
        new = cell.activate(1, cell.sum(cell.gate(share, HIDDEN), inner))
        rest = b.binary(SUBTRACT, number(b, update, 1), update)
        return [cell.sum(cell.times(rest, new), cell.times(update, state))]

    default = ["Sigmoid", "Tanh"]
    return time_major(node, b, lambda inner, b: unrolled(inner, b, 3, default, [5], step), [5])
