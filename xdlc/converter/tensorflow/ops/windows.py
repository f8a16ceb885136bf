"""Handlers of convolutions and pools."""

from __future__ import annotations

from collections.abc import Callable

from xdlc.converter.nhwc import windows
from xdlc.converter.nhwc.images import dilation
from xdlc.converter.nhwc.shapes import cast, dims, ints, reshape
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.ops._forms import (
    channel_last_of,
    dtype_of,
    is_channel_first,
    padding_of,
    real_inputs,
    spatial,
)
from xdlc.converter.tensorflow.registry import handler
from xdlc.converter.values import Value

_POOLS: dict[str, Callable[..., Value]] = {"Max": windows.max_pool, "Avg": windows.average_pool}


@handler("Conv2D", "DepthwiseConv2dNative", "Conv3D")
def convolution(node: Node, g: Operators) -> Value:
    """Return the convolution of a node; also that of a fused one."""
    x, weight = real_inputs(node)[:2]
    function = windows.depthwise_conv if "Depthwise" in node.type else windows.conv
    ones = [1] * x.rank
    strides, dilations = (spatial(node, name, node.attr(name) or ones) for name in ("strides", "dilations"))
    padding = padding_of(node)
    return channel_last_of(
        node,
        g,
        x,
        lambda value: function(g, value, weight, strides=strides, padding=padding, dilations=dilations),
    )


@handler(
    "Conv2DBackpropInput",
    "Conv3DBackpropInput",
    "Conv3DBackpropInputV2",
    "DepthwiseConv2dNativeBackpropInput",
)
def _transposed_convolution(node: Node, g: Operators) -> Value:
    sizes, weight, x = real_inputs(node)
    output_sizes = _output_sizes(node, g, sizes, weight, x)
    if "Depthwise" in node.type:
        shape = weight.shape
        weight = reshape(g, weight, (*shape[:-2], 1, shape[-2] * shape[-1]))
    ones = [1] * x.rank
    strides, dilations = (spatial(node, name, node.attr(name) or ones) for name in ("strides", "dilations"))
    padding = padding_of(node)
    return channel_last_of(
        node,
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
            f"node {node.own_name!r}: its output shape is computed at run time, but a DLC has a fixed one; "
            f"xdlc uses {' x '.join(map(str, assumed))}, input sizes times strides"
        )
        return [*assumed, weight.shape[-2]]
    stated = ints(sizes, "the output shape")
    if len(stated) == x.rank:
        return [*stated[2:], stated[1]] if is_channel_first(node) else stated[1:]
    if len(stated) != x.rank - 2:
        raise node.invalid(f"an output shape of {len(stated)} entries for rank {x.rank}")
    return [*stated, weight.shape[-2]]


@handler("MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D", "MaxPoolV2")
def _pool(node: Node, g: Operators) -> Value:
    x, *rest = real_inputs(node)
    kernel, strides = (
        (ints(rest[index], name) if rest else list(node.attr(name) or [1] * x.rank))
        for index, name in enumerate(("ksize", "strides"))
    )
    channels = 1 if is_channel_first(node) else -1
    padding = padding_of(node)
    if kernel[channels] != 1:
        if kernel[channels] != strides[channels] or set(kernel) - {1, kernel[channels]}:
            raise node.problem(f"a pool over channels is not supported: ksize {kernel} and strides {strides}")
        return channel_last_of(node, g, x, lambda value: windows.depth_pool(g, value, kernel[channels]))
    kernel, strides = spatial(node, "ksize", kernel), spatial(node, "strides", strides)
    function = _POOLS[node.type[:3]]
    return channel_last_of(
        node, g, x, lambda value: function(g, value, kernel=kernel, strides=strides, padding=padding)
    )


@handler("MaxPoolWithArgmax")
def _pool_with_places(node: Node, g: Operators) -> list[Value]:
    (x,) = real_inputs(node)
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
def _dilation(node: Node, g: Operators) -> Value:
    x, weight = real_inputs(node)
    steps, rates = spatial(node, "strides"), spatial(node, "rates")
    return dilation(g, x, weight, strides=steps, rates=rates, padding=padding_of(node))
