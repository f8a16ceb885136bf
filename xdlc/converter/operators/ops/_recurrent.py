"""Common parts of RNN, GRU and LSTM: directions, layouts, lengths, unrolling."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import compare, cut, joined, neuron, number, part, select, unary
from xdlc.converter.operators.ops.pieces import reversed_steps
from xdlc.converter.operators.ops.products import multiply
from xdlc.converter.operators.registry import Node
from xdlc.converter.values import Value, check_table
from xdlc.ir.data import Array, TensorData
from xdlc.opdefs.elementwise_enums import (
    ABS,
    ADD,
    DIVIDE,
    ELU,
    GREATER,
    HARD_SIGMOID,
    MAXIMUM,
    MINIMUM,
    MULTIPLY,
    RELU,
    SIGMOID,
    SOFTPLUS,
    TANH,
)

LIMIT = 128  # steps that are unrolled; each is an op or a dozen
STEPS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
Function = Callable[[Builder, Value], Value]
Step = Callable[["Cell", Value, Sequence[Value]], Sequence[Value]]


def time_major(
    node: Node, b: Builder, function: Callable[[Node, Builder], list[Value]], states: Sequence[int]
) -> list[Value]:
    """Return the results of a handler of layout 0, for either layout.

    Args:
        function: Handler of nodes whose time axis comes first.
        states: Positions of the inputs that hold initial states.
    """
    if not node.flag("layout"):
        return function(node, b)
    swapped = {0, *states}
    inputs = [
        b.transpose(value, (1, 0, 2)) if value is not None and index in swapped else value
        for index, value in enumerate(node.inputs)
    ]
    every, *last = function(replace(node, inputs=inputs), b)
    return [b.transpose(every, (2, 0, 1, 3)), *(b.transpose(value, (1, 0, 2)) for value in last)]


def directions(node: Node) -> tuple[bool, ...]:
    """Return for each direction whether it runs backwards."""
    name = node.attr("direction", "forward")
    if name not in STEPS:
        raise node.invalid(f"direction {name!r} is unknown; use forward, reverse or bidirectional")
    units, width = node.attr("hidden_size"), node.required(2).shape[-1]
    if units not in (None, width):
        raise node.invalid(f"hidden_size is {units}, but the weights have {width} units")
    return STEPS[name]


def lengths(node: Node, steps: int, batch: int) -> Array | None:
    """Return the lengths of the sequences, or None if all are whole."""
    stated = node.static(4, "the sequence lengths")
    if stated is None:
        return None
    if stated.size != batch or stated.min(initial=0) < 0 or stated.max(initial=0) > steps:
        raise node.invalid(
            f"sequence lengths {stated.tolist()} do not fit {batch} sequences of {steps} steps"
        )
    if stated.min(initial=1) == 0:
        raise node.problem("xdlc does not support empty sequences: ONNX does not define their last state")
    return None if np.all(stated == steps) else stated.reshape(-1).astype(np.int64)


def has_static_weights(node: Node, positions: Sequence[int]) -> bool:
    """Return whether all weights of a recurrence are static."""
    given = [node.input(position) for position in positions]
    return all(value is None or value.is_static for value in given)


def checked_units(node: Node, gates: int) -> int:
    """Return the number of hidden units, checked against all weights.

    Raises:
        UnsupportedOp: If they do not.
    """
    weight, recurrence, bias = node.required(1), node.required(2), node.input(3)
    ways, units = len(directions(node)), recurrence.shape[-1] if recurrence.rank else 0
    rows = gates * units
    if weight.shape != (ways, rows, node.required(0).shape[2]) or recurrence.shape != (ways, rows, units):
        raise node.invalid(
            f"weights {list(weight.shape)} and {list(recurrence.shape)} do not fit {gates} gates"
        )
    if bias is not None and bias.shape != (ways, 2 * rows):
        raise node.invalid(f"biases {list(bias.shape)} do not fit {gates} gates of {units} units")
    return units


def block(node: Node, position: int, index: int) -> TensorData:
    """Return the known weights of one direction."""
    data = node.required(position).tensor.data
    if data is None:
        raise node.problem(f"input {position} must be constant, but is computed")
    return data.transform(lambda array: array[index], shape=data.shape[1:])


def all_ways(b: Builder, runs: Sequence[Value]) -> Value:
    """Return the hidden states [T, D, N, H] of all directions from [T, N, H] of each.

    The directions lie side by side in each step, as the next layer takes them.
    """
    steps, batch, units = runs[0].shape
    whole = joined(b, runs, 2)
    return b.transpose(b.reshape(whole, (steps, batch, len(runs), units)), (0, 2, 1, 3))


def activations(node: Node, default: Sequence[str]) -> list[list[Function]]:
    """Return the activation functions of each direction."""
    count = len(directions(node))
    names = list(node.attr("activations") or list(default) * count)
    alphas, betas = iter(node.attr("activation_alpha") or ()), iter(node.attr("activation_beta") or ())
    if len(names) != len(default) * count:
        raise node.invalid(f"the node has {len(names)} activations instead of {len(default) * count}")
    made = [_activation(node, name, alphas, betas) for name in names]
    return [made[start : start + len(default)] for start in range(0, len(made), len(default))]


def _activation(node: Node, name: str, alphas: Iterator[float], betas: Iterator[float]) -> Function:
    """Return an activation of RNN, GRU or LSTM; consume the alphas and betas it needs."""
    key = name.lower()
    plain = {"relu": RELU, "sigmoid": SIGMOID, "tanh": TANH}
    if key in plain:
        return lambda b, x: neuron(b, x, plain[key])
    if key == "softplus":
        return lambda b, x: neuron(b, x, SOFTPLUS, {"beta": ir.f32(1.0)})
    if key == "softsign":
        return lambda b, x: b.binary(DIVIDE, x, b.binary(ADD, unary(b, ABS, x), number(b, x, 1)))
    defaults = {
        "affine": (None, None),
        "elu": (1.0, None),
        "hardsigmoid": (0.2, 0.5),
        "leakyrelu": (0.01, None),
        "scaledtanh": (None, None),
        "thresholdedrelu": (1.0, None),
    }
    if key not in defaults:
        raise node.invalid(f"activation {name!r} is unknown")
    first, second = defaults[key]
    alpha = next(alphas, first)
    beta = next(betas, second) if key in ("affine", "hardsigmoid", "scaledtanh") else 0.0
    if alpha is None or beta is None:
        raise node.invalid(f"activation {name} needs alpha or beta: ONNX has no default")

    def scaled(b: Builder, x: Value, factor: float) -> Value:
        return b.binary(MULTIPLY, x, number(b, x, factor))

    forms: dict[str, Function] = {
        "affine": lambda b, x: b.binary(ADD, scaled(b, x, alpha), number(b, x, beta)),
        "elu": lambda b, x: neuron(b, x, ELU, {"alpha": ir.f32(alpha)}),
        "hardsigmoid": lambda b, x: neuron(
            b, x, HARD_SIGMOID, {"alpha": ir.f32(alpha), "beta": ir.f32(beta)}
        ),
        "leakyrelu": lambda b, x: select(b, compare(b, GREATER, x, number(b, x, 0)), x, scaled(b, x, alpha)),
        "scaledtanh": lambda b, x: scaled(b, neuron(b, scaled(b, x, beta), TANH), alpha),
        "thresholdedrelu": lambda b, x: select(
            b, compare(b, GREATER, x, number(b, x, alpha)), x, number(b, x, 0)
        ),
    }
    return forms[key]


@dataclass(frozen=True, slots=True)
class Cell:
    """One direction of a recurrence.

    Attributes:
        index: Number of the direction.
        units: Number of hidden units.
        weight: Weights of the inputs [gates * units, width].
        recurrence: Weights of the hidden state [gates * units, units].
        input_bias: Summands of the first product [gates * units], or None.
        state_bias: Summands of the second one, or None.
        clip: Bound of the inputs of activations, or None.
    """

    node: Node
    b: Builder
    index: int
    units: int
    weight: Value
    recurrence: Value
    input_bias: Value | None
    state_bias: Value | None
    functions: Sequence[Function]
    clip: float | None

    def gate(self, x: Value, index: int, count: int = 1) -> Value:
        """Return the columns of ``count`` gates from ``index`` on."""
        return part(self.b, x, x.rank - 1, index * self.units, (index + count) * self.units)

    def recur(self, state: Value, index: int, count: int, *, bias: bool = True) -> Value:
        """Return the hidden state times the weights of ``count`` gates."""
        rows = (index * self.units, (index + count) * self.units)
        summand = self.state_bias if bias else None
        return linear(
            self.node,
            self.b,
            state,
            part(self.b, self.recurrence, 0, *rows),
            None if summand is None else part(self.b, summand, 0, *rows),
        )

    def activate(self, index: int, x: Value) -> Value:
        """Return an activation of ``x``, which is clipped before."""
        if self.clip is not None:
            x = self.b.binary(MAXIMUM, x, number(self.b, x, -self.clip))
            x = self.b.binary(MINIMUM, x, number(self.b, x, self.clip))
        return self.functions[index](self.b, x)

    def sum(self, *values: Value) -> Value:
        """Return values added up."""
        total = values[0]
        for value in values[1:]:
            total = self.b.binary(ADD, total, value)
        return total

    def times(self, x: Value, y: Value) -> Value:
        """Return a product, element by element."""
        return self.b.binary(MULTIPLY, x, y)


def linear(node: Node, b: Builder, x: Value, weight: Value, bias: Value | None) -> Value:
    """Return ``x`` [rows, k] times the transpose of ``weight`` [n, k], plus ``bias``."""
    if weight.is_static and _is_zero(x) and np.all(np.isfinite(weight.numpy())):
        check_table(x.shape[0], weight.shape[0])
        nothing = np.zeros((x.shape[0], weight.shape[0]), x.dtype.numpy)
        if bias is None or bias.is_static:
            return b.const(nothing if bias is None else nothing + bias.numpy(), f"{b.stem}_start")
        return b.binary(ADD, b.const(nothing, f"{b.stem}_start"), bias)
    if weight.is_static and (bias is None or bias.is_static):
        inputs = [b.source_order(x), b.source_order(weight)]
        inputs += [] if bias is None else [b.source_order(bias)]
        shape = (x.shape[0], weight.shape[0])
        return Value(b.emit("FullyConnected", inputs, shape, x.dtype, {"keep_dims": ir.b8(False)}), (0, 1))
    product = multiply(node, b, x, b.transpose(weight, (1, 0)))
    return product if bias is None else b.binary(ADD, product, bias)


def _is_zero(x: Value) -> bool:
    """Return whether a value is statically zero, like a default initial state."""
    return x.is_static and not np.any(x.numpy())


def unrolled(
    node: Node, b: Builder, gates: int, default: Sequence[str], states: Sequence[int], step: Step
) -> list[Value]:
    """Unroll; return hidden states [T, D, N, H] and the last of each state [D, N, H].

    Args:
        node: A node whose time axis comes first.
        default: Activations where the node names none.
        states: Positions of the inputs that hold initial states, the hidden one first.
        step: What one step makes of its input's share of the gates [N, gates * H] and of the states [N, H].

    Raises:
        UnsupportedOp: If there are too many steps.
    """
    x = node.required(0)
    if x.rank != 3:
        raise node.invalid(f"the input has rank {x.rank} instead of 3")
    steps, batch, _ = x.shape
    if steps > LIMIT:
        raise node.problem(
            f"the sequence has {steps} steps; QNN has no such recurrence, and xdlc unrolls at most "
            f"{LIMIT} steps",
            "shorten the sequence, or run this part of the model on the host",
        )
    sequence_lengths = lengths(node, steps, batch)
    functions = activations(node, default)
    node.attr("hidden_size")
    clip = node.attr("clip")
    if clip is not None and not clip > 0:
        raise node.invalid(f"clip must be above 0, but is {clip}")
    runs = []
    for index, backwards in enumerate(directions(node)):
        cell = _cell(node, b, gates, index, functions[index], clip)
        initial = [_initial(node, b, position, index, (batch, cell.units)) for position in states]
        runs.append(_run(cell, x, initial, sequence_lengths, backwards, step))
    lasts = [
        joined(b, [b.reshape(run[1][index], (1, *run[1][index].shape)) for run in runs], 0)
        for index in range(len(states))
    ]
    return [all_ways(b, [run[0] for run in runs]), *lasts]


def _cell(
    node: Node, b: Builder, gates: int, index: int, functions: Sequence[Function], clip: float | None
) -> Cell:
    weight, recurrence, bias = node.required(1), node.required(2), node.input(3)
    units = checked_units(node, gates)
    rows = gates * units

    def own(value: Value) -> Value:
        return b.reshape(part(b, value, 0, index, index + 1), value.shape[1:])

    halves = (
        [None, None] if bias is None else [part(b, own(bias), 0, i * rows, (i + 1) * rows) for i in (0, 1)]
    )
    return Cell(node, b, index, units, own(weight), own(recurrence), halves[0], halves[1], functions, clip)


def _initial(node: Node, b: Builder, position: int, index: int, shape: tuple[int, int]) -> Value:
    given = node.input(position)
    if given is None:
        check_table(*shape)
        return b.const(np.zeros(shape, node.required(0).dtype.numpy), f"{b.stem}_state{position}")
    return b.reshape(part(b, given, 0, index, index + 1), shape)


def _run(
    cell: Cell, x: Value, states: Sequence[Value], sequence_lengths: Array | None, backwards: bool, step: Step
) -> tuple[Value, Sequence[Value]]:
    """Return all hidden states [T, N, H] of one direction, and the last states."""
    b, (steps, batch, width) = cell.b, x.shape
    if backwards and sequence_lengths is not None:
        x = reversed_steps(b, x, sequence_lengths)
    flat = linear(cell.node, b, b.reshape(x, (steps * batch, width)), cell.weight, cell.input_bias)
    shares = cut(b, flat, 0, steps)
    plain_order = range(steps - 1, -1, -1) if backwards and sequence_lengths is None else range(steps)
    rows_by_step: dict[int, Value] = {}
    for place in plain_order:
        next_states = step(cell, shares[place], states)
        hidden = next_states[0]
        if sequence_lengths is not None and place >= sequence_lengths.min():
            alive = b.const((place < sequence_lengths).reshape(batch, 1), f"{b.stem}_alive")
            states = [select(b, alive, new, old) for new, old in zip(next_states, states, strict=True)]
            hidden = select(b, alive, hidden, number(b, hidden, 0))
        else:
            states = next_states
        rows_by_step[place] = hidden
    rows = joined(b, [rows_by_step[place] for place in range(steps)], 0)
    every = b.reshape(rows, (steps, batch, cell.units))
    if backwards and sequence_lengths is not None:
        every = reversed_steps(b, every, sequence_lengths)
    return every, states
