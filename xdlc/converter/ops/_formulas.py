"""Formulas that several operators share, written with QNN operations."""

from __future__ import annotations

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import Node
from xdlc.converter.ops._compose import compare, neuron, number, select, unary
from xdlc.converter.ops.products import multiply
from xdlc.converter.values import Value, identity
from xdlc.opdefs.elementwise_enums import ABS, ADD, DIVIDE, GREATER, MULTIPLY, SIGMOID, TANH

SQRT_2_OVER_PI = 0.7978845608028654
CUBIC = 0.044715


def times(b: Builder, x: Value, factor: float) -> Value:
    """Return ``x`` times a number."""
    return x if factor == 1.0 else b.binary(MULTIPLY, x, number(b, x, factor))


def plus(b: Builder, x: Value, *terms: Value | None) -> Value:
    """Return the sum of ``x`` and the terms that are not None, from left to right."""
    for term in terms:
        if term is not None:
            x = b.binary(ADD, x, term)
    return x


def tanh_gelu(b: Builder, x: Value) -> Value:
    """Return 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))."""
    square = b.binary(MULTIPLY, x, x)
    slope = plus(b, times(b, square, SQRT_2_OVER_PI * CUBIC), number(b, x, SQRT_2_OVER_PI))
    bent = neuron(b, b.binary(MULTIPLY, x, slope), TANH)
    half = times(b, x, 0.5)
    return plus(b, b.binary(MULTIPLY, half, bent), half)


def silu(b: Builder, x: Value, alpha: float = 1.0) -> Value:
    """Return x * sigmoid(alpha * x)."""
    return b.binary(MULTIPLY, x, neuron(b, times(b, x, alpha), SIGMOID))


def softsign(b: Builder, x: Value) -> Value:
    """Return x / (1 + |x|)."""
    return b.binary(DIVIDE, x, plus(b, unary(b, ABS, x), number(b, x, 1.0)))


def thresholded(b: Builder, x: Value, threshold: float) -> Value:
    """Return ``x`` where it is above a number, else 0."""
    return select(b, compare(b, GREATER, x, number(b, x, threshold)), x, number(b, x, 0.0))


def normalized(b: Builder, x: Value, scale: Value, bias: Value | None, epsilon: float, *, rms: bool) -> Value:
    """Return ``x`` normalized over its last axis.

    Args:
        scale: Factors of the last axis.
        bias: Summands of the last axis, or None.
        epsilon: Added to the variance, or to the mean of squares.
        rms: Whether the mean is left in.
    """
    inputs = [b.source_order(x), b.source_order(scale)]
    if bias is not None:
        inputs.append(b.source_order(bias))
    params: dict[str, ir.Param] = {
        "axes": ir.u32s([x.rank - 1]),
        "epsilon": ir.f32(epsilon),
    }
    out = b.emit("RmsNorm" if rms else "LayerNorm", inputs, x.shape, x.dtype, params)
    return Value(out, identity(x.rank))


def linear(node: Node, b: Builder, x: Value, weight: Value, bias: Value | None) -> Value:
    """Return ``x`` [..., k] times ``weight`` [k, n] plus ``bias`` [n].

    Known weights make it a FullyConnected of rank 2.
    """
    if weight.rank != 2 or x.shape[-1:] != weight.shape[:1]:
        raise node.problem(
            f"an input of shape {list(x.shape)} does not fit weights of shape {list(weight.shape)}"
        )
    if not weight.is_static:
        return plus(b, multiply(node, b, x, weight), bias)
    return fully_connected(b, x, b.transpose(weight, (1, 0)), bias)


def fully_connected(b: Builder, x: Value, weight: Value, bias: Value | None) -> Value:
    """Return ``x`` [..., k] times transposed static weights [n, k] plus ``bias`` [n]."""
    units, width = weight.shape
    rows = x.size // width if width else 0
    inputs = [b.source_order(b.reshape(x, (rows, width))), b.source_order(weight)]
    if bias is not None and bias.is_static:
        inputs.append(b.source_order(bias))
        bias = None
    out = b.emit("FullyConnected", inputs, (rows, units), x.dtype, {"keep_dims": ir.b8(False)})
    return plus(b, b.reshape(Value(out, (0, 1)), (*x.shape[:-1], units)), bias)
