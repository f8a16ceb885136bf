"""Convolutions and pools."""

from __future__ import annotations

from typing import Any

from xdlc.converter.functions import windows
from xdlc.converter.functions.reduce import reduced
from xdlc.converter.functions.shapes import channel_first, channel_last, dims, in_channel_last
from xdlc.converter.keras.ops.activations import activated
from xdlc.converter.keras.registry import (
    argument,
    as_float,
    handler,
    is_channel_first,
    only_input,
    required_weight,
    sizes,
    weight,
)
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value

_RANKS = (1, 2, 3)
_SHAPES = ("filters", "kernel_size", "groups", "depth_multiplier", "rank")
"""Options that the shape of the weights restates."""


def _padding(node: Node, kernel: list[int], dilations: list[int]) -> windows.Padding:
    padding = node.attr("padding", "valid")
    if padding == "causal":
        return [((size - 1) * step, 0) for size, step in zip(kernel, dilations, strict=True)]
    if padding not in ("same", "valid"):
        raise node.invalid(f"the padding is unknown: {padding!r:.40}")
    return str(padding).upper()


def _convolved(node: Node, g: Operators, function: Any, roles: list[str]) -> Value:
    """Return the convolution of a layer, with its bias and activation."""
    x, bias = as_float(g, only_input(node)), weight(node, "bias")
    node.attr("use_bias")
    weights = [required_weight(node, role, x.rank) for role in roles]
    dilations = sizes(node, "dilation_rate", x.rank - 2, 1)
    options = {
        "strides": sizes(node, "strides", x.rank - 2, 1),
        "padding": _padding(node, list(weights[0].shape[:-2]), dilations),
        "dilations": dilations,
    }
    convolved = in_channel_last(
        is_channel_first(node), g, x, lambda value: function(g, value, *weights, bias, **options)
    )
    return activated(node, g, convolved)


@handler(*(f"Conv{rank}D" for rank in _RANKS), ignores=_SHAPES)
def convolution(node: Node, g: Operators) -> Value:
    """Apply a convolution."""
    return _convolved(node, g, windows.conv, ["kernel"])


@handler("DepthwiseConv1D", "DepthwiseConv2D", ignores=_SHAPES)
def depthwise(node: Node, g: Operators) -> Value:
    """Apply a convolution of each channel on its own."""
    return _convolved(node, g, windows.depthwise_conv, ["kernel"])


@handler("SeparableConv1D", "SeparableConv2D", ignores=_SHAPES)
def separable(node: Node, g: Operators) -> Value:
    """Apply a depthwise convolution, then a pointwise convolution."""

    def both(g: Operators, x: Value, depth: Value, point: Value, bias: Value | None, **given: Any) -> Value:
        apart = windows.depthwise_conv(g, x, depth, None, **given)
        return windows.conv(g, apart, point, bias, strides=[1] * (x.rank - 2), padding="VALID")

    return _convolved(node, g, both, ["depthwise_kernel", "pointwise_kernel"])


@handler(*(f"Conv{rank}DTranspose" for rank in _RANKS), ignores=_SHAPES)
def transposed(node: Node, g: Operators) -> Value:
    """Apply a transposed convolution, whose sizes follow from ``output_padding``."""
    count = only_input(node).rank - 2
    extra = [None] * count if node.attr("output_padding") is None else sizes(node, "output_padding", count)

    def function(g: Operators, x: Value, kernel: Value, bias: Value | None, **options: Any) -> Value:
        output_sizes = []
        for axis, size in enumerate(dims(x, range(1, x.rank - 1))):
            stride, more = options["strides"][axis], extra[axis]
            reach = (kernel.shape[axis] - 1) * options["dilations"][axis] + 1
            if options["padding"] == "VALID":
                more = max(stride - reach, 0) if more is None else more
                output_sizes.append((size - 1) * stride + reach + more)
            else:
                output_sizes.append(size * stride if more is None else (size - 1) * stride + reach % 2 + more)
        return windows.conv_transpose(g, x, kernel, bias, sizes=output_sizes, **options)

    return _convolved(node, g, function, ["kernel"])


# ---------------------------------------------------------------------------------------- pools


@handler(*(f"{kind}Pooling{rank}D" for kind in ("Max", "Average") for rank in _RANKS))
def pool(node: Node, g: Operators) -> Value:
    """Apply a pool of the greatest element or the mean."""
    x = as_float(g, only_input(node))
    kernel = sizes(node, "pool_size", x.rank - 2, 2)
    given = {"kernel": kernel, "strides": sizes(node, "strides", x.rank - 2, kernel)}
    padding = _padding(node, kernel, kernel)
    function = windows.max_pool if node.type.startswith("Max") else windows.average_pool
    return in_channel_last(
        is_channel_first(node), g, x, lambda value: function(g, value, padding=padding, **given)
    )


@handler(*(f"Global{kind}Pooling{rank}D" for kind in ("Max", "Average") for rank in _RANKS))
def global_pool(node: Node, g: Operators) -> Value:
    """Apply a pool over all spatial axes; a mask excludes steps of a mean."""
    x = as_float(g, only_input(node))
    first = 2 if is_channel_first(node) else 1
    axes, keep = list(range(first, first + x.rank - 2)), bool(node.attr("keepdims", False))
    mask = argument(node, "mask") if node.type == "GlobalAveragePooling1D" else None
    if mask is not None:
        mask = g("Unsqueeze", [as_float(g, mask), [3 - axes[0]]])
        total = reduced(g, "Sum", g("Mul", [x, mask]), axes, keep=keep)
        return g("Div", [total, reduced(g, "Sum", mask, axes, keep=keep)])
    return reduced(g, "Max" if "Max" in node.type else "Mean", x, axes, keep=keep)


@handler(*(f"Adaptive{kind}Pooling{rank}D" for kind in ("Max", "Average") for rank in _RANKS))
def adaptive_pool(node: Node, g: Operators) -> Value:
    """Pool windows floor(i * in / out) to ceil((i + 1) * in / out)."""
    x = as_float(g, only_input(node))
    output_sizes = sizes(node, "output_size", x.rank - 2)
    if min(output_sizes) < 1:
        raise node.invalid(f"output_size is not valid: {output_sizes}")

    def function(value: Value) -> Value:
        planes = channel_first(g, value)
        if "Max" in node.type:
            return channel_last(g, windows.adaptive_maximum(g, planes, output_sizes)[0])
        return channel_last(g, windows.adaptive_mean(g, planes, output_sizes))

    return in_channel_last(is_channel_first(node), g, x, function)
