"""GRU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import joined, number, part
from xdlc.converter.operators.ops._recurrent import (
    Cell,
    all_ways,
    block,
    checked_units,
    directions,
    has_static_weights,
    lengths,
    time_major,
    unrolled,
)
from xdlc.converter.operators.registry import Node, importer
from xdlc.converter.values import Value, check_table, identity
from xdlc.ir import Tensor, TensorData
from xdlc.opdefs.elementwise_enums import SUBTRACT

UPDATE, RESET, HIDDEN = range(3)


@importer("GRU", since=7)
def gru(node: Node, b: Builder) -> list[Value]:
    """Map each direction onto one Gru; unroll the forms that it lacks."""
    return time_major(node, b, _time_major, [5])


def _time_major(node: Node, b: Builder) -> list[Value]:
    x = node.required(0)
    if x.rank != 3:
        raise node.invalid(f"input has rank {x.rank} instead of 3")
    after = node.flag("linear_before_reset")
    if not _offered(node, x):
        return _unrolled(node, b, after=after)
    runs = [_direction(node, b, index, backwards, after) for index, backwards in enumerate(directions(node))]
    return [all_ways(b, [every for every, _ in runs]), joined(b, [last for _, last in runs], 0)]


def _offered(node: Node, x: Value) -> bool:
    """Return whether QNN's Gru computes the same."""
    usual = ["sigmoid", "tanh"] * len(directions(node))
    named = [name.lower() for name in node.attr("activations") or usual]
    node.attr("hidden_size")
    return (
        named == usual
        and node.attr("clip") is None
        and x.shape[0] > 0
        and lengths(node, *x.shape[:2]) is None
        and has_static_weights(node, (1, 2, 3))
    )


def _direction(node: Node, b: Builder, index: int, backwards: bool, after: bool) -> tuple[Value, Value]:
    """Append one Gru; return all hidden states [T, N, H] and the last one [1, N, H]."""
    x, initial = node.required(0), node.input(5)
    steps, batch, _ = x.shape
    units = checked_units(node, 3)
    nothing = ir.ArrayData(np.zeros(6 * units, x.dtype.numpy))
    bias = nothing if node.input(3) is None else block(node, 3, index)

    def gate(data: TensorData, kind: str, place: int) -> Tensor:
        rows = data.transform(
            lambda array: array[place * units : (place + 1) * units], shape=(units, *data.shape[1:])
        )
        return b.source_order(b.const(rows, f"{b.stem}_{kind}{place}_{index}"))

    if initial is None:
        check_table(batch, units)
        start = b.const(np.zeros((1, batch, units), x.dtype.numpy), f"{b.stem}_hidden_{index}")
    else:
        start = part(b, initial, 0, index, index + 1)
    # HTP wants biases and the first state, which have defaults.
    inputs = [b.source_order(x)]
    for position, kind in ((1, "w"), (2, "r")):
        data = block(node, position, index)
        inputs += [gate(data, kind, place) for place in (UPDATE, RESET, HIDDEN)]
    inputs += [*(gate(bias, "b", place) for place in range(6)), b.source_order(start)]
    params: dict[str, ir.Param] = {
        "direction": ir.u32(int(backwards)),
        "linear_before_reset": ir.u32(int(after)),
        "time_major": ir.b8(True),
    }
    shapes = [(steps, batch, units), (1, batch, units)]
    every, last = b.emit_many("Gru", inputs, [(shape, x.dtype) for shape in shapes], params)
    return Value(every, identity(3)), Value(last, identity(3))


def _unrolled(node: Node, b: Builder, *, after: bool) -> list[Value]:
    """Write h' = (1 - z) * g(...) + z * h; the reset gate acts before or after R."""

    def step(cell: Cell, share: Value, states: Sequence[Value]) -> list[Value]:
        (state,) = states
        both = cell.sum(cell.gate(share, UPDATE, 2), cell.recur(state, UPDATE, 2))
        gates = cell.activate(0, both)
        update, reset = cell.gate(gates, 0), cell.gate(gates, 1)
        if after:
            inner = cell.times(reset, cell.recur(state, HIDDEN, 1))
        else:
            inner = cell.recur(cell.times(reset, state), HIDDEN, 1)
        new = cell.activate(1, cell.sum(cell.gate(share, HIDDEN), inner))
        rest = b.binary(SUBTRACT, number(b, update, 1), update)
        return [cell.sum(cell.times(rest, new), cell.times(update, state))]

    return unrolled(node, b, 3, ["Sigmoid", "Tanh"], [5], step)
