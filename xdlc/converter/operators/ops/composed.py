"""Activations that QNN does not have, written with operations that it has."""

from __future__ import annotations

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops import _formulas
from xdlc.converter.operators.ops._compose import compare, number, select, unary
from xdlc.converter.operators.ops.neuron import neuron
from xdlc.converter.operators.registry import ANY, Node, importer
from xdlc.converter.values import Value
from xdlc.opdefs.elementwise_enums import (
    ADD,
    DIVIDE,
    ELU,
    EXP,
    GREATER,
    MINIMUM,
    MULTIPLY,
    RELU,
    SOFTPLUS,
    SUBTRACT,
    TANH,
)


@importer("Selu", since=6, layout=ANY)
def selu(node: Node, b: Builder) -> Value:
    """Write gamma * elu(x)."""
    alpha = node.attr("alpha", 1.6732632423543772)
    gamma = node.attr("gamma", 1.0507009873554805)
    scaled = neuron(b, node.required(0), ELU, {"alpha": ir.f32(alpha)})
    return b.binary(MULTIPLY, scaled, number(b, node.required(0), gamma))


@importer("Celu", since=12, layout=ANY)
def celu(node: Node, b: Builder) -> Value:
    """Write max(0, x) + min(0, alpha * (exp(x / alpha) - 1)).

    For alpha above 0 it is alpha * elu(x / alpha).
    """
    x, alpha = node.required(0), node.attr("alpha", 1.0)
    if alpha == 0:
        raise node.invalid("its alpha is 0")
    inner = b.binary(DIVIDE, x, number(b, x, alpha))
    if alpha < 0:  # the two parts meet at 0
        grown = b.binary(SUBTRACT, unary(b, EXP, inner), number(b, x, 1.0))
        below = b.binary(MINIMUM, b.binary(MULTIPLY, grown, number(b, x, alpha)), number(b, x, 0.0))
        return b.binary(ADD, neuron(b, x, RELU), below)
    return b.binary(MULTIPLY, neuron(b, inner, ELU, {"alpha": ir.f32(1.0)}), number(b, x, alpha))


@importer("ThresholdedRelu", since=10, layout=ANY)
def thresholded_relu(node: Node, b: Builder) -> Value:
    """Write x where it is above alpha, else 0."""
    return _formulas.thresholded(b, node.required(0), node.attr("alpha", 1.0))


@importer("Softsign", layout=ANY)
def softsign(node: Node, b: Builder) -> Value:
    """Write x / (1 + |x|)."""
    return _formulas.softsign(b, node.required(0))


@importer("Mish", since=18, layout=ANY)
def mish(node: Node, b: Builder) -> Value:
    """Write x * tanh(softplus(x))."""
    x = node.required(0)
    return b.binary(MULTIPLY, x, neuron(b, neuron(b, x, SOFTPLUS, {"beta": ir.f32(1.0)}), TANH))


@importer("Swish", since=24, layout=ANY)
def swish(node: Node, b: Builder) -> Value:
    """Write x * sigmoid(alpha * x)."""
    return _formulas.silu(b, node.required(0), node.attr("alpha", 1.0))


@importer("Shrink", since=9, layout=ANY)
def shrink(node: Node, b: Builder) -> Value:
    """Write x + bias below -lambd, x - bias above lambd, else 0, as two selections."""
    x, lambd, bias = node.required(0), node.attr("lambd", 0.5), node.attr("bias", 0.0)
    above = compare(b, GREATER, x, number(b, x, lambd))
    below = compare(b, GREATER, number(b, x, -lambd), x)
    high = select(b, above, b.binary(SUBTRACT, x, number(b, x, bias)), number(b, x, 0.0))
    return select(b, below, b.binary(ADD, x, number(b, x, bias)), high)
