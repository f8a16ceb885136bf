"""Recurrent layers: weights by gate, cells, and sequences step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from xdlc.converter.functions.gathering import split_evenly
from xdlc.converter.functions.products import dense
from xdlc.converter.functions.shapes import dims, permuted
from xdlc.converter.functions.slicing import reversed_axes
from xdlc.converter.functions.terms import Term, of_one
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Computed
from xdlc.converter.values import Value
from xdlc.ir import TensorData, Transform
from xdlc.opdefs.cells import ORDERS, gru_step, lstm_step

LIMIT = 128
"""Most steps that are unrolled; each is an op or a dozen."""

Gates = Mapping[str, Value | None]
"""Values by gate; None for none."""
NONE: Gates = MappingProxyType({})
Function = Callable[[Term], Term]


class Weights(NamedTuple):
    """Weights of one direction of a layer.

    Attributes:
        inputs: Weights of the input, [units, width] each; without gate i it is 1 - gate f.
        states: Weights of the hidden state, [units, outputs] each.
        biases: Biases, [units] each.
        state_biases: Biases of the products with the hidden state, [units] each.
        peepholes: Weights of the cell in gates i, f and o, [units] each.
        norms: Weights of layer norms of the gates before their biases, [units] each.
        projection: Weights from the units to the hidden state, [outputs, units].
        projection_bias: Its bias, [outputs].
        cell_clip: Bound of the cell; 0 for none.
        clip: Bound of the projected hidden state; 0 for none.
        activation: Canonical operator on the cell; None for none.
    """

    inputs: Gates
    states: Gates
    biases: Gates = NONE
    state_biases: Gates = NONE
    peepholes: Gates = NONE
    norms: Gates = NONE
    projection: Value | None = None
    projection_bias: Value | None = None
    cell_clip: float = 0.0
    clip: float = 0.0
    activation: str | None = "Tanh"

    @property
    def is_plain(self) -> bool:
        """Whether the canonical LSTM computes the same."""
        return (
            not any(value is not None for value in self.norms.values())
            and self.projection is None
            and not self.cell_clip
            and not self.clip
            and self.activation == "Tanh"
        )


def by_gate(g: Operators, x: Value | None, cell: str, source: str, axis: int = 0) -> dict[str, Value]:
    """Return the parts of weights, or of sums, by gate.

    Args:
        cell: LSTM, GRU or RNN.
        source: Format that the value comes from, a key of ``ORDERS[cell]``.
        axis: The axis of the gates.
    """
    order = ORDERS[cell][source]
    if x is None:
        return {}
    if x.tensor.data is None or x.tensor.encoding is not None or axis or x.shape[0] % len(order):
        return dict(zip(order, split_evenly(g, x, len(order), axis), strict=True))
    rows = x.shape[0] // len(order)
    return {name: _rows(g, x, x.tensor.data, at * rows, rows) for at, name in enumerate(order)}


def _rows(g: Operators, x: Value, data: TensorData, first: int, count: int) -> Value:
    """Return rows of a constant, which are read when they are needed."""
    rows = data.transform(lambda array: array[first : first + count], shape=(count, *data.shape[1:]))
    return g.builder.static_like(x, rows)


def weights_of(
    g: Operators,
    cell: str,
    source: str,
    inputs: Value,
    states: Value,
    bias: Value | None = None,
    state_bias: Value | None = None,
    projection: Value | None = None,
) -> Weights:
    """Return the weights of all gates, in the order of a format, by gate."""

    def gates(value: Value | None) -> Gates:
        return by_gate(g, value, cell, source)

    parts = gates(inputs), gates(states), gates(bias), gates(state_bias)
    return Weights(*parts, projection=projection)


# ------------------------------------------------------------------ canonical operators


def layer(
    g: Operators,
    cell: str,
    x: Value,
    directions: Sequence[Weights],
    states: Sequence[Value | None],
    *,
    reverse: bool = False,
    **attributes: Any,
) -> list[Value]:
    """Return states [T, B, directions * units], and the last [directions, B, units].

    Args:
        cell: Canonical operator: LSTM, GRU or RNN.
        x: Input, [T, B, width].
        directions: Weights forward, and backward if any.
        states: States before the first step, [directions, B, units]; None for zeros.
        reverse: Whether the steps of one direction run from the last to the first.
        attributes: Further attributes of the operator.
    """
    order = ORDERS[cell]["ONNX"]
    rows: list[list[Value | None]] = []
    for weights in directions:
        weight, state_weight, bias, state_bias = (_whole(g, by, order, weights) for by in weights[:4])
        if bias is not None:
            bias = _joined(g, [bias, _zeros(g, bias) if state_bias is None else state_bias])
        peepholes = _whole(g, weights.peepholes, order.replace("c", ""), weights)
        rows.append([weight, state_weight, bias, peepholes])
    inputs, recurrence, both, peepholes = (_stacked(g, values) for values in zip(*rows, strict=True))
    assert recurrence is not None
    count, units = len(directions), dims(recurrence)[-1]
    way = "bidirectional" if count > 1 else "reverse" if reverse else "forward"
    operands = [x, inputs, recurrence, both, None, *states, *([] if peepholes is None else [peepholes])]
    attributes = {"hidden_size": units, "direction": way, **attributes}
    every, *last = g.apply(cell, operands, attributes, 1 + len(states))
    if count == 1:
        return [g("Squeeze", [every, [1]]), *last]
    return [g("Reshape", [permuted(g, every, (0, 2, 1, 3)), [0, 0, count * units]]), *last]


def _whole(g: Operators, gates: Gates, order: str, weights: Weights) -> Value | None:
    """Return the values of all gates, or None; 1 - sigmoid(f) is sigmoid(-f)."""
    values = [gates.get(name) for name in order]
    some = next((value for value in values if value is not None), None)
    if some is None:
        return None
    if "i" in order and weights.inputs.get("i") is None and (forget := gates.get("f")) is not None:
        values[order.index("i")] = g("Neg", [forget])
    return _joined(g, [_zeros(g, some) if value is None else value for value in values])


def _joined(g: Operators, values: Sequence[Value]) -> Value:
    """Return values joined along the first axis; constants are read when needed."""
    if len(values) == 1:
        return values[0]
    tensors = [value.tensor for value in values]
    data = [tensor.data for tensor in tensors if tensor.data is not None and tensor.encoding is None]
    if len(data) < len(values):
        return g("Concat", values, axis=0)
    shape = (sum(part.shape[0] for part in data), *data[0].shape[1:])
    return g.builder.const(Transform(data, lambda *arrays: np.concatenate(arrays), shape, data[0].dtype))


def _stacked(g: Operators, values: Sequence[Value | None]) -> Value | None:
    """Return the values of all directions with an axis for them in front."""
    parts = [front(g, value) for value in values if value is not None]
    return _joined(g, parts) if parts else None


def _zeros(g: Operators, like: Value) -> Value:
    return g.builder.const(np.zeros(like.shape, like.dtype.numpy))


def front(g: Operators, x: Value) -> Value:
    """Return a value with an axis of one element in front."""
    return g("Unsqueeze", [x, [0]])


def one_way(
    g: Operators, cell: str, x: Value, weights: Weights, states: Sequence[Value | None], **attributes: Any
) -> list[Value]:
    """Return states [T, B, units] and the last ones [B, units], like ``layer``."""
    initial = [None if state is None else front(g, state) for state in states]
    every, *last = layer(g, cell, x, [weights], initial, **attributes)
    return [every, *(g("Squeeze", [state, [0]]) for state in last)]


# ------------------------------------------------------------------ cells

Step = Callable[[Value, Sequence[Value]], list[Value]]
"""The next states, the hidden one first, for a row and the states."""


_USUAL = (of_one("Sigmoid"), of_one("Tanh"), of_one("Tanh"))


def lstm_cell(
    g: Operators,
    total: Value,
    cell: Value,
    source: str,
    functions: Sequence[Function] = _USUAL,
    peepholes: Gates = NONE,
    missing: str = "",
    keep: Callable[[str, Term], Term] = lambda _, value: value,
) -> list[Value]:
    """Return the hidden state and the cell of an LSTM.

    Args:
        total: Sums of the gates, [..., 4 * units].
        cell: The cell before, [..., units].
        source: Format of the order of the gates.
        functions: Activations of gates i, f, o, of gate c, and of the cell.
        missing: The gate, i or f, that is 1 minus the other.
        keep: Changes values, as of ``lstm_step``.
    """
    sums = by_gate(g, total, "LSTM", source, total.rank - 1)

    def gate(name: str, memory: Term) -> Term:
        own, weight = Term(g, sums[name]), peepholes.get(name)
        own = own if weight is None else own + memory * weight
        return keep(name, functions[int(name == "c")](own))

    return [one.value for one in lstm_step(gate, Term(g, cell), functions[2], keep, missing=missing)]


def cell_step(
    g: Operators,
    cell: str,
    source: str,
    recurrence: Value,
    bias: Value | None,
    functions: Sequence[Function],
    peepholes: Gates = NONE,
    *,
    missing: str = "",
    after: bool = False,
) -> Step:
    """Return a step of a cell; its rows are the input's share of the gates' sums.

    Args:
        cell: LSTM, GRU or RNN.
        source: Format of the order of the gates.
        recurrence: Weights of the hidden state, [gates * units, units].
        bias: Biases of the products with the hidden state, [gates * units], or None.
        functions: Activations.
        missing: The gate of an LSTM, i or f, that is 1 minus the other.
        after: Whether the reset gate of a GRU multiplies the product instead of the state.
    """

    def rnn(share: Value, states: Sequence[Value]) -> list[Value]:
        return [functions[0](Term(g, share) + dense(g, states[0], recurrence, bias)).value]

    def lstm(share: Value, states: Sequence[Value]) -> list[Value]:
        total = g("Add", [share, dense(g, states[0], recurrence, bias)])
        return lstm_cell(g, total, states[1], source, functions, peepholes, missing)

    def gru(share: Value, states: Sequence[Value]) -> list[Value]:
        both, new = _last_apart(g, share, 1)
        total = Term(g, both) + dense(g, states[0], outer, outer_bias)
        order = ORDERS["GRU"][source][:2]
        gates = dict(zip(order, split_evenly(g, functions[0](total).value, 2, 1), strict=True))
        hidden = gru_step(
            lambda name: Term(g, gates[name]),
            Term(g, states[0]),
            lambda x: x.via(dense, inner, *([] if inner_bias is None else [inner_bias])),
            lambda x: functions[1](Term(g, new) + x),
            after=after,
        )
        return [hidden.value]

    if cell == "GRU":
        outer, inner = _last_apart(g, recurrence, 0)
        outer_bias, inner_bias = (None, None) if bias is None else _last_apart(g, bias, 0)
    return {"RNN": rnn, "GRU": gru, "LSTM": lstm}[cell]


def _last_apart(g: Operators, x: Value, axis: int) -> list[Value]:
    """Return the parts of the gates z and r, and of n, which is the last of three."""
    units = dims(x)[axis] // 3
    return g.apply("Split", [x, [2 * units, units]], {"axis": axis}, 2)


# ------------------------------------------------------------------ sequences


class Run(NamedTuple):
    """Results of a layer whose steps are unrolled.

    Attributes:
        every: The outputs of all steps, in the order of time.
        last: The output of the step that came last.
        states: The states after it.
    """

    every: list[Value]
    last: Value
    states: list[Value]


def unrolled(
    g: Operators,
    rows: Sequence[Value],
    states: Sequence[Value],
    step: Step,
    masks: Sequence[Value | None],
    *,
    shown: int = 0,
    reverse: bool = False,
    zeros: bool = False,
) -> Run:
    """Apply a step to each row; where its mask is false, output and states repeat.

    Args:
        rows: Inputs of the steps, at least one.
        step: Returns the next states.
        masks: For each step None, or truth values [B, 1].
        shown: Number of the state that is the output.
        reverse: Whether the steps run from the last to the first.
        zeros: Whether outputs of masked steps are 0.
    """
    every: dict[int, Value] = {}
    last: Value | None = None
    current = list(states)
    for index in reversed(range(len(rows))) if reverse else range(len(rows)):
        following, active = step(rows[index], current), masks[index]
        output = following[shown]
        if active is None:
            every[index] = last = output
            current = following
            continue
        nothing = g.builder.const(np.zeros((), output.dtype.numpy))
        before = nothing if last is None else last
        last = _where(g, active, output, before)
        every[index] = _where(g, active, output, nothing) if zeros and before is not nothing else last
        current = [_where(g, active, *pair) for pair in zip(following, current, strict=True)]
    assert last is not None
    return Run([every[index] for index in range(len(rows))], last, current)


def _where(g: Operators, active: Value, new: Value, old: Value) -> Value:
    """Return ``new`` for examples [N, 1] that are active, else ``old``."""
    if new.rank > 2:
        active = g("Unsqueeze", [active, range(2, new.rank)])
    return g("Where", [active, new, old])


Lookup = Callable[[str], Value | None]


def scanned(
    g: Operators,
    x: Value,
    states: Sequence[Value],
    step: Callable[[Value, Sequence[Value], Lookup], list[Value]],
    constants: Mapping[str, Value | None],
    *,
    rows: int = 0,
    reverse: bool = False,
) -> list[Value]:
    """Return each step's results [T, ...], by default one, and the last states.

    Args:
        x: Input, [T, ...].
        step: Returns the next states for a row of the input, the states, and a look-up of ``constants``.
        constants: Other values that steps read, by name.
        rows: Number of values that a step returns after the next states and that become rows of the results;
            0 for the first state.
        reverse: Whether the steps run from the last to the first; step t stays at row t.
    """
    context, stem = g.context, g.builder.node
    x = reversed_axes(g, x, [0]) if reverse else x
    values = {"input": x, **{name: value for name, value in constants.items() if value is not None}}
    context.values.update({f"{stem}~{name}": value for name, value in values.items()})

    def at(name: str) -> Value | None:
        return context.values.tensor(f"{stem}~{name}") if name in values else None

    def iteration(operands: Sequence[object]) -> list[Value]:
        index, flag, *before = (operand for operand in operands if isinstance(operand, Value))
        after = step(g("Gather", [at("input"), index], axis=0), before, at)
        return [flag, *after, *([] if rows else after[:1])]

    names = [f"state{index}" for index in range(len(states))]
    results = [f"row{index}" for index in range(max(rows, 1))]
    body = Computed(
        ["index", "flag", *names], ["flag", *(f"{name}_next" for name in names), *results], iteration
    )
    count = g.builder.const(np.asarray(dims(x)[0], np.int64))
    values_out = g.apply("Loop", [count, None, *states], {"body": body}, len(states) + len(results))
    last, every = values_out[: len(states)], values_out[len(states) :]
    return [*(reversed_axes(g, value, [0]) if reverse else value for value in every), *last]
