"""Handlers of recurrent layers and cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xdlc.converter.nhwc.recurrent import LstmWeights, front, lstm
from xdlc.converter.nhwc.shapes import dims, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.values import Value

_FORMS: dict[str, tuple[str, Sequence[int], dict[str, Any]]] = {
    "lstm": ("LSTM", (0, 3, 1, 2), {}),
    "gru": ("GRU", (1, 0, 2), {"linear_before_reset": 1}),
    "rnn_tanh": ("RNN", (0,), {"activations": ["Tanh"]}),
    "rnn_relu": ("RNN", (0,), {"activations": ["Relu"]}),
}
"""Canonical operator, PyTorch's gates in its order, and attributes of a layer."""


class _Direction:
    """Weights of one direction of a layer.

    Attributes:
        inputs: Weights of the input, [gates * units, width].
        states: Weights of the hidden state.
        biases: Both biases, or none.
        projection: Weights from the units to the hidden state, or None.
    """

    def __init__(self, params: Sequence[Value], *, has_biases: bool) -> None:
        self.inputs, self.states = params[:2]
        self.biases = list(params[2:4]) if has_biases else []
        self.projection = params[-1] if len(params) % 2 else None


def _ordered(g: Operators, x: Value, gates: Sequence[int]) -> Value:
    """Return weights with their blocks, one for each gate, in another order."""
    if list(gates) == list(range(len(gates))):
        return x
    size = dims(x)[0] // len(gates)
    data = x.tensor.data
    if data is not None:
        rows = np.concatenate([np.arange(gate * size, (gate + 1) * size) for gate in gates])
        return g.builder.static_like(x, data.transform(lambda array: array[rows], shape=x.shape))
    parts = g.apply("Split", [x, vector(g, [size] * len(gates))], {"axis": 0}, len(gates))
    return g("Concat", [parts[gate] for gate in gates], axis=0)


def _stacked(g: Operators, values: Sequence[Value]) -> Value:
    """Return values stacked along a new first axis."""
    return _joined(g, [front(g, value) for value in values], 0)


def _layer(
    g: Operators, kind: str, x: Value, states: Sequence[Value], directions: Sequence[_Direction]
) -> list[Value]:
    """Return all hidden states and the last of each state.

    Their shapes are [T, B, directions * units] and [directions, B, units].

    Args:
        kind: Kind of layer, a key of ``_FORMS``.
        x: Input, [T, B, width].
        states: States before the first step, [directions, B, units].
    """
    type, gates, attributes = _FORMS[kind]
    count, units = len(directions), dims(directions[0].states)[1]
    weights = [
        _stacked(g, [_ordered(g, direction, gates) for direction in group])
        for group in zip(*((weight.inputs, weight.states) for weight in directions), strict=True)
    ]
    bias = None
    if directions[0].biases:
        rows = [[_ordered(g, bias, gates) for bias in direction.biases] for direction in directions]
        bias = _stacked(g, [g("Concat", row, axis=0) for row in rows])
    given = {"hidden_size": units, "direction": "bidirectional" if count > 1 else "forward", **attributes}
    if "activations" in given:
        given["activations"] = given["activations"] * count
    every, *last = g.apply(type, [x, *weights, bias, None, *states], given, 1 + len(states))
    if count == 1:
        return [g("Squeeze", [every, vector(g, [1])]), *last]
    flat = g("Transpose", [every], perm=[0, 2, 1, 3])
    return [g("Reshape", [flat, vector(g, [0, 0, count * units])]), *last]


def _projected(
    g: Operators, x: Value, states: Sequence[Value], direction: _Direction, *, reverse: bool
) -> list[Value]:
    """Return the results of one direction of an LSTM whose hidden state is projected."""

    def gates(x: Value) -> dict[str, Value | None]:
        size = dims(x)[0] // 4
        parts = g.apply("Split", [x, vector(g, [size] * 4)], {"axis": 0}, 4)
        return dict(zip("ifco", parts, strict=True))

    bias = g("Add", direction.biases) if direction.biases else None
    none: dict[str, Value | None] = {}
    weights = LstmWeights(
        gates(direction.inputs),
        gates(direction.states),
        none if bias is None else gates(bias),
        none,
        none,
        projection=direction.projection,
    )
    held = [g("Squeeze", [state, vector(g, [0])]) for state in states]
    every, *last = lstm(g, x, weights, held, reverse=reverse)
    return [every, *(front(g, state) for state in last)]


@aten("lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input")
def _network(
    node: AtenNode,
    g: Operators,
    input: Value,
    hx: Value | Sequence[Value],
    params: Sequence[Value],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> list[Value]:
    if train and dropout and num_layers > 1:
        raise node.problem("dropout in training mode is random", "call model.eval() before the export")
    kind, x = node.type.partition(".")[0], input
    initial_states = [hx] if isinstance(hx, Value) else hx
    count = 2 if bidirectional else 1
    total, lasts = num_layers * count, []
    width = len(params) // total if total > 0 else 0
    if not 2 <= width <= 5 or len(params) != width * total:
        raise node.invalid(f"{len(params)} parameters do not fit {num_layers} layers")
    x = g("Transpose", [x], perm=[1, 0, 2]) if batch_first else x
    parts = [_Direction(params[i * width : (i + 1) * width], has_biases=has_biases) for i in range(total)]
    for start in range(0, total, count):
        own = parts[start : start + count]
        states = [_rows(g, state, start, start + count) for state in initial_states]
        if own[0].projection is None:
            x, *last = _layer(g, kind, x, states, own)
        else:
            runs = [
                _projected(g, x, [_rows(g, state, i, i + 1) for state in states], direction, reverse=bool(i))
                for i, direction in enumerate(own)
            ]
            x, *last = (
                _joined(g, values, 0 if index else 2) for index, values in enumerate(zip(*runs, strict=True))
            )
        lasts.append(last)
    states = [_joined(g, values, 0) for values in zip(*lasts, strict=True)]
    return [g("Transpose", [x], perm=[1, 0, 2]) if batch_first else x, *states]


def _joined(g: Operators, values: Sequence[Value], axis: int) -> Value:
    return values[0] if len(values) == 1 else g("Concat", list(values), axis=axis)


def _rows(g: Operators, x: Value, start: int, stop: int) -> Value:
    if x.shape[0] == stop - start:
        return x
    return g("Slice", [x, *(vector(g, [number]) for number in (start, stop, 0))])


@aten("lstm.data", "gru.data", "rnn_tanh.data", "rnn_relu.data")
def _packed(node: AtenNode, g: Operators) -> list[Value]:
    raise node.problem(
        "the input is a packed sequence, whose lengths depend on data",
        "export the model with padded sequences (torch.nn.utils.rnn.pad_packed_sequence)",
    )


@aten("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")
def _cell(
    node: AtenNode,
    g: Operators,
    input: Value,
    hx: Value | Sequence[Value],
    w_ih: Value,
    w_hh: Value,
    b_ih: Value | None,
    b_hh: Value | None,
) -> list[Value]:
    x, states = input, [hx] if isinstance(hx, Value) else list(hx)
    single = x.rank == 1
    if single:
        x, states = front(g, x), [front(g, state) for state in states]
    biases = [bias for bias in (b_ih, b_hh) if bias is not None]
    if len(biases) == 1:
        raise node.problem("the cell has one bias instead of two", "add the second bias, or omit both")
    direction = _Direction([w_ih, w_hh, *biases], has_biases=bool(biases))
    states = [front(g, state) for state in states]
    _, *last = _layer(g, node.type.removesuffix("_cell"), front(g, x), states, [direction])
    return [g("Squeeze", [state, vector(g, [0, 1] if single else [0])]) for state in last]
