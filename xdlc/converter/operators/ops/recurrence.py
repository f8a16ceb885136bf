"""RNN, GRU and LSTM; no backend has an operation for RNN, which is unrolled."""

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


@importer("RNN", since=7)
def rnn(node: Node, b: Builder) -> list[Value]:
    """Write h' = f(x W + h R + biases)."""

    def step(cell: Cell, share: Value, states: Sequence[Value]) -> list[Value]:
        return [cell.activate(0, cell.sum(share, cell.recur(states[0], 0, 1)))]

    return time_major(node, b, lambda inner, b: unrolled(inner, b, 1, ["Tanh"], [5], step), [5])


UPDATE, RESET, HIDDEN = range(3)


@importer("GRU", since=7)
def gru(node: Node, b: Builder) -> list[Value]:
    """Map each direction onto one Gru; unroll the forms that it lacks."""
    return time_major(node, b, _gru_time_major, [5])


def _gru_time_major(node: Node, b: Builder) -> list[Value]:
    x = node.required(0)
    if x.rank != 3:
        raise node.invalid(f"the input has rank {x.rank} instead of 3")
    after = node.flag("linear_before_reset")
    if not _gru_offered(node, x):
        return _gru_unrolled(node, b, after=after)
    runs = [
        _gru_direction(node, b, index, backwards, after) for index, backwards in enumerate(directions(node))
    ]
    return [all_ways(b, [every for every, _ in runs]), joined(b, [last for _, last in runs], 0)]


def _gru_offered(node: Node, x: Value) -> bool:
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


def _gru_direction(node: Node, b: Builder, index: int, backwards: bool, after: bool) -> tuple[Value, Value]:
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


def _gru_unrolled(node: Node, b: Builder, *, after: bool) -> list[Value]:
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


# Stated because the vendor's reader states them for a file without them.
_DEFAULTS: dict[str, ir.Param] = {
    **{
        name: ir.f32(0.0)
        for name in (
            "cell_clip_threshold",
            "output_clip_threshold",
            "input_gate_qscale",
            "forget_gate_qscale",
            "cell_gate_qscale",
            "output_gate_qscale",
            "hidden_state_qscale",
        )
    },
    "hidden_state_offset": ir.i32(0),
}
_GATES = {"input": 0, "output": 1, "forget": 2, "cell": 3}  # ONNX's order of the four blocks


@importer("LSTM", since=7)
def lstm(node: Node, b: Builder) -> list[Value]:
    """Map each direction onto one Lstm; unroll the forms that it lacks."""
    return time_major(node, b, _lstm_time_major, [5, 6])


def _lstm_time_major(node: Node, b: Builder) -> list[Value]:
    x = node.required(0)
    if x.rank != 3:
        raise node.invalid(f"the input has rank {x.rank} instead of 3")
    flags = directions(node)
    if not _lstm_offered(node, x):
        return _lstm_unrolled(node, b)
    runs = [_lstm_direction(node, b, x, index, reverse) for index, reverse in enumerate(flags)]
    return [all_ways(b, [run[0] for run in runs]), *(joined(b, [run[i] for run in runs], 0) for i in (1, 2))]


def _lstm_offered(node: Node, x: Value) -> bool:
    """Return whether QNN's Lstm computes the same."""
    usual = ["sigmoid", "tanh", "tanh"] * len(directions(node))
    named = [name.lower() for name in node.attr("activations") or usual]
    node.attr("hidden_size")
    return (
        named == usual
        and not node.attr("input_forget")
        and node.attr("clip") is None
        and lengths(node, *x.shape[:2]) is None
        and has_static_weights(node, (1, 2, 3, 7))
    )


def _lstm_unrolled(node: Node, b: Builder) -> list[Value]:
    coupled = node.flag("input_forget")
    peepholes = node.input(7)

    def peep(cell: Cell, total: Value, index: int, memory: Value, direction: int) -> Value:
        if peepholes is None:
            return total
        units = cell.units
        own = b.reshape(part(b, peepholes, 0, direction, direction + 1), (3 * units,))
        weight = part(b, own, 0, index * units, (index + 1) * units)
        return cell.sum(total, cell.times(weight, memory))

    def step(cell: Cell, share: Value, states: Sequence[Value]) -> list[Value]:
        hidden, memory = states
        total = cell.sum(share, cell.recur(hidden, 0, 4))
        gate = {name: cell.gate(total, index) for name, index in _GATES.items()}
        taken = cell.activate(0, peep(cell, gate["input"], 0, memory, cell.index))
        if coupled:
            kept = b.binary(SUBTRACT, number(b, taken, 1), taken)
        else:
            kept = cell.activate(0, peep(cell, gate["forget"], 2, memory, cell.index))
        new = cell.activate(1, gate["cell"])
        memory = cell.sum(cell.times(kept, memory), cell.times(taken, new))
        shown = cell.activate(0, peep(cell, gate["output"], 1, memory, cell.index))
        return [cell.times(shown, cell.functions[2](b, memory)), memory]

    return unrolled(node, b, 4, ["Sigmoid", "Tanh", "Tanh"], [5, 6], step)


def _lstm_direction(node: Node, b: Builder, x: Value, index: int, reverse: bool) -> list[Value]:
    """Append one Lstm; return hidden states [T, N, H], last one and cell [1, N, H]."""
    steps, batch, _ = x.shape
    weight, recurrence = block(node, 1, index), block(node, 2, index)
    units = checked_units(node, 4)
    bias = _lstm_bias(node, index, units, weight.dtype)
    peepholes = node.input(7)

    def gate(data: TensorData, name: str, what: str) -> Tensor:
        place = _GATES[name]
        part = data.transform(
            lambda array: array[place * units : (place + 1) * units], shape=(units, *data.shape[1:])
        )
        return b.source_order(b.const(part, f"{b.stem}_{what}_{name}_{index}"))

    def state(position: int, what: str) -> Tensor:
        initial = node.input(position)
        if initial is None:
            check_table(batch, units)
            zeros = np.zeros((batch, units), x.dtype.numpy)
            return b.source_order(b.const(zeros, f"{b.stem}_{what}_{index}"))
        count = initial.shape[0]
        if count > 1 and initial.is_static:
            return b.source_order(b.const(initial.numpy()[index], f"{b.stem}_{what}_{index}"))
        own = part(b, initial, 0, index, index + 1)
        return b.source_order(b.reshape(own, initial.shape[1:]))

    once = steps == 1  # HTP's emulation (SDK 2.51) executes single steps only
    inputs: list[Tensor | None] = [b.source_order(b.reshape(x, x.shape[1:]) if once else x)]
    inputs += [gate(weight, name, "w") for name in ("forget", "cell", "output")]
    inputs += [gate(recurrence, name, "r") for name in ("forget", "cell", "output")]
    inputs += [gate(bias, name, "b") for name in ("forget", "cell", "output")]
    inputs += [state(5, "hidden"), state(6, "cell"), None, None, None, None]
    inputs += [gate(weight, "input", "w"), gate(recurrence, "input", "r")]
    if peepholes is None:
        inputs += [None, None, None]
    else:
        array = peepholes.numpy()[index].reshape(3, units)  # input, output, forget
        inputs += [b.source_order(b.const(array[row], f"{b.stem}_p{row}_{index}")) for row in (0, 2, 1)]
    inputs += [gate(bias, "input", "b"), None, None]  # HTP wants all 24 positions
    params: dict[str, ir.Param] = {"direction": ir.u32(int(reverse)), "time_major": ir.b8(True), **_DEFAULTS}
    shapes = [(batch, units) if once else (steps, batch, units), (batch, units), (batch, units)]
    hidden, cell, last = (
        Value(tensor, identity(tensor.rank))
        for tensor in b.emit_many("Lstm", inputs, [(shape, x.dtype) for shape in shapes], params)
    )
    return [
        b.reshape(hidden, (steps, batch, units)),
        b.reshape(last, (1, batch, units)),
        b.reshape(cell, (1, batch, units)),
    ]


def _lstm_bias(node: Node, index: int, units: int, dtype: np.dtype[np.float32]) -> TensorData:
    value = node.input(3)
    if value is None or value.tensor.data is None:
        return ir.ArrayData(np.zeros(4 * units, dtype))
    return value.tensor.data.transform(
        lambda array: array[index][: 4 * units] + array[index][4 * units :], shape=(4 * units,)
    )
