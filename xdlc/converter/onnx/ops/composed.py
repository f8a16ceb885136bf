"""Activations that QNN does not have, written with operations that it has."""

from __future__ import annotations

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.onnx.ops.binary import ADD, DIVIDE, GREATER, MULTIPLY, SUBTRACT
from xdlc.converter.onnx.ops.neuron import ELU, SIGMOID, SOFTPLUS, TANH, neuron
from xdlc.converter.onnx.registry import ANY, Node, importer
from xdlc.converter.values import Value
from xdlc.ir.dtype import BOOL8

_ABS = 0


def constant(node: Node, b: Builder, value: float) -> Value:
    """Return one number of the type of the node's input."""
    return b.const(np.asarray([value], node.required(0).dtype.numpy))


@importer("Selu", since=6, layout=ANY)
def selu(node: Node, b: Builder) -> Value:
    """Write gamma * elu(x)."""
    alpha = node.attr("alpha", 1.6732632423543772)
    gamma = node.attr("gamma", 1.0507009873554805)
    scaled = neuron(b, node.required(0), ELU, {"alpha": ir.f32(alpha)})
    return b.binary(MULTIPLY, scaled, constant(node, b, gamma))


@importer("Celu", since=12, layout=ANY)
def celu(node: Node, b: Builder) -> Value:
    """Write max(0, x) + min(0, alpha * (exp(x / alpha) - 1)) as alpha * elu(x / alpha)."""
    alpha = node.attr("alpha", 1.0)
    inner = b.binary(DIVIDE, node.required(0), constant(node, b, alpha))
    return b.binary(MULTIPLY, neuron(b, inner, ELU, {"alpha": ir.f32(1.0)}), constant(node, b, alpha))


@importer("ThresholdedRelu", since=10, layout=ANY)
def thresholded_relu(node: Node, b: Builder) -> Value:
    """Write x where it is above alpha, else 0."""
    x = node.required(0)
    above = b.binary(GREATER, x, constant(node, b, node.attr("alpha", 1.0)), dtype=BOOL8)
    return b.elementwise("ElementWiseSelect", [above, x, constant(node, b, 0.0)], dtype=x.dtype)


@importer("Softsign", layout=ANY)
def softsign(node: Node, b: Builder) -> Value:
    """Write x / (1 + |x|)."""
    x = node.required(0)
    size = b.unary("ElementWiseUnary", x, {"operation": ir.u32(_ABS)})
    return b.binary(DIVIDE, x, b.binary(ADD, size, constant(node, b, 1.0)))


@importer("Mish", since=18, layout=ANY)
def mish(node: Node, b: Builder) -> Value:
    """Write x * tanh(softplus(x))."""
    x = node.required(0)
    return b.binary(MULTIPLY, x, neuron(b, neuron(b, x, SOFTPLUS, {"beta": ir.f32(1.0)}), TANH))


@importer("Swish", since=24, layout=ANY)
def swish(node: Node, b: Builder) -> Value:
    """Write x * sigmoid(alpha * x)."""
    x, alpha = node.required(0), node.attr("alpha", 1.0)
    inner = x if alpha == 1.0 else b.binary(MULTIPLY, x, constant(node, b, alpha))
    return b.binary(MULTIPLY, x, neuron(b, inner, SIGMOID))


@importer("Shrink", since=9, layout=ANY)
def shrink(node: Node, b: Builder) -> Value:
    """Write x - bias above lambd, x + bias below -lambd, 0 between, as two selections."""
    x, lambd, bias = node.required(0), node.attr("lambd", 0.5), node.attr("bias", 0.0)
    above = b.binary(GREATER, x, constant(node, b, lambd), dtype=BOOL8)
    below = b.binary(GREATER, constant(node, b, -lambd), x, dtype=BOOL8)
    low = b.elementwise(
        "ElementWiseSelect",
        [below, b.binary(ADD, x, constant(node, b, bias)), constant(node, b, 0.0)],
        dtype=x.dtype,
    )
    return b.elementwise(
        "ElementWiseSelect", [above, b.binary(SUBTRACT, x, constant(node, b, bias)), low], dtype=x.dtype
    )
