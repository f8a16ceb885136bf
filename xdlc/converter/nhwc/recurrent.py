"""Recurrent layers: weights by gate, and loops where no operator has the step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from xdlc.converter.nhwc.shapes import dims, number
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Computed
from xdlc.converter.values import Value

Gates = Mapping[str, Value | None]
"""Values of the gates ``i`` (input), ``f`` (forget), ``c`` (cell), ``o`` (output); None for none."""

_ORDER = "iofc"
"""Gates in the order of the canonical LSTM."""
_SMALLEST = 1e-8
"""Epsilon that a gate's layer norm adds to the variance."""
_EXACT = 1 << 10
"""Variances in steps squared that integer kernels round to whole ones with an effect."""


class LstmWeights(NamedTuple):
    """Weights of an LSTM.

    Attributes:
        inputs: Weights of the input, [units, width] each; without gate i it is 1 - gate f.
        states: Weights of the hidden state, [units, outputs] each.
        biases: Biases, [units] each.
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
    biases: Gates
    peepholes: Gates
    norms: Gates
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


Finish = Callable[[Sequence[Value]], list[Value]]
"""Function of the states after a step, for example rounding to an encoding."""


class Steps(NamedTuple):
    """Integers that an integer kernel stores a value as: value = (q - zero) * scale.

    Attributes:
        scale: The step.
        zero: The integer of 0.
        bits: Bits of the signed integers.
    """

    scale: float
    zero: int = 0
    bits: int = 16


class Rounding(NamedTuple):
    """Roundings of an integer kernel of an LSTM.

    Attributes:
        round: Returns a value rounded to what integers hold.
        sums: Integers of the sums of products by gate.
        guards: Variance of a layer norm by gate in place of one below a step squared, in steps squared.
        cell: Integers of the cell, without a zero.
        hidden: Integers of the output gate times the activated cell.
        output: Integers of the projected hidden state.
    """

    round: Callable[[Value, Steps], Value]
    sums: Mapping[str, Steps]
    guards: Mapping[str, int]
    cell: Steps
    hidden: Steps
    output: Steps


SUMS = Steps(2.0**-12)
"""Integers that activations of an integer kernel's gates read."""
PARTS = Steps(2.0**-15)
"""Integers of activated gates; the largest is what 1 becomes."""
_NORMS = Steps(2.0**-10)
"""Integers of values that a layer norm has divided by their deviation."""


def lstm(
    g: Operators,
    x: Value,
    weights: LstmWeights,
    states: Sequence[Value],
    rounding: Rounding | None = None,
    *,
    reverse: bool = False,
) -> list[Value]:
    """Return hidden states [T, B, outputs], the last one and the cell [B, ...].

    Args:
        x: Input, [T, B, width].
        states: Hidden state and cell before the first step, [B, outputs] and [B, units].
        rounding: Roundings of an integer kernel; None for a float one.
        reverse: Whether the steps run from the last to the first; step t stays at row t.
    """
    if weights.is_plain and rounding is None:
        return _canonical(g, x, weights, states, reverse=reverse)
    named = {
        f"{kind}_{gate}": value
        for kind in ("inputs", "states", "biases", "peepholes", "norms")
        for gate, value in getattr(weights, kind).items()
        if value is not None
    }
    named |= {
        name: value
        for name in ("projection", "projection_bias")
        if (value := getattr(weights, name)) is not None
    }

    def rounded(value: Value, steps: Steps) -> Value:
        return rounding.round(value, steps) if rounding else value

    def step(row: Value, held: Sequence[Value], at: Callable[[str], Value | None]) -> list[Value]:
        hidden, cell = held

        def gate(name: str, memory: Value) -> Value:
            peephole, norm, bias = (at(f"{kind}_{name}") for kind in ("peepholes", "norms", "biases"))
            sums = rounding.sums[name] if rounding else SUMS
            total = _product(g, row, at(f"inputs_{name}"))
            total = total if norm is not None or bias is None else g("Add", [total, bias])
            terms = [_product(g, hidden, at(f"states_{name}"))]
            terms += [] if peephole is None else [g("Mul", [memory, peephole])]
            for term in terms:
                total = rounded(g("Add", [rounded(total, sums), rounded(term, sums)]), sums)
            if norm is None:
                return total
            total = g("Mul", [_normalized(g, total, rounding, name), norm])
            return rounded(total if bias is None else g("Add", [total, bias]), SUMS)

        forget = rounded(g("Sigmoid", [gate("f", cell)]), PARTS)
        writing = g("Sub", [number(g, forget, 1 - PARTS.scale if rounding else 1), forget])
        if at("inputs_i") is not None:
            writing = g("Sigmoid", [gate("i", cell)])
        writing = rounded(writing, PARTS)
        new = rounded(activated(g, gate("c", cell), weights.activation), PARTS)
        steps = rounding.cell if rounding else PARTS
        cell = g("Add", [rounded(g("Mul", [forget, cell]), steps), rounded(g("Mul", [writing, new]), steps)])
        cell = rounded(_clipped(g, cell, weights.cell_clip), steps)
        shown = rounded(g("Sigmoid", [gate("o", cell)]), PARTS)
        hidden = g("Mul", [shown, rounded(activated(g, cell, weights.activation), PARTS)])
        hidden = rounded(hidden, rounding.hidden) if rounding else hidden
        projection, bias = at("projection"), at("projection_bias")
        if projection is not None:
            hidden = _product(g, hidden, projection)
            hidden = hidden if bias is None else g("Add", [hidden, bias])
            zero = rounding.output.zero * rounding.output.scale if rounding else 0.0
            hidden = _clipped(g, hidden, weights.clip, zero)
            hidden = rounded(hidden, rounding.output) if rounding else hidden
        return [hidden, cell]

    return scanned(g, x, states, step, named, reverse=reverse)


def _canonical(
    g: Operators, x: Value, weights: LstmWeights, states: Sequence[Value], *, reverse: bool
) -> list[Value]:
    def joined(gates: Gates, order: str) -> Value | None:
        by_gate = dict(gates)
        if "i" in order and by_gate.get("i") is None and weights.inputs.get("i") is None:
            forget = by_gate.get("f")  # 1 - sigmoid(f) is sigmoid(-f)
            by_gate["i"] = None if forget is None else g("Neg", [forget])
        ordered = [by_gate.get(name) for name in order]
        some = next((value for value in ordered if value is not None), None)
        if some is None:
            return None
        parts = [
            g.builder.const(np.zeros(some.shape, some.dtype.numpy)) if part is None else part
            for part in ordered
        ]
        return front(g, g("Concat", parts, axis=0))

    bias = joined(weights.biases, _ORDER)
    if bias is not None:
        bias = g("Concat", [bias, g.builder.const(np.zeros(bias.shape, bias.dtype.numpy))], axis=1)
    hidden, cell = states
    inputs = [x, joined(weights.inputs, _ORDER), joined(weights.states, _ORDER), bias, None]
    inputs += [front(g, hidden), front(g, cell), joined(weights.peepholes, "iof")]
    made = g.apply("LSTM", inputs, _form(cell, reverse=reverse), 3)
    return [_squeezed(g, value, axis) for value, axis in zip(made, (1, 0, 0), strict=True)]


def _form(state: Value, *, reverse: bool) -> dict[str, int | str]:
    return {"hidden_size": dims(state)[-1], "direction": "reverse" if reverse else "forward"}


def rnn(
    g: Operators,
    x: Value,
    weights: Sequence[Value | None],
    state: Value,
    activation: str | None,
    finish: Finish | None = None,
    *,
    reverse: bool = False,
) -> list[Value]:
    """Return hidden states [T, B, units] and the last of h = f(x W + h R + b).

    Args:
        x: Input, [T, B, width].
        weights: Those of the input [units, width], those of the state [units, units], and the bias [units].
        state: Hidden state before the first step, [B, units].
        activation: Canonical operator; None for none.
        finish: Changes the state of a step.
        reverse: Whether the steps run from the last to the first; step t stays at row t.
    """
    weight, recurrence, bias = weights
    assert weight is not None
    assert recurrence is not None
    if activation in ("Tanh", "Relu") and finish is None:
        both = None
        if bias is not None:
            both = front(
                g, g("Concat", [bias, g.builder.const(np.zeros(bias.shape, bias.dtype.numpy))], axis=0)
            )
        inputs = [x, front(g, weight), front(g, recurrence), both, None, front(g, state)]
        results = g.apply("RNN", inputs, {**_form(state, reverse=reverse), "activations": [activation]}, 2)
        return [_squeezed(g, value, axis) for value, axis in zip(results, (1, 0), strict=True)]
    named = {"weight": weight, "recurrence": recurrence} | ({} if bias is None else {"bias": bias})

    def step(row: Value, before: Sequence[Value], at: Callable[[str], Value | None]) -> list[Value]:
        total = g("Add", [_product(g, row, at("weight")), _product(g, before[0], at("recurrence"))])
        summand = at("bias")
        total = total if summand is None else g("Add", [total, summand])
        results = [activated(g, total, activation)]
        return results if finish is None else finish(results)

    return scanned(g, x, [state], step, named, reverse=reverse)


def scanned(
    g: Operators,
    x: Value,
    states: Sequence[Value],
    step: Callable[[Value, Sequence[Value], Callable[[str], Value | None]], list[Value]],
    constants: Mapping[str, Value],
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
    context.values.update({f"{stem}~{name}": value for name, value in constants.items()})
    x = _reversed(g, x) if reverse else x
    context.values[f"{stem}~input"] = x

    def at(name: str) -> Value | None:
        return context.values.tensor(f"{stem}~{name}") if name in constants else None

    def iteration(values: Sequence[object]) -> list[Value]:
        index, flag, *before = values
        assert isinstance(index, Value)
        assert isinstance(flag, Value)
        row = g("Gather", [context.values.tensor(f"{stem}~input"), index], axis=0)
        after = step(row, [value for value in before if isinstance(value, Value)], at)
        return [flag, *after, *([] if rows else after[:1])]

    names = [f"state{index}" for index in range(len(states))]
    made = [f"row{index}" for index in range(max(rows, 1))]
    ends = ["flag", *(f"{name}_next" for name in names), *made]
    body = Computed(["index", "flag", *names], ends, iteration)
    count = g.builder.const(np.asarray(dims(x)[0], np.int64))
    results = g.apply("Loop", [count, None, *states], {"body": body}, len(states) + len(made))
    last, every = results[: len(states)], results[len(states) :]
    return [*(_reversed(g, each) if reverse else each for each in every), *last]


def _reversed(g: Operators, x: Value) -> Value:
    """Return a value with its first axis reversed."""
    ends = [np.asarray([value], np.int64) for value in (-1, -(1 << 31), 0, -1)]
    return g("Slice", [x, *(g.builder.const(end) for end in ends)])


def front(g: Operators, x: Value) -> Value:
    """Return a value with an axis of one element in front."""
    return g("Unsqueeze", [x, g.builder.const(np.zeros(1, np.int64))])


def _squeezed(g: Operators, x: Value, axis: int) -> Value:
    return g("Squeeze", [x, g.builder.const(np.asarray([axis], np.int64))])


def _product(g: Operators, x: Value, weight: Value | None) -> Value:
    """Return x [B, k] times the transpose of weights [n, k]."""
    assert weight is not None
    return g("MatMul", [x, g("Transpose", [weight], perm=[1, 0])])


def activated(g: Operators, x: Value, activation: str | None) -> Value:
    """Return a value after a TFLite activation, by a canonical operator if any."""
    if activation == "Relu6":
        return g("Clip", [x, number(g, x, 0), number(g, x, 6)])
    if activation == "ReluN1To1":
        return g("Clip", [x, number(g, x, -1), number(g, x, 1)])
    return x if activation is None else g(activation, [x])


def _clipped(g: Operators, x: Value, bound: float, zero: float = 0.0) -> Value:
    """Return values bounded at ``-zero``, as integer kernels clip stored integers."""
    return g("Clip", [x, number(g, x, -bound - zero), number(g, x, bound - zero)]) if bound > 0 else x


def _normalized(g: Operators, x: Value, rounding: Rounding | None, gate: str) -> Value:
    """Return values without their mean over the last axis, divided by their deviation."""
    axis = g.builder.const(np.asarray([-1], np.int64))
    mean = g("ReduceMean", [x, axis])
    centred = g("Sub", [x, mean])
    variance = g("ReduceMean", [g("Mul", [centred, centred]), axis])
    if rounding is None:
        variance = g("Add", [variance, number(g, x, _SMALLEST)])
    else:
        variance = _whole_variance(g, variance, mean, dims(x)[-1], rounding, gate)
    normal = g("Div", [centred, g("Sqrt", [variance])])
    return rounding.round(normal, _NORMS) if rounding else normal


def _whole_variance(
    g: Operators, variance: Value, mean: Value, count: int, rounding: Rounding, gate: str
) -> Value:
    """Return an integer kernel's variance: whole steps squared, never 0.

    It divides by the number of elements with a factor of 20 bits, rounded down.  Whole steps matter for small
    variances only; larger ones stay as they are, which float16 holds.
    """
    step = rounding.sums[gate].scale ** 2
    lost = 1 - ((1 << 20) // count) * count / (1 << 20)
    if lost:
        square = g("Mul", [g("Mul", [mean, mean]), number(g, mean, lost)])
        variance = g("Sub", [g("Mul", [variance, number(g, variance, 1 - lost)]), square])
    limit, guard = number(g, variance, _EXACT * step), rounding.guards[gate]
    whole = g("Floor", [g("Mul", [g("Min", [variance, limit]), number(g, variance, 1 / step)])])
    whole = g("Where", [g("Less", [whole, number(g, whole, 1)]), number(g, whole, guard), whole])
    return g("Where", [g("Less", [variance, limit]), g("Mul", [whole, number(g, whole, step)]), variance])


def svdf(
    g: Operators,
    x: Value,
    features: Value,
    times: Value,
    bias: Value | None,
    state: Value,
    rank: int,
    finish: Finish | None = None,
) -> tuple[Value, Value]:
    """Return outputs [B, units] of a rank-one filter, and its memory after the step.

    Args:
        x: Input, [B, width].
        features: Weights of the input, [filters, width].
        times: Weights of the last steps, [filters, memory].
        bias: Biases, [units], or None.
        state: Products of the last steps, [B, filters * memory].
        rank: Filters per unit.
        finish: Changes the product of this step.
    """
    batch, (filters, memory) = dims(x)[0], dims(times)
    product = _product(g, x, features)
    product = product if finish is None else finish([product])[0]
    new = g("Reshape", [product, _ints(g, batch, filters, 1)])
    before = g("Reshape", [state, _ints(g, batch, filters, memory)])
    kept = g("Slice", [before, _ints(g, 1), _ints(g, memory), _ints(g, 2)])
    window = g("Concat", [kept, new], axis=2) if memory > 1 else new
    total = g("ReduceSum", [g("Mul", [window, times]), _ints(g, 2)], keepdims=0)
    if rank > 1:
        total = g("Reshape", [total, _ints(g, batch, filters // rank, rank)])
        total = g("ReduceSum", [total, _ints(g, 2)], keepdims=0)
    total = total if bias is None else g("Add", [total, bias])
    return total, g("Reshape", [window, _ints(g, batch, filters * memory)])


def _ints(g: Operators, *values: int) -> Value:
    return g.builder.const(np.asarray(values, np.int64))
