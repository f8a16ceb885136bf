"""Activations that are fused into another operator and named by an attribute."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops import _formulas
from xdlc.converter.operators.ops._compose import number
from xdlc.converter.operators.ops.neuron import neuron
from xdlc.converter.operators.registry import Node
from xdlc.converter.values import Value
from xdlc.opdefs.elementwise_enums import (
    ELU,
    HARD_SIGMOID,
    HARD_SWISH,
    RELU,
    RELU_MIN_MAX,
    SIGMOID,
    SOFTPLUS,
    TANH,
)

Activation = Callable[[Builder, Value, Sequence[float]], Value]


def _plain(operation: int) -> Activation:
    return lambda b, x, params: neuron(b, x, operation)


def _leaky(b: Builder, x: Value, params: Sequence[float]) -> Value:
    return b.elementwise("Prelu", [x, number(b, x, params[0])])


def _clipped(b: Builder, x: Value, params: Sequence[float]) -> Value:
    limits = {"min_value": ir.f32(params[0]), "max_value": ir.f32(params[1])}
    return neuron(b, x, RELU_MIN_MAX, limits)


def _hard_sigmoid(b: Builder, x: Value, params: Sequence[float]) -> Value:
    return neuron(b, x, HARD_SIGMOID, {"alpha": ir.f32(params[0]), "beta": ir.f32(params[1])})


# Name: function and number of its parameters.
_ACTIVATIONS: dict[str, tuple[Activation, int]] = {
    "Clip": (_clipped, 2),
    "Elu": (lambda b, x, params: neuron(b, x, ELU, {"alpha": ir.f32(params[0])}), 1),
    "HardSigmoid": (_hard_sigmoid, 2),
    "HardSwish": (_plain(HARD_SWISH), 0),
    "LeakyRelu": (_leaky, 1),
    "Relu": (_plain(RELU), 0),
    "Sigmoid": (_plain(SIGMOID), 0),
    "Softplus": (lambda b, x, params: neuron(b, x, SOFTPLUS, {"beta": ir.f32(1.0)}), 0),
    "Softsign": (lambda b, x, params: _formulas.softsign(b, x), 0),
    "Tanh": (_plain(TANH), 0),
    "ThresholdedRelu": (lambda b, x, params: _formulas.thresholded(b, x, params[0]), 1),
}


def activated(node: Node, b: Builder, x: Value, numbers: Sequence[float | None]) -> Value:
    """Return ``x`` after the activation of attribute ``activation``, if present.

    Args:
        numbers: Parameters of the activation, None for an omitted one.
    """
    name = node.attr("activation", "")
    if not name:
        return x
    if name not in _ACTIVATIONS:
        raise node.problem(f"activation {name!r}", f"use one of {', '.join(sorted(_ACTIVATIONS))}")
    function, count = _ACTIVATIONS[name]
    params = [number for number in numbers[:count] if number is not None]
    if len(params) < count:
        raise node.problem(f"{len(params)} parameters of {name}, which has {count}")
    return function(b, x, params)
