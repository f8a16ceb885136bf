"""Recurrent layers: one canonical operator for the sequence, else step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from xdlc.converter.functions import windows
from xdlc.converter.functions.gathering import split, stack, unstack
from xdlc.converter.functions.products import dense, swapped
from xdlc.converter.functions.recurrence import (
    LIMIT,
    Function,
    Step,
    cell_step,
    lstm_cell,
    one_way,
    unrolled,
    weights_of,
)
from xdlc.converter.functions.shapes import dims, permuted
from xdlc.converter.functions.slicing import reversed_axes
from xdlc.converter.functions.terms import Term
from xdlc.converter.keras.ops.activations import function_of
from xdlc.converter.keras.registry import Operand, argument, as_float, const, handler, inputs
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value
from xdlc.opdefs.cells import ORDERS

_ONNX = {
    "sigmoid": ("Sigmoid",),
    "tanh": ("Tanh",),
    "relu": ("Relu",),
    "linear": ("Affine", 1.0, 0.0),
    "hard_sigmoid": ("HardSigmoid", 1 / 6, 0.5),
    "hard_sigmoid_2": ("HardSigmoid", 0.2, 0.5),
    "elu": ("Elu", 1.0),
    "softsign": ("Softsign",),
    "softplus": ("Softplus",),
}
"""Activations that recurrent operators of ONNX have, with their numbers."""
_CELLS = {"LSTM": "LSTM", "GRU": "GRU", "SimpleRNN": "RNN"}
"""Canonical operators."""
_CONVOLVED = ("ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D")
_LAYERS = (*_CELLS, "RNN", *_CONVOLVED)
_OPTIONS = """
units unit_forget_bias unroll return_state return_sequences filters kernel_size inner merge_mode
initial_state activation recurrent_activation use_bias go_backwards stateful zero_output_for_mask reset_after
padding strides data_format dilation_rate time_major weights mask inputs
"""


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


@handler(*_LAYERS)
def recurrent(node: Node, g: Operators) -> list[Value]:
    """Run a layer over sequences."""
    layer = _layer(node, node.type, dict(node.attributes), node.attr("inner") or [], "")
    x, mask, states = _arguments(node, g)
    _check(node, layer)
    every, last, *after = _run(node, g, layer, x, states, mask)
    if layer.flag("return_sequences"):
        last = reversed_axes(g, every, [1]) if layer.flag("go_backwards") else every
    return [last, *after] if layer.flag("return_state") else [last]


@handler("Bidirectional")
def bidirectional(node: Node, g: Operators) -> list[Value]:
    """Run two layers over sequences, one in each direction, and merge their outputs."""
    described = node.attr("inner") or []
    if len(described) != 2:
        raise node.invalid("the layer does not have two layers")
    x, mask, states = _arguments(node, g)
    _check(node, _layer(node, node.type, dict(node.attributes), [], ""))
    runs, half = [], len(states) // 2
    for index, entry in enumerate(described):
        layer = _layer(node, entry["kind"], entry["config"], entry["inner"], entry["group"])
        if layer.kind not in _LAYERS:
            raise node.problem(f"xdlc does not support this layer around a layer of class {layer.kind}")
        _check(node, layer)
        layer = layer._replace(config={**layer.config, "zero_output_for_mask": True})
        runs.append(_run(node, g, layer, x, states[index * half : (index + 1) * half], mask))
    pair = [run[0 if layer.flag("return_sequences") else 1] for run in runs]
    last = [state for run in runs for state in run[2:]] if layer.flag("return_state") else []
    return [*_merged(node, g, pair), *last]


def _merged(node: Node, g: Operators, pair: list[Value]) -> list[Value]:
    mode = node.attr("merge_mode", "concat")
    if mode is None:
        return pair
    if mode == "concat":
        return [g("Concat", pair, axis=pair[0].rank - 1)]
    if mode not in ("sum", "ave", "mul"):
        raise node.invalid(f"merge_mode is unknown: {mode!r:.40}")
    made = g("Mul" if mode == "mul" else "Add", pair)
    return [g("Mul", [made, 0.5]) if mode == "ave" else made]


def _layer(node: Node, kind: str, config: Mapping[str, Any], inner: Sequence[Any], group: str) -> Layer:
    """Return a layer with the weights of its group, and its cells."""
    roles = node.attr("weights", {})
    prefix = f"{group}/" if group else ""
    own_weights = {}
    for role in roles:
        short = role.removeprefix(prefix).removeprefix("cell/")
        if role.startswith(prefix) and "/" not in short:
            own_weights[short] = node.required(roles[role])
    cells = []
    for cell in inner:
        cells.append(_layer(node, cell["kind"], cell["config"], cell["inner"], f"{prefix}{cell['group']}"))
    node.read.update(_OPTIONS.split())
    return Layer(kind, config, own_weights, cells)


def _check(node: Node, layer: Layer) -> None:
    """Refuse layers that depend on earlier calls.

    Raises:
        UnsupportedOp: If the layer keeps its state between calls, or has another order of axes.
    """
    if layer.flag("time_major"):
        raise node.problem("time_major", "save the model with time_major=False")
    if layer.flag("stateful"):
        raise node.problem(
            "xdlc does not support stateful layers",
            "add inputs (initial_state) and outputs (return_state) for the states to the model",
        )


def _arguments(node: Node, g: Operators) -> tuple[Value, Value | None, list[Value]]:
    """Return the sequences, the mask of steps, and initial states."""
    x, *states = inputs(node)
    given = node.attr("initial_state")
    if given is not None:
        listed = _flat(given)
        if not all(isinstance(each, Operand) for each in listed):
            raise node.problem("an initial state is not a tensor of the model")
        states = [node.required(each.place) for each in listed]
    mask = argument(node, "mask") if not isinstance(node.attr("mask"), list) else None
    return as_float(g, x), mask, [as_float(g, state) for state in states]


def _flat(given: Any) -> list[Any]:
    if type(given) is list:
        return [each for entry in given for each in _flat(entry)]
    return [given]


def _needed(node: Node, layer: Layer, role: str) -> Value:
    value = layer.weights.get(role)
    if value is None:
        raise node.invalid(f"the layer has no weight {role!r}")
    return value


def _run(
    node: Node, g: Operators, layer: Layer, x: Value, states: list[Value], mask: Value | None
) -> list[Value]:
    """Return all outputs [N, T, ...], the last one, and the last states."""
    reverse, names = layer.flag("go_backwards"), _activations(layer)
    if layer.kind in _CELLS and mask is None and all(name in _ONNX for name in names):
        return _whole(node, g, layer, x, states, names, reverse)
    cells = layer.cells if layer.kind == "RNN" else [layer]
    if len(cells) == 1 and cells[0].kind == "StackedRNNCells":
        cells = cells[0].cells
    batch, count = dims(x, [0, 1])
    if not 0 < count <= LIMIT:
        raise node.problem(
            f"the sequence has {count} steps; xdlc unrolls at most {LIMIT} steps of this layer",
            "use a plain LSTM, GRU or SimpleRNN without mask",
        )
    rows, masks = unstack(g, x, count, 1), list[Value | None]([None] * count)
    if mask is not None:
        parts = split(g, as_float(g, mask), [1] * count, 1)  # HTP cuts no truth values
        masks = [g("Greater", [part, 0]) for part in parts]
    steppers = [_cell(node, g, cell) for cell in cells]
    if not steppers:
        raise node.invalid("the layer has no cell")
    if not states:
        shapes = [shape for stepper in steppers for shape in stepper.shapes(rows[0])]
        states = [const(g, np.zeros((batch, *shape))) for shape in shapes]

    def step(row: Value, before: Sequence[Value]) -> list[Value]:
        after: list[Value] = []
        for stepper, cell in zip(steppers, cells, strict=True):
            size = 2 if "LSTM" in cell.kind else 1
            after += stepper.step(row, before[len(after) : len(after) + size])
            row = after[-size]
        return after

    shown = -2 if "LSTM" in cells[-1].kind else -1
    zeros = layer.flag("zero_output_for_mask")
    run = unrolled(g, rows, states, step, masks, shown=shown, reverse=reverse, zeros=zeros)
    return [stack(g, run.every, 1), run.last, *run.states]


def _activations(layer: Layer) -> list[Any]:
    gate = layer.config.get("recurrent_activation", "sigmoid")
    own = layer.config.get("activation", "tanh")
    own = "linear" if own is None else own
    names = {"LSTM": [gate, own, own], "GRU": [gate, own]}.get(layer.kind, [own])
    return [name if isinstance(name, str) else "" for name in names]


def _dense_weights(
    node: Node, g: Operators, layer: Layer
) -> tuple[Value, Value, Value | None, Value | None, bool]:
    """Return weights, both biases, and whether a reset follows the product."""
    kernel, recurrence = (swapped(g, _needed(node, layer, role)) for role in ("kernel", "recurrent_kernel"))
    bias = layer.weights.get("bias")
    after = layer.flag("reset_after", bias is None or bias.rank == 2)
    rows = [bias, None] if bias is None or bias.rank == 1 else unstack(g, bias, 2, 0)
    return kernel, recurrence, rows[0], rows[1], after


def _whole(
    node: Node, g: Operators, layer: Layer, x: Value, states: list[Value], names: list[str], reverse: bool
) -> list[Value]:
    """Apply LSTM, GRU or RNN of ONNX."""
    kernel, recurrence, bias, state_bias, after = _dense_weights(node, g, layer)
    cell, units = _CELLS[layer.kind], recurrence.shape[1]
    rows = len(ORDERS[cell]["Keras"]) * units
    if x.rank != 3 or kernel.shape != (rows, x.shape[-1]) or recurrence.shape != (rows, units):
        shapes = " and ".join(str(list(value.shape[::-1])) for value in (kernel, recurrence))
        raise node.invalid(f"an input {list(x.shape)} and weights {shapes} do not fit")
    initial: Sequence[Value | None] = states or [None] * (2 if cell == "LSTM" else 1)
    numbers = [_ONNX[name][1:] for name in names]
    attributes: dict[str, Any] = {"activations": [_ONNX[name][0] for name in names]}
    for place, name in enumerate(("activation_alpha", "activation_beta")):
        stated = [pair[place] for pair in numbers if len(pair) > place]
        attributes |= {name: stated} if stated else {}
    attributes |= {"linear_before_reset": int(after)} if cell == "GRU" else {}
    weights = weights_of(g, cell, "Keras", kernel, recurrence, bias, state_bias)
    every, *last = one_way(
        g, cell, permuted(g, x, (1, 0, 2)), weights, initial, reverse=reverse, **attributes
    )
    return [permuted(g, every, (1, 0, 2)), last[0], *last]


class _Stepper(NamedTuple):
    """A cell that is applied step by step.

    Attributes:
        step: Returns the next states for an input and states.
        shapes: Returns the shapes of the states, without the batch, for an input.
    """

    step: Step
    shapes: Callable[[Value], list[tuple[int, ...]]]


def _cell(node: Node, g: Operators, cell: Layer) -> _Stepper:
    """Return a cell: an LSTM, GRU or simple one, dense or a convolution."""
    kind = cell.kind.removesuffix("Cell")
    if kind not in (*_CELLS, *_CONVOLVED):
        raise node.problem(f"xdlc does not support cells of class {cell.kind}")
    default = "hard_sigmoid" if kind.startswith("Conv") else "sigmoid"
    gate, own = (
        partial(_applied, function_of(node, cell.config.get(name, usual)))
        for name, usual in (("recurrent_activation", default), ("activation", "tanh"))
    )
    if kind.startswith("Conv"):
        return _convolved(node, g, cell, (gate, own, own))
    kernel, recurrence, bias, state_bias, after = _dense_weights(node, g, cell)
    functions = {"LSTM": (gate, own, own), "GRU": (gate, own)}.get(kind, (own,))
    step = cell_step(g, _CELLS[kind], "Keras", recurrence, state_bias, functions, after=after)
    shapes: list[tuple[int, ...]] = [(recurrence.shape[1],)] * (2 if kind == "LSTM" else 1)
    return _Stepper(lambda x, states: step(dense(g, x, kernel, bias), states), lambda _: shapes)


def _applied(function: Callable[..., Value], x: Term) -> Term:
    return x.via(function)


def _convolved(node: Node, g: Operators, cell: Layer, functions: Sequence[Function]) -> _Stepper:
    """Return the cell of a ConvLSTM, which convolves inputs and state."""
    kernel, recurrence = _needed(node, cell, "kernel"), _needed(node, cell, "recurrent_kernel")
    count, bias = kernel.rank - 2, cell.weights.get("bias")
    steps, gaps = (_spatial(cell.config.get(name, 1), count) for name in ("strides", "dilation_rate"))
    padding = str(cell.config.get("padding", "valid")).upper()
    if cell.config.get("data_format") == "channels_first":
        raise node.problem(
            "xdlc does not support a ConvLSTM with data_format channels_first", "use channels_last"
        )

    def share(x: Value) -> Value:
        return windows.conv(g, x, kernel, bias, strides=steps, padding=padding, dilations=gaps)

    def step(x: Value, states: Sequence[Value]) -> list[Value]:
        again = windows.conv(g, states[0], recurrence, strides=[1] * count, padding="SAME")
        return lstm_cell(g, g("Add", [share(x), again]), states[1], "Keras", functions)

    return _Stepper(step, lambda x: [(*share(x).shape[1:-1], recurrence.shape[-2])] * 2)


def _spatial(stated: Any, count: int) -> list[int]:
    return [stated] * count if type(stated) is int else list(stated)
