"""LSTMs and RNNs with norms, projections, and the roundings of integer kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from xdlc.converter.functions.elementwise import clipped
from xdlc.converter.functions.products import dense
from xdlc.converter.functions.recurrence import Lookup, Weights, one_way, scanned
from xdlc.converter.functions.shapes import dims, vector
from xdlc.converter.functions.terms import Term
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.values import Value
from xdlc.opdefs.cells import lstm_step

_SMALLEST = 1e-8
"""Epsilon that a gate's layer norm adds to the variance."""
_EXACT = 1 << 10
"""Variances in steps squared that integer kernels round to whole ones with an effect."""


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
    weights: Weights,
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
        return one_way(g, "LSTM", x, weights, states, reverse=reverse)
    kinds = ("inputs", "states", "biases", "peepholes", "norms")
    constants = {f"{kind}_{gate}": value for kind in kinds for gate, value in getattr(weights, kind).items()}
    constants |= {name: getattr(weights, name) for name in ("projection", "projection_bias")}
    ends = {"i": PARTS, "shown": PARTS}
    if rounding is not None:
        ends |= dict.fromkeys(("kept", "added", "cell"), rounding.cell) | {"hidden": rounding.hidden}

    def rounded(value: Term, steps: Steps) -> Term:
        return Term(g, rounding.round(value.value, steps)) if rounding else value

    def keep(name: str, value: Term) -> Term:
        value = _within(value, weights.cell_clip) if name == "cell" else value
        return rounded(value, ends[name]) if rounding else value

    def step(row: Value, before: Sequence[Value], at: Lookup) -> list[Value]:
        hidden, cell = (Term(g, state) for state in before)

        def gate(name: str, memory: Term) -> Term:
            peephole, norm, bias = (at(f"{kind}_{name}") for kind in ("peepholes", "norms", "biases"))
            sums = rounding.sums[name] if rounding else SUMS
            total = _product(Term(g, row), at(f"inputs_{name}"))
            total = total if norm is not None or bias is None else total + bias
            terms = [_product(hidden, at(f"states_{name}"))]
            terms += [] if peephole is None else [memory * peephole]
            for term in terms:
                total = rounded(rounded(total, sums) + rounded(term, sums), sums)
            if norm is not None:
                total = _normalized(total, rounding, name) * norm
                total = rounded(total if bias is None else total + bias, SUMS)
            return rounded(activated(total, weights.activation if name == "c" else "Sigmoid"), PARTS)

        missing = "" if at("inputs_i") is not None else "i"
        whole = 1 - PARTS.scale if rounding else 1
        hidden, cell = lstm_step(
            gate, cell, lambda x: activated(x, weights.activation), keep, missing=missing, whole=whole
        )
        projection, bias = at("projection"), at("projection_bias")
        if projection is not None:
            hidden = _product(hidden, projection)
            hidden = hidden if bias is None else hidden + bias
            zero = rounding.output.zero * rounding.output.scale if rounding else 0.0
            hidden = _within(hidden, weights.clip, zero)
            hidden = rounded(hidden, rounding.output) if rounding else hidden
        return [hidden.value, cell.value]

    return scanned(g, x, states, step, constants, reverse=reverse)


def _product(x: Term, weight: Value | None) -> Term:
    """Return x [B, k] times the transpose of weights [n, k]."""
    assert weight is not None
    return x.via(dense, weight)


def activated(x: Term, activation: str | None) -> Term:
    """Return a value after a TFLite activation, by a canonical operator if any."""
    bounds = {"Relu6": (0, 6), "ReluN1To1": (-1, 1)}
    if activation in bounds:
        return Term(x.g, clipped(x.g, x.value, *bounds[activation]))
    return x if activation is None else x(activation)


def _within(x: Term, bound: float, zero: float = 0.0) -> Term:
    """Return values bounded at ``-zero``, as integer kernels clip stored integers."""
    return Term(x.g, clipped(x.g, x.value, -bound - zero, bound - zero)) if bound > 0 else x


def _normalized(x: Term, rounding: Rounding | None, gate: str) -> Term:
    """Return values without their mean over the last axis, divided by their deviation."""
    axis = vector(x.g, [-1])
    mean = x("ReduceMean", axis)
    centred = x - mean
    variance = (centred * centred)("ReduceMean", axis)
    if rounding is None:
        return centred / (variance + _SMALLEST)("Sqrt")
    variance = _whole_variance(variance, mean, dims(x.value)[-1], rounding, gate)
    return Term(x.g, rounding.round((centred / variance("Sqrt")).value, _NORMS))


def _whole_variance(variance: Term, mean: Term, count: int, rounding: Rounding, gate: str) -> Term:
    """Return an integer kernel's variance: whole steps squared, never 0.

    It divides by the number of elements with a factor of 20 bits, rounded down.  Whole steps matter for small
    variances only; larger ones stay as they are, which float16 holds.
    """
    step = rounding.sums[gate].scale ** 2
    lost = 1 - ((1 << 20) // count) * count / (1 << 20)
    if lost:
        variance = variance * (1 - lost) - mean * mean * lost
    limit = _EXACT * step
    whole = (variance.least(limit) * (1 / step))("Floor")
    whole = (whole < 1).where(rounding.guards[gate], whole)
    return (variance < limit).where(whole * step, variance)


Finish = Callable[[Value], Value]
"""Function of the state after a step, for example rounding to an encoding."""


def rnn(
    g: Operators,
    x: Value,
    weights: Weights,
    state: Value,
    finish: Finish | None = None,
    *,
    reverse: bool = False,
) -> list[Value]:
    """Return hidden states [T, B, units] and the last of h = f(x W + h R + b).

    Args:
        x: Input, [T, B, width].
        state: Hidden state before the first step, [B, units].
        finish: Changes the state of a step.
        reverse: Whether the steps run from the last to the first; step t stays at row t.
    """
    activation = weights.activation
    if activation in ("Tanh", "Relu") and finish is None:
        return one_way(g, "RNN", x, weights, [state], reverse=reverse, activations=[activation])

    def step(row: Value, before: Sequence[Value], at: Lookup) -> list[Value]:
        total = _product(Term(g, row), at("inputs")) + _product(Term(g, before[0]), at("states"))
        bias = at("biases")
        total = total if bias is None else total + bias
        state = activated(total, activation).value
        return [state if finish is None else finish(state)]

    constants = {kind: getattr(weights, kind).get("n") for kind in ("inputs", "states", "biases")}
    return scanned(g, x, [state], step, constants, reverse=reverse)
