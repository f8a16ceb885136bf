"""Handlers of operators into which TensorFlow's own graph optimizer joins several."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xdlc.converter.nhwc import reduce
from xdlc.converter.nhwc.elementwise import clipped
from xdlc.converter.nhwc.shapes import reshape
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.ops._forms import channel_last_of, is_channel_first, real_inputs
from xdlc.converter.tensorflow.ops.reduce import batch_norm, matrix_product
from xdlc.converter.tensorflow.ops.windows import convolution
from xdlc.converter.tensorflow.registry import handler
from xdlc.converter.values import Value

_PRODUCTS: dict[str, Callable[[Node, Operators], Value]] = {
    "_FusedConv2D": convolution,
    "_FusedDepthwiseConv2dNative": convolution,
    "_FusedConv3D": convolution,
    "_FusedMatMul": matrix_product,
}
_ACTIVATIONS: dict[str, Callable[[Operators, Value], Value]] = {
    "Elu": lambda g, x: g("Elu", [x], alpha=1.0),
    "GeluApproximate": lambda g, x: g("Gelu", [x], approximate="tanh"),
    "GeluExact": lambda g, x: g("Gelu", [x]),
    "Identity": lambda g, x: x,
    "Relu": lambda g, x: g("Relu", [x]),
    "Relu6": lambda g, x: clipped(g, x, 0, 6),
    "Sigmoid": lambda g, x: g("Sigmoid", [x]),
    "Tanh": lambda g, x: g("Tanh", [x]),
}


@handler(
    *_PRODUCTS,
    ignores=(
        "num_args",
        "num_host_args",
        "TArgs",
        "THostArgs",
        "use_cudnn_on_gpu",
        "epsilon",
        "leakyrelu_alpha",
    ),
)
def _fused(node: Node, g: Operators) -> Value:
    result = _PRODUCTS[node.type](node, g)
    others = iter(real_inputs(node)[2:])
    for step in node.attr("fused_ops") or []:
        result = _followed(node, g, result, str(step), others)
    return result


def _followed(node: Node, g: Operators, x: Value, step: str, others: Iterator[Value]) -> Value:
    """Return the result after a further step.

    Raises:
        ModelError: If the step lacks an operand.
        UnsupportedOp: If it is unknown.
    """
    try:
        if step == "BiasAdd":
            bias = next(others)
            first = "Conv" in node.type and is_channel_first(node)
            return g("Add", [x, reshape(g, bias, (bias.size, *[1] * (x.rank - 2))) if first else bias])
        if step == "Add":
            return g("Add", [x, next(others)])
        if step == "FusedBatchNorm":
            scale, offset, mean, variance = [next(others) for _ in range(4)]
            epsilon = float(node.attr("epsilon", 1e-4))
            given = (scale, offset, mean, variance, epsilon)
            return channel_last_of(node, g, x, lambda value: reduce.batch_norm(g, value, *given))
    except StopIteration:
        raise node.invalid(f"{step} of its fused_ops has no operand") from None
    if step == "LeakyRelu":
        return g("LeakyRelu", [x], alpha=float(node.attr("leakyrelu_alpha", 0.2)))
    if step not in _ACTIVATIONS:
        raise node.problem(f"{step!r} of its fused_ops is not supported")
    return _ACTIVATIONS[step](g, x)


@handler("_FusedBatchNormEx", ignores=("U", "num_side_inputs"))
def _batch_norm(node: Node, g: Operators) -> list[Value]:
    result, *rest = batch_norm(node, g)
    sides = real_inputs(node)[5:]
    if sides:
        result = g("Add", [result, sides[0]])
    activation = str(node.attr("activation_mode", "Identity"))
    if activation not in _ACTIVATIONS:
        raise node.problem(f"activation_mode {activation!r} is not supported")
    return [_ACTIVATIONS[activation](g, result), *rest]
