"""Handlers of convolutions and pools, plain or fused with following operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from xdlc.converter.functions import windows
from xdlc.converter.functions.images import dilation
from xdlc.converter.functions.shapes import cast, dims, in_channel_last, ints, reshape
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.ops.normalization import batch_norm
from xdlc.converter.tensorflow.ops.products import matrix_product
from xdlc.converter.tensorflow.registry import (
    applied,
    dtype_of,
    handler,
    is_channel_first,
    padding_of,
    spatial,
)
from xdlc.converter.values import Value

_POOLS: dict[str, Callable[..., Value]] = {"Max": windows.max_pool, "Avg": windows.average_pool}


@handler("Conv2D", "DepthwiseConv2dNative", "Conv3D")
def _convolution(node: Node, g: Operators, x: Value, weight: Value) -> Value:
    return _biased_convolution(node, g, x, weight, None)


def _biased_convolution(node: Node, g: Operators, x: Value, weight: Value, bias: Value | None) -> Value:
    function = windows.depthwise_conv if "Depthwise" in node.type else windows.conv
    ones = [1] * x.rank
    strides, dilations = (spatial(node, name, node.attr(name) or ones) for name in ("strides", "dilations"))
    padding = padding_of(node)
    return in_channel_last(
        is_channel_first(node),
        g,
        x,
        lambda value: function(g, value, weight, bias, strides=strides, padding=padding, dilations=dilations),
    )


@handler(
    "Conv2DBackpropInput",
    "Conv3DBackpropInput",
    "Conv3DBackpropInputV2",
    "DepthwiseConv2dNativeBackpropInput",
)
def _transposed_convolution(node: Node, g: Operators, sizes: Value, weight: Value, x: Value) -> Value:
    output_sizes = _output_sizes(node, g, sizes, weight, x)
    if "Depthwise" in node.type:
        shape = weight.shape
        weight = reshape(g, weight, (*shape[:-2], 1, shape[-2] * shape[-1]))
    ones = [1] * x.rank
    strides, dilations = (spatial(node, name, node.attr(name) or ones) for name in ("strides", "dilations"))
    padding = padding_of(node)
    return in_channel_last(
        is_channel_first(node),
        g,
        x,
        lambda value: windows.conv_transpose(
            g, value, weight, sizes=output_sizes, strides=strides, padding=padding, dilations=dilations
        ),
    )


def _output_sizes(node: Node, g: Operators, sizes: Value, weight: Value, x: Value) -> list[int]:
    """Return spatial sizes and channels of a transposed convolution's result.

    Computed ones are taken to be those of Keras: size times stride, and what the kernel exceeds the stride
    by if there is no padding.
    """
    if not sizes.is_static:
        strides, kernel = spatial(node, "strides", node.attr("strides") or [1] * x.rank), weight.shape[:-2]
        inside = dims(x, range(2, x.rank) if is_channel_first(node) else range(1, x.rank - 1))
        is_same = padding_of(node) == "SAME"
        assumed = [
            size * step + (0 if is_same else max(width - step, 0))
            for size, step, width in zip(inside, strides, kernel, strict=True)
        ]
        g.context.diagnostics.notices.append(
            f"node {node.own_name!r} computes its output shape at run time, but a DLC has a fixed shape; "
            f"xdlc uses {' x '.join(map(str, assumed))}, input sizes times strides"
        )
        return [*assumed, weight.shape[-2]]
    stated = ints(sizes, "the output shape")
    if len(stated) == x.rank:
        return [*stated[2:], stated[1]] if is_channel_first(node) else stated[1:]
    if len(stated) != x.rank - 2:
        raise node.invalid(f"an output shape of {len(stated)} entries does not fit an input of rank {x.rank}")
    return [*stated, weight.shape[-2]]


@handler("MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D", "MaxPoolV2")
def _pool(node: Node, g: Operators, x: Value, *rest: Value) -> Value:
    kernel, strides = (
        (ints(rest[index], name) if rest else list(node.attr(name) or [1] * x.rank))
        for index, name in enumerate(("ksize", "strides"))
    )
    channels = 1 if is_channel_first(node) else -1
    padding = padding_of(node)
    if kernel[channels] != 1:
        if kernel[channels] != strides[channels] or set(kernel) - {1, kernel[channels]}:
            raise node.problem(
                f"xdlc does not support a pool over channels: ksize {kernel} and strides {strides}"
            )
        return in_channel_last(
            is_channel_first(node), g, x, lambda value: windows.depth_pool(g, value, kernel[channels])
        )
    kernel, strides = spatial(node, "ksize", kernel), spatial(node, "strides", strides)
    function = _POOLS[node.type[:3]]
    return in_channel_last(
        is_channel_first(node),
        g,
        x,
        lambda value: function(g, value, kernel=kernel, strides=strides, padding=padding),
    )


@handler("MaxPoolWithArgmax")
def _pool_with_places(node: Node, g: Operators, x: Value) -> list[Value]:
    dtype = dtype_of(node, "Targmax", "int64")
    most, places = windows.max_pool_with_places(
        g,
        x,
        kernel=spatial(node, "ksize"),
        strides=spatial(node, "strides"),
        padding=padding_of(node),
        counts_batch=bool(node.attr("include_batch_in_index", False)),
    )
    return [most, cast(g, places, dtype)]


@handler("Dilation2D")
def _dilation(node: Node, g: Operators, x: Value, weight: Value) -> Value:
    steps, rates = spatial(node, "strides"), spatial(node, "rates")
    return dilation(g, x, weight, strides=steps, rates=rates, padding=padding_of(node))


_PRODUCTS: dict[str, Callable[[Node, Operators, Value, Value, Value | None], Value]] = {
    "_FusedConv2D": _biased_convolution,
    "_FusedDepthwiseConv2dNative": _biased_convolution,
    "_FusedConv3D": _biased_convolution,
    "_FusedMatMul": matrix_product,
}
_STEPS = {"Add": 1, "BiasAdd": 1, "FusedBatchNorm": 4} | dict.fromkeys(
    ("Elu", "Identity", "LeakyRelu", "Relu", "Relu6", "Sigmoid", "Tanh"), 0
)
"""Further operands of the operators that follow in a fused node."""
_GELUS = {"GeluApproximate": "tanh", "GeluExact": "none"}


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
def _fused(node: Node, g: Operators, x: Value, weight: Value, *others: Value) -> Value:
    steps, operands = list(node.attr("fused_ops") or []), iter(others)
    bias = next(operands, None) if steps[:1] == ["BiasAdd"] else None
    result = _PRODUCTS[node.type](node, g, x, weight, bias)
    for step in steps if bias is None else steps[1:]:
        result = _followed(node, g, result, str(step), operands)
    return result


def _followed(node: Node, g: Operators, x: Value, step: str, others: Iterator[Value]) -> Value:
    """Return the result after a further step.

    Raises:
        ModelError: If the step lacks an operand.
        UnsupportedOp: If it is unknown.
    """
    if step in _GELUS:
        return g("Gelu", [x], approximate=_GELUS[step])
    if step not in _STEPS:
        raise node.problem(f"xdlc does not support step {step!r} of a fused operator")
    operands = list(islice(others, _STEPS[step]))
    if len(operands) < _STEPS[step]:
        raise node.invalid(f"step {step} of fused_ops has no operand")
    attributes = {"alpha": float(node.attr("leakyrelu_alpha", 0.2)), "is_training": False}
    results = applied(node, g, step, [x, *operands], **attributes)
    return results if isinstance(results, Value) else results[0]


@handler("_FusedBatchNormEx", ignores=("U", "num_side_inputs"))
def _batch_norm(node: Node, g: Operators, *operands: Value) -> list[Value]:
    result, *rest = batch_norm(node, g, *operands[:5])
    if len(operands) > 5:
        result = g("Add", [result, operands[5]])
    activation = str(node.attr("activation_mode", "Identity"))
    return [_followed(node, g, result, activation, iter(())), *rest]
