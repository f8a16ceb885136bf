"""Activations that QNN has as one operation of ElementWiseNeuron."""

from __future__ import annotations

from collections.abc import Mapping

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import ANY, Node, importer
from xdlc.converter.values import Value
from xdlc.opdefs.elementwise_enums import (
    ADD,
    ELU,
    GELU,
    HARD_SIGMOID,
    HARD_SWISH,
    MULTIPLY,
    RELU,
    RELU_MIN_MAX,
    SIGMOID,
    SOFTPLUS,
    TANH,
)


def neuron(b: Builder, value: Value, operation: int, params: Mapping[str, ir.Param] | None = None) -> Value:
    """Append an ElementWiseNeuron."""
    return b.unary("ElementWiseNeuron", value, {"operation": ir.u32(operation), **(params or {})})


@importer("Relu", "Sigmoid", "Tanh", layout=ANY, dynamic=True)
def plain(node: Node, b: Builder) -> Value:
    """Map an activation without parameters."""
    return neuron(b, node.required(0), {"Relu": RELU, "Sigmoid": SIGMOID, "Tanh": TANH}[node.type])


@importer("Softplus", layout=ANY, dynamic=True)
def softplus(node: Node, b: Builder) -> Value:
    """Map log(1 + exp(x))."""
    return neuron(b, node.required(0), SOFTPLUS, {"beta": ir.f32(1.0)})


@importer("HardSwish", since=14, layout=ANY, dynamic=True)
def hard_swish(node: Node, b: Builder) -> Value:
    """Map x * max(0, min(1, x / 6 + 0.5))."""
    return neuron(b, node.required(0), HARD_SWISH)


@importer("Elu", layout=ANY, dynamic=True)
def elu(node: Node, b: Builder) -> Value:
    """Map x below 0 to alpha * (exp(x) - 1)."""
    return neuron(b, node.required(0), ELU, {"alpha": ir.f32(node.attr("alpha", 1.0))})


@importer("HardSigmoid", layout=ANY, dynamic=True)
def hard_sigmoid(node: Node, b: Builder) -> Value:
    """Map max(0, min(1, alpha * x + beta)); QNN's requires a beta above 0."""
    x, alpha, beta = node.required(0), node.attr("alpha", 0.2), node.attr("beta", 0.5)
    if beta > 0:
        return neuron(b, x, HARD_SIGMOID, {"alpha": ir.f32(alpha), "beta": ir.f32(beta)})
    factor, term = (b.const(x.dtype.numpy.type(number)) for number in (alpha, beta))
    line = b.binary(ADD, b.binary(MULTIPLY, x, factor), term)
    return neuron(b, line, RELU_MIN_MAX, {"min_value": ir.f32(0.0), "max_value": ir.f32(1.0)})


@importer("Gelu", since=20, layout=ANY, dynamic=True)
def gelu(node: Node, b: Builder) -> Value:
    """Map the error-function form; the tanh approximation is another function."""
    if node.attr("approximate", "none") != "none":
        raise node.problem(
            "approximate='tanh' is not supported; QNN's Gelu uses the error function",
            "export with approximate='none', or with the formula written out",
        )
    return neuron(b, node.required(0), GELU)
