"""Recurrent layers: one canonical operator for the sequence, else step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xdlc.converter.keras.ops._steps import Layer, Run, needed, stacked, stepped
from xdlc.converter.keras.registry import Operand, argument, as_float, const, handler, inputs
from xdlc.converter.nhwc.shapes import permuted, vector
from xdlc.converter.nhwc.slicing import reversed_axes
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value
from xdlc.ir.data import Array

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
_GATES = {"LSTM": ("ifco", "iofc"), "GRU": ("zrh", "zrh"), "SimpleRNN": ("h", "h")}
"""Order of the gates in the weights of Keras, and in those of ONNX."""
_OPTIONS = """
units unit_forget_bias unroll return_state return_sequences filters kernel_size inner merge_mode
initial_state activation recurrent_activation use_bias go_backwards stateful zero_output_for_mask reset_after
padding strides data_format dilation_rate time_major weights mask inputs
"""


@handler("LSTM", "GRU", "SimpleRNN", "RNN", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D")
def recurrent(node: Node, g: Operators) -> list[Value]:
    """Run a layer over sequences."""
    layer = _layer(node, node.type, dict(node.attributes), node.attr("inner") or [], "")
    x, mask, states = _arguments(node, g)
    _check(node, layer)
    run = _run(node, g, layer, x, states, mask)
    backwards = layer.flag("go_backwards")
    every = reversed_axes(g, run.every, [1]) if backwards and layer.flag("return_sequences") else run.every
    first = every if layer.flag("return_sequences") else run.last
    return [first, *run.states] if layer.flag("return_state") else [first]


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
        if layer.kind not in (*_GATES, "RNN", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"):
            raise node.problem(f"xdlc does not support this layer around a layer of class {layer.kind}")
        _check(node, layer)
        layer = layer._replace(config={**layer.config, "zero_output_for_mask": True})
        runs.append(_run(node, g, layer, x, states[index * half : (index + 1) * half], mask))
    is_sequence = layer.flag("return_sequences")
    pair = [run.every if is_sequence else run.last for run in runs]
    last = [state for run in runs for state in run.states] if layer.flag("return_state") else []
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
    return [g("Mul", [made, const(g, 0.5)]) if mode == "ave" else made]


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


def _run(node: Node, g: Operators, layer: Layer, x: Value, states: list[Value], mask: Value | None) -> Run:
    """Return the results of a layer."""
    reverse = layer.flag("go_backwards")
    names = _activations(layer)
    if layer.kind in _GATES and mask is None and all(name in _ONNX for name in names):
        return _whole(node, g, layer, x, states, names, reverse)
    cells = layer.cells if layer.kind == "RNN" else [layer]
    if len(cells) == 1 and cells[0].kind == "StackedRNNCells":
        cells = cells[0].cells
    return stepped(node, g, layer, stacked(node, g, cells), x, states, mask, reverse)


def _activations(layer: Layer) -> list[Any]:
    gate = layer.config.get("recurrent_activation", "sigmoid")
    own = layer.config.get("activation", "tanh")
    own = "linear" if own is None else own
    names = {"LSTM": [gate, own, own], "GRU": [gate, own]}.get(layer.kind, [own])
    return [name if isinstance(name, str) else "" for name in names]


# ---------------------------------------------------------------------------------------- whole sequences


def _whole(
    node: Node, g: Operators, layer: Layer, x: Value, states: list[Value], names: list[str], reverse: bool
) -> Run:
    """Apply LSTM, GRU or RNN of ONNX."""
    kernel, recurrence = needed(node, layer, "kernel"), needed(node, layer, "recurrent_kernel")
    units = recurrence.shape[0]
    theirs, ours = _GATES[layer.kind]
    count = len(theirs)
    if (
        x.rank != 3
        or kernel.shape != (x.shape[-1], count * units)
        or recurrence.shape != (units, count * units)
    ):
        raise node.invalid(
            f"an input {list(x.shape)}, weights {list(kernel.shape)} and {list(recurrence.shape)} do not fit"
        )

    def ordered(value: Value) -> Value:
        data = value.tensor.data
        if data is None:
            raise node.problem("xdlc does not support computed weights")
        rows = value.shape[0]
        order = [theirs.index(gate) for gate in ours]

        def transform(array: Array) -> Array:
            apart = array.reshape(rows, count, units)[:, order]
            return np.ascontiguousarray(apart.reshape(rows, -1).T)[None]

        return g.builder.const(data.transform(transform, shape=(1, count * units, rows)), value.tensor.name)

    operands: list[Value | None] = [permuted(g, x, (1, 0, 2)), ordered(kernel), ordered(recurrence)]
    bias = layer.weights.get("bias")
    after = layer.flag("reset_after", bias is None or bias.rank == 2)
    both = None
    if bias is not None:
        array = np.zeros((2, count * units), np.float32)
        stored = bias.numpy().reshape(-1, count * units)
        array[: len(stored)] = stored
        order = [theirs.index(gate) for gate in ours]
        both = const(g, array.reshape(2, count, units)[:, order].reshape(1, -1))
    operands += [both, None]
    operands += [g("Unsqueeze", [state, vector(g, [0])]) for state in states]
    numbers = [_ONNX[name][1:] for name in names]
    attributes: dict[str, Any] = {
        "hidden_size": units,
        "direction": "reverse" if reverse else "forward",
        "activations": [_ONNX[name][0] for name in names],
    }
    alphas, betas = ([pair[place] for pair in numbers if len(pair) > place] for place in (0, 1))
    attributes |= {"activation_alpha": alphas} if alphas else {}
    attributes |= {"activation_beta": betas} if betas else {}
    if layer.kind == "GRU":
        attributes["linear_before_reset"] = int(after)
    type = {"SimpleRNN": "RNN"}.get(layer.kind, layer.kind)
    every, *last = g.apply(type, operands, attributes, 3 if type == "LSTM" else 2)
    every = permuted(g, g("Squeeze", [every, vector(g, [1])]), (1, 0, 2))
    final = [g("Squeeze", [state, vector(g, [0])]) for state in last]
    return Run(every, final[0], final)
