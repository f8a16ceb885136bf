"""Recurrent layers step by step: cells of every kind, with masks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from xdlc.converter.keras.ops.activations import function_of
from xdlc.converter.keras.registry import as_float, const
from xdlc.converter.nhwc import windows
from xdlc.converter.nhwc.gathering import split, stack, unstack
from xdlc.converter.nhwc.products import dense
from xdlc.converter.nhwc.shapes import dims, permuted, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value

_STEPS = 128
"""Most steps that are written one after the other."""


class Run(NamedTuple):
    """Results of a recurrent layer.

    Attributes:
        every: The outputs of all steps [N, T, ...], in the order of time.
        last: The output of the step that came last.
        states: The states after it.
    """

    every: Value
    last: Value
    states: list[Value]


class Layer(NamedTuple):
    """A recurrent layer with the facts of its node.

    Attributes:
        kind: Its class: that of the layer or the cell.
        weights: Its weights by role.
        cells: Cells of a layer of several.
    """

    kind: str
    config: Mapping[str, Any]
    weights: Mapping[str, Value]
    cells: Sequence[Layer] = ()

    def flag(self, name: str, default: bool = False) -> bool:
        """Return an option that is true or false."""
        return bool(self.config.get(name, default))


def needed(node: Node, layer: Layer, role: str) -> Value:
    value = layer.weights.get(role)
    if value is None:
        raise node.invalid(f"the layer has no weight {role!r}")
    return value


Step = Callable[[Value, list[Value]], tuple[Value, list[Value]]]


class Stepper(NamedTuple):
    """A cell that is applied step by step.

    Attributes:
        step: Returns the output and the new states for an input and states.
        shapes: Returns the shapes of the states, without the batch, for an input.
    """

    step: Step
    shapes: Callable[[Value], list[tuple[int, ...]]]


def stepped(
    node: Node,
    g: Operators,
    layer: Layer,
    cell: Stepper,
    x: Value,
    states: list[Value],
    mask: Value | None,
    reverse: bool,
) -> Run:
    """Apply a cell to each step; masked steps repeat output and states."""
    batch, count = dims(x, [0, 1])
    if count > _STEPS:
        raise node.problem(
            f"the sequence has {count} steps; xdlc unrolls at most {_STEPS} steps of this layer",
            "use a plain LSTM, GRU or SimpleRNN without mask",
        )
    zeros = layer.flag("zero_output_for_mask")
    taken = unstack(g, x, count, 1)
    parts = [] if mask is None else split(g, as_float(g, mask), [1] * count, 1)  # HTP cuts no truth values
    shapes = cell.shapes(taken[0]) if not states else []
    states = states or [const(g, np.zeros((batch, *shape))) for shape in shapes]
    outputs: dict[int, Value] = {}
    output: Value | None = None
    for index in reversed(range(count)) if reverse else range(count):
        new, after = cell.step(taken[index], states)
        if mask is not None:
            active = g("Greater", [parts[index], const(g, 0)])
            before = const(g, 0) if output is None or zeros else output
            shown = _where(g, active, new, before)
            output = _where(g, active, new, const(g, 0) if output is None else output) if zeros else shown
            states = [_where(g, active, *pair) for pair in zip(after, states, strict=True)]
            outputs[index] = shown
        else:
            output, states = new, after
            outputs[index] = new
    if output is None:
        raise node.problem("the sequence has no steps")
    return Run(stack(g, [outputs[index] for index in range(count)], 1), output, states)


def _where(g: Operators, active: Value, new: Value, old: Value) -> Value:
    """Return ``new`` for examples [N, 1] that are active, else ``old``."""
    if new.rank > 2:
        active = g("Unsqueeze", [active, vector(g, range(2, new.rank))])
    return g("Where", [active, new, old])


def stacked(node: Node, g: Operators, cells: Sequence[Layer]) -> Stepper:
    """Return a single cell that runs stacked cells."""
    steppers = [_cell(node, g, cell) for cell in cells]
    if not steppers:
        raise node.invalid("the layer has no cell")
    counts = [2 if "LSTM" in cell.kind else 1 for cell in cells]

    def step(x: Value, states: list[Value]) -> tuple[Value, list[Value]]:
        rest, new_states = list(states), []
        for stepper, count in zip(steppers, counts, strict=True):
            own, rest = rest[:count], rest[count:]
            x, new = stepper.step(x, own)
            new_states += new
        return x, new_states

    return Stepper(step, lambda x: [shape for stepper in steppers for shape in stepper.shapes(x)])


def _cell(node: Node, g: Operators, cell: Layer) -> Stepper:
    """Return a cell: an LSTM, GRU or simple one, dense or a convolution."""
    kind = cell.kind.removesuffix("Cell")
    if kind not in ("LSTM", "GRU", "SimpleRNN", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"):
        raise node.problem(f"xdlc does not support cells of class {cell.kind}")
    kernel, recurrence = needed(node, cell, "kernel"), needed(node, cell, "recurrent_kernel")
    bias = cell.weights.get("bias")
    own = function_of(node, cell.config.get("activation", "tanh"))
    default = "hard_sigmoid" if kind.startswith("Conv") else "sigmoid"
    gate = function_of(node, cell.config.get("recurrent_activation", default))
    units = recurrence.shape[-2]

    def parts(x: Value, count: int) -> list[Value]:
        return split(g, x, [units] * count, x.rank - 1)

    def product(x: Value, matrix: Value, offset: Value | None = None) -> Value:
        return dense(g, x, permuted(g, matrix, (1, 0)), offset)

    def lstm(shares: list[Value], memory: Value) -> tuple[Value, list[Value]]:
        taken, kept, new, shown = shares
        memory = g("Add", [g("Mul", [gate(g, kept), memory]), g("Mul", [gate(g, taken), own(g, new)])])
        output = g("Mul", [gate(g, shown), own(g, memory)])
        return output, [output, memory]

    def lstm_step(x: Value, states: list[Value]) -> tuple[Value, list[Value]]:
        total = g("Add", [product(x, kernel, bias), product(states[0], recurrence)])
        return lstm(parts(total, 4), states[1])

    def simple_step(x: Value, states: list[Value]) -> tuple[Value, list[Value]]:
        hidden = own(g, g("Add", [product(x, kernel, bias), product(states[0], recurrence)]))
        return hidden, [hidden]

    def gru_step(x: Value, states: list[Value]) -> tuple[Value, list[Value]]:
        (state,) = states
        offsets: list[Value | None] = [bias, None]
        if bias is not None and bias.rank == 2:
            offsets = [const(g, row) for row in bias.numpy()]
        update, reset, new = parts(product(x, kernel, offsets[0]), 3)
        if cell.flag("reset_after", bias is None or bias.rank == 2):
            shares = parts(product(state, recurrence, offsets[1]), 3)
            reset = gate(g, g("Add", [reset, shares[1]]))
            inner = g("Mul", [reset, shares[2]])
        else:
            own_parts = parts(recurrence, 3)
            shares = [product(state, part) for part in own_parts[:2]]
            reset = gate(g, g("Add", [reset, shares[1]]))
            inner = product(g("Mul", [reset, state]), own_parts[2])
        update = gate(g, g("Add", [update, shares[0]]))
        new = own(g, g("Add", [new, inner]))
        hidden = g("Add", [g("Mul", [update, state]), g("Mul", [g("Sub", [const(g, 1), update]), new])])
        return hidden, [hidden]

    if kind.startswith("ConvLSTM"):
        return _convolved(node, g, cell, (kernel, recurrence, bias), parts, lstm)
    step = {"LSTM": lstm_step, "GRU": gru_step, "SimpleRNN": simple_step}[kind]
    return Stepper(step, lambda x: [(units,)] * (2 if kind == "LSTM" else 1))


def _convolved(
    node: Node,
    g: Operators,
    cell: Layer,
    weights: tuple[Value, Value, Value | None],
    parts: Callable[[Value, int], list[Value]],
    lstm: Callable[[list[Value], Value], tuple[Value, list[Value]]],
) -> Stepper:
    """Return the cell of a ConvLSTM, which convolves inputs and state."""
    kernel, recurrence, bias = weights
    count = kernel.rank - 2
    steps, gaps = (_spatial(cell.config.get(name, 1), count) for name in ("strides", "dilation_rate"))
    padding = str(cell.config.get("padding", "valid")).upper()
    is_first = cell.config.get("data_format") == "channels_first"
    if is_first:
        raise node.problem(
            "xdlc does not support a ConvLSTM with data_format channels_first", "use channels_last"
        )

    def share(x: Value) -> Value:
        return windows.conv(g, x, kernel, bias, strides=steps, padding=padding, dilations=gaps)

    def step(x: Value, states: list[Value]) -> tuple[Value, list[Value]]:
        again = windows.conv(g, states[0], recurrence, strides=[1] * count, padding="SAME")
        return lstm(parts(g("Add", [share(x), again]), 4), states[1])

    return Stepper(step, lambda x: [(*share(x).shape[1:-1], recurrence.shape[-2])] * 2)


def _spatial(given: Any, count: int) -> list[int]:
    return [given] * count if type(given) is int else list(given)
