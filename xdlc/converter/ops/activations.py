"""Activations."""

from __future__ import annotations

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import ANY, Node, importer
from xdlc.converter.ops import _formulas
from xdlc.converter.ops._compose import compare, neuron, number, select, unary
from xdlc.converter.ops.shapes import expanded
from xdlc.converter.values import Value
from xdlc.ir.dtype import FLOAT64
from xdlc.opdefs.elementwise_enums import (
    ADD,
    DIVIDE,
    ELU,
    EXP,
    GELU,
    GREATER,
    HARD_SIGMOID,
    HARD_SWISH,
    MAXIMUM,
    MINIMUM,
    MULTIPLY,
    RELU,
    RELU_MIN_MAX,
    SIGMOID,
    SOFTPLUS,
    SUBTRACT,
    TANH,
)


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
def hard_sigmoid(node: Node, b: Builder, x: Value) -> Value:
    """Map max(0, min(1, alpha * x + beta)); QNN's requires a beta above 0."""
    alpha, beta = node.attr("alpha", 0.2), node.attr("beta", 0.5)
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
            "xdlc does not support approximate='tanh'; QNN's Gelu uses the error function",
            "export with approximate='none', or with the formula written out",
        )
    return neuron(b, node.required(0), GELU)


@importer("Selu", since=6, layout=ANY)
def selu(node: Node, b: Builder) -> Value:
    """Write gamma * elu(x)."""
    alpha = node.attr("alpha", 1.6732632423543772)
    gamma = node.attr("gamma", 1.0507009873554805)
    scaled = neuron(b, node.required(0), ELU, {"alpha": ir.f32(alpha)})
    return b.binary(MULTIPLY, scaled, number(b, node.required(0), gamma))


@importer("Celu", since=12, layout=ANY)
def celu(node: Node, b: Builder, x: Value) -> Value:
    """Write max(0, x) + min(0, alpha * (exp(x / alpha) - 1)).

    For alpha above 0 it is alpha * elu(x / alpha).
    """
    alpha = node.attr("alpha", 1.0)
    if alpha == 0:
        raise node.invalid("alpha must not be 0")
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
def mish(node: Node, b: Builder, x: Value) -> Value:
    """Write x * tanh(softplus(x))."""
    return b.binary(MULTIPLY, x, neuron(b, neuron(b, x, SOFTPLUS, {"beta": ir.f32(1.0)}), TANH))


@importer("Swish", since=24, layout=ANY)
def swish(node: Node, b: Builder) -> Value:
    """Write x * sigmoid(alpha * x)."""
    return _formulas.silu(b, node.required(0), node.attr("alpha", 1.0))


@importer("Shrink", since=9, layout=ANY)
def shrink(node: Node, b: Builder, x: Value) -> Value:
    """Write x + bias below -lambd, x - bias above lambd, else 0, as two selections."""
    lambd, bias = node.attr("lambd", 0.5), node.attr("bias", 0.0)
    above = compare(b, GREATER, x, number(b, x, lambd))
    below = compare(b, GREATER, number(b, x, -lambd), x)
    high = select(b, above, b.binary(SUBTRACT, x, number(b, x, bias)), number(b, x, 0.0))
    return select(b, below, b.binary(ADD, x, number(b, x, bias)), high)


@importer("Clip", since=6, layout=ANY)
def clip(node: Node, b: Builder, value: Value) -> Value:
    """Map constant float limits onto ReluMinMax, all else onto Minimum and Maximum."""
    low, high = _limit(node, b, 1, "min"), _limit(node, b, 2, "max")
    if any(limit and limit.is_static and np.isnan(limit.numpy()).any() for limit in (low, high)):
        raise node.invalid("a limit (min or max) is NaN")
    known = all(limit is None or limit.is_static for limit in (low, high))
    if value.dtype.is_float and value.dtype is not FLOAT64 and known:  # limits are of 32 bits
        lowest, highest = (
            None if limit is None else float(limit.numpy().reshape(())) for limit in (low, high)
        )
        if lowest is None and highest is None:
            return value
        if lowest == 0.0 and highest is None:
            return neuron(b, value, RELU)
        most = float(np.finfo(np.float32).max)
        params = {
            "min_value": ir.f32(-most if lowest is None else max(lowest, -most)),
            "max_value": ir.f32(most if highest is None else min(highest, most)),
        }
        return neuron(b, value, RELU_MIN_MAX, params)
    if low is not None:
        value = b.binary(MAXIMUM, value, low)
    return value if high is None else b.binary(MINIMUM, value, high)


def _limit(node: Node, b: Builder, index: int, attribute: str) -> Value | None:
    given = node.attr(attribute)
    if given is not None:
        return b.const(np.asarray(given, node.required(0).dtype.numpy))
    return node.input(index)


@importer("PRelu", since=7, layout=ANY)
def prelu(node: Node, b: Builder) -> Value:
    """Map onto Prelu; broadcast the input too, as onnxruntime does."""
    slope = node.required(1)
    node.check_types(node.required(0), slope)
    return b.elementwise("Prelu", [expanded(b, node.required(0), slope.shape), slope])


@importer("LeakyRelu", since=6, layout=ANY)
def leaky_relu(node: Node, b: Builder, x: Value) -> Value:
    """Map onto Prelu with one slope."""
    slope = np.asarray(node.attr("alpha", 0.01), x.dtype.numpy)
    return b.elementwise("Prelu", [x, b.const(slope, f"{b.stem}_slope")])
