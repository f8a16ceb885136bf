"""Handlers of recurrent layers and cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdlc.converter.functions.lstm import lstm
from xdlc.converter.functions.recurrence import Weights, front, layer, weights_of
from xdlc.converter.functions.shapes import vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.values import Value

_FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "lstm": ("LSTM", {}),
    "gru": ("GRU", {"linear_before_reset": 1}),
    "rnn_tanh": ("RNN", {"activations": ["Tanh"]}),
    "rnn_relu": ("RNN", {"activations": ["Relu"]}),
}
"""Canonical operator, and attributes of a layer."""


def _weights(g: Operators, kind: str, params: Sequence[Value], *, has_biases: bool) -> Weights:
    """Return the weights of a direction from its parameters.

    A projected LSTM has one sum of both biases.
    """
    cell, _ = _FORMS[kind]
    projection = params[-1] if len(params) % 2 else None
    bias, state_bias = params[2:4] if has_biases else (None, None)
    if projection is not None and has_biases:
        bias, state_bias = g("Add", [bias, state_bias]), None
    return weights_of(g, cell, "PyTorch", params[0], params[1], bias, state_bias, projection)


def _layer(
    g: Operators, kind: str, x: Value, states: Sequence[Value], directions: Sequence[Weights]
) -> list[Value]:
    """Return states [T, B, directions * units] and the last [directions, B, units]."""
    cell, attributes = _FORMS[kind]
    if directions[0].projection is None:
        if "activations" in attributes:  # of each direction
            attributes = {"activations": attributes["activations"] * len(directions)}
        return layer(g, cell, x, directions, states, **attributes)
    runs = []
    for index, weights in enumerate(directions):
        own = [g("Squeeze", [_rows(g, state, index, index + 1), [0]]) for state in states]
        every, *last = lstm(g, x, weights, own, reverse=bool(index))
        runs.append([every, *(front(g, state) for state in last)])
    return [_joined(g, values, 0 if index else 2) for index, values in enumerate(zip(*runs, strict=True))]


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
    for start in range(0, total, count):
        directions = [
            _weights(g, kind, params[at * width : (at + 1) * width], has_biases=has_biases)
            for at in range(start, start + count)
        ]
        states = [_rows(g, state, start, start + count) for state in initial_states]
        x, *last = _layer(g, kind, x, states, directions)
        lasts.append(last)
    states = [_joined(g, values, 0) for values in zip(*lasts, strict=True)]
    return [g("Transpose", [x], perm=[1, 0, 2]) if batch_first else x, *states]


def _joined(g: Operators, values: Sequence[Value], axis: int) -> Value:
    return values[0] if len(values) == 1 else g("Concat", list(values), axis=axis)


def _rows(g: Operators, x: Value, start: int, stop: int) -> Value:
    if x.shape[0] == stop - start:
        return x
    return g("Slice", [x, *([number] for number in (start, stop, 0))])


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
    kind = node.type.removesuffix("_cell")
    weights = _weights(g, kind, [w_ih, w_hh, *biases], has_biases=bool(biases))
    _, *last = _layer(g, kind, front(g, x), [front(g, state) for state in states], [weights])
    return [g("Squeeze", [state, vector(g, [0, 1] if single else [0])]) for state in last]
