"""Operators of com.microsoft that ONNX has in parts, or under another name."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.operators.registry import ANY, CHANNEL_LAST, MICROSOFT, Node, imported, importer
from xdlc.converter.ops import _formulas
from xdlc.converter.ops._compose import neuron, number, part, reduced, unary
from xdlc.converter.ops._formulas import linear, plus, silu, tanh_gelu, times
from xdlc.converter.ops.convolutions import convolve
from xdlc.converter.ops.normalization import along
from xdlc.converter.ops.products import gemm, multiply
from xdlc.converter.values import Value
from xdlc.opdefs.elementwise_enums import (
    ADD,
    ELU,
    GELU,
    HARD_SIGMOID,
    HARD_SWISH,
    MAXIMUM,
    MULTIPLY,
    RELU,
    RELU_MIN_MAX,
    SIGMOID,
    SOFTPLUS,
    SQRT,
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
        raise node.problem(f"activation {name!r} is not known", f"use {', '.join(sorted(_ACTIVATIONS))}")
    function, count = _ACTIVATIONS[name]
    params = [number for number in numbers[:count] if number is not None]
    if len(params) < count:
        raise node.problem(f"activation {name} has {len(params)} parameters instead of {count}")
    return function(b, x, params)


@importer("Gelu", domain=MICROSOFT, layout=ANY, dynamic=True)
def gelu(node: Node, b: Builder) -> Value:
    """Map onto Gelu, the form with the error function."""
    return neuron(b, node.required(0), GELU)


@importer("BiasGelu", domain=MICROSOFT, layout=ANY, dynamic=True)
def bias_gelu(node: Node, b: Builder) -> Value:
    """Map onto an addition and Gelu."""
    return neuron(b, b.binary(ADD, node.required(0), node.required(1)), GELU)


@importer("FastGelu", domain=MICROSOFT, layout=ANY, dynamic=True)
def fast_gelu(node: Node, b: Builder) -> Value:
    """Write the approximation with the hyperbolic tangent."""
    return tanh_gelu(b, plus(b, node.required(0), node.input(1)))


@importer("QuickGelu", domain=MICROSOFT, layout=ANY, dynamic=True)
def quick_gelu(node: Node, b: Builder) -> Value:
    """Write x * sigmoid(alpha * x)."""
    return silu(b, node.required(0), node.attr("alpha", 1.702))


@importer("BiasSplitGelu", domain=MICROSOFT)
def bias_split_gelu(node: Node, b: Builder) -> Value:
    """Write the left half of the last axis times Gelu of the right half."""
    x = b.binary(ADD, node.required(0), node.required(1))
    axis, middle = x.rank - 1, x.shape[-1] // 2
    right = neuron(b, part(b, x, axis, middle, 2 * middle), GELU)
    return b.binary(MULTIPLY, part(b, x, axis, 0, middle), right)


@importer("BiasAdd", domain=MICROSOFT, layout=ANY, dynamic=True)
def bias_add(node: Node, b: Builder) -> Value:
    """Write x + bias + skip."""
    return plus(b, node.required(0), node.required(1), node.required(2))


@importer("BiasDropout", domain=MICROSOFT, layout=ANY, ignores=("seed",), dynamic=True)
def bias_dropout(node: Node, b: Builder) -> Value:
    """Write data + bias + residual; dropout has no effect at inference."""
    training = node.static(4, "the training mode")
    if training is not None and bool(training.reshape(-1)[0]):
        raise node.problem("xdlc does not support training mode", "export the model for inference")
    if any(node.outputs[1:]):
        raise node.problem("xdlc does not support the mask output", "export the model for inference")
    return plus(b, node.required(0), node.required(1), node.input(2))


@importer("BiasSoftmax", domain=MICROSOFT, ignores=("is_inner_broadcast",))
def bias_softmax(node: Node, b: Builder, x: Value, bias: Value) -> Value:
    """Write the softmax of data + bias over all axes from ``axis`` on."""
    axis = node.axis(node.attr("axis", 1), x.rank)
    flat = b.reshape(b.binary(ADD, x, bias), (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))
    return b.reshape(along(b, "Softmax", flat, 1), x.shape)


@importer("GatedAdd", domain=MICROSOFT, layout=ANY, dynamic=True)
def gated_add(node: Node, b: Builder) -> Value:
    """Write x + y * gate."""
    return b.binary(ADD, node.required(0), b.binary(MULTIPLY, node.required(1), node.required(2)))


@importer("FusedMatMul", "TransposeMatMul", "FusedMatMulActivation", domain=MICROSOFT)
def fused_matmul(node: Node, b: Builder) -> Value:
    """Map onto MatMul; transpositions only change its operands' layouts."""
    x, y = (_turned(node, b, index, side) for index, side in ((0, "A"), (1, "B")))
    product = times(b, multiply(node, b, x, y), node.attr("alpha", 1.0))
    given = [node.attr(f"activation_{name}") for name in ("alpha", "beta", "gamma")]
    if node.attr("activation_axis") is not None:
        raise node.problem("xdlc does not support activations along an axis")
    return activated(node, b, product, given)


def _turned(node: Node, b: Builder, index: int, side: str) -> Value:
    """Return an operand with its axes where MatMul expects them, vectors unchanged."""
    value = node.required(index)
    rank = value.rank
    across = node.attr(f"transBatch{side}", 0)
    if across and rank > 2:
        value = b.transpose(value, (*range(1, rank - 1), 0, rank - 1))
    if node.attr(f"trans{side}", 0) and rank > 1:
        value = b.transpose(value, (*range(rank - 2), rank - 1, rank - 2))
    return value


@importer("FusedGemm", domain=MICROSOFT)
def fused_gemm(node: Node, b: Builder) -> Value:
    """Map as Gemm, then the activation."""
    given = [node.attr(f"activation_{name}") for name in ("alpha", "beta", "gamma")]
    return activated(node, b, gemm(node, b), given)


@importer("GemmFastGelu", domain=MICROSOFT)
def gemm_fast_gelu(node: Node, b: Builder) -> Value:
    """Map onto a matrix product with biases, then the approximation of Gelu."""
    return tanh_gelu(b, linear(node, b, node.required(0), node.required(1), node.input(2)))


@importer("FusedConv", domain=MICROSOFT, layout=CHANNEL_LAST)
def fused_conv(node: Node, b: Builder) -> Value:
    """Map onto a convolution, an optional addition, and the activation."""
    made = convolve(node, b, node.required(0), node.required(1), node.input(2))
    return activated(node, b, plus(b, made, node.input(3)), node.attr("activation_params") or [])


@importer("CDist", domain=MICROSOFT)
def cdist(node: Node, b: Builder, x: Value, y: Value) -> Value:
    """Write |x|^2 - 2 * x * y^T + |y|^2, at least 0; its root if Euclidean."""
    metric = node.attr("metric", "sqeuclidean")
    if metric not in ("euclidean", "sqeuclidean"):
        raise node.problem(f"xdlc does not support the metric {metric!r}")
    crossed = times(b, multiply(node, b, x, b.transpose(y, (1, 0))), -2.0)
    lengths = b.binary(ADD, _lengths(b, x), b.transpose(_lengths(b, y), (1, 0)))
    squares = b.binary(MAXIMUM, b.binary(ADD, crossed, lengths), number(b, x, 0.0))
    if metric == "sqeuclidean":
        return squares
    return unary(b, SQRT, squares)


def _lengths(b: Builder, x: Value) -> Value:
    """Return the sum of squares of each row of [rows, width] as [rows, 1]."""
    return reduced(b, "ReduceSum", b.binary(MULTIPLY, x, x), [1])


@importer("GatherND", "Pad", "Trilu", domain=MICROSOFT, layout=ANY)
def same(node: Node, g: Operators) -> Value:
    """Import the operator of the same name."""
    return imported(node, g, node.type, node.inputs)


@importer("GridSample", domain=MICROSOFT, layout=CHANNEL_LAST)
def grid_sample(node: Node, g: Operators) -> Value:
    """Import the operator of the same name."""
    return imported(node, g, node.type, node.inputs)


@importer("ExpandDims", domain=MICROSOFT, layout=ANY)
def expand_dims(node: Node, b: Builder, x: Value) -> Value:
    """Insert an axis of size 1."""
    given = node.static(1, "the axis")
    if given is None:
        raise node.problem("the axis (input 1) is missing")
    axis = int(given.reshape(-1)[0])
    axis += x.rank + 1 if axis < 0 else 0
    if not 0 <= axis <= x.rank:
        raise node.problem(f"axis {axis} does not fit an input of rank {x.rank}")
    return b.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))


@importer("NhwcMaxPool", domain=MICROSOFT, layout=CHANNEL_LAST)
def nhwc_max_pool(node: Node, g: Operators, x: Value) -> Value:
    """Import a channel-last MaxPool, as QNN has it."""
    if x.rank < 3:
        raise node.problem(f"xdlc does not support an input of rank {x.rank}")
    first = g.builder.transpose(x, (0, x.rank - 1, *range(1, x.rank - 1)))
    pooled = imported(node, g, "MaxPool", [first])
    return g.builder.transpose(pooled, (0, *range(2, x.rank), 1))
