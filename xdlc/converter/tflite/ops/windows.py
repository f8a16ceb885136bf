"""Handlers of convolutions and pools."""

from __future__ import annotations

from collections.abc import Callable

from xdlc.converter.nhwc import windows
from xdlc.converter.nhwc.shapes import dims, permuted, reshape
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tflite.registry import handler, padding_of, sizes_of, stated_dims
from xdlc.converter.values import Value

_POOLS: dict[str, Callable[..., Value]] = {
    "AVERAGE_POOL_2D": windows.average_pool,
    "L2_POOL_2D": windows.l2_pool,
    "MAX_POOL_2D": windows.max_pool,
}
_LARGEST = 1 << 16
"""Height or width of a pool, at most."""


@handler("CONV_2D", "DEPTHWISE_CONV_2D", ignores=("depth_multiplier", "quantized_bias_type"))
def _conv_2d(node: Node, g: Operators) -> Value:
    x, weight = node.required(0), node.required(1)
    if node.type == "CONV_2D":
        weight = permuted(g, weight, (1, 2, 3, 0))  # [O, H, W, I]
    else:
        shape = dims(weight)  # [1, H, W, O]; the shapes count, not the stated multiplier
        if len(shape) != 4 or shape[0] != 1:
            raise node.invalid(f"depthwise weights {list(shape)} are not valid")
        weight = reshape(g, weight, (*shape[1:3], 1, shape[3]))
    return windows.conv(
        g,
        x,
        weight,
        node.input(2),
        strides=sizes_of(node, "stride_%s"),
        padding=padding_of(node),
        dilations=sizes_of(node, "dilation_%sfactor", default=1),
    )


@handler("CONV_3D")
def _conv_3d(node: Node, g: Operators) -> Value:
    return windows.conv(
        g,
        node.required(0),
        node.required(1),
        node.input(2),
        strides=sizes_of(node, "stride_%s", "dhw"),
        padding=padding_of(node),
        dilations=sizes_of(node, "dilation_%sfactor", "dhw", 1),
    )


@handler("TRANSPOSE_CONV", "CONV_3D_TRANSPOSE", ignores=("quantized_bias_type",))
def _transpose_conv(node: Node, g: Operators) -> Value:
    shape, weight, x = node.required(0), node.required(1), node.required(2)
    axes = "hw" if node.type == "TRANSPOSE_CONV" else "dhw"
    if len(axes) == 2:
        weight = permuted(g, weight, (1, 2, 0, 3))  # [O, H, W, I]
    stated = stated_dims(node)
    output_shape = shape.numpy().reshape(-1).tolist() if shape.is_static else stated
    if output_shape is None or len(output_shape) != len(axes) + 2:
        raise node.problem("the output shape (input 0) must be constant, but is computed")
    batches = (x.shape[0], node.message.inputs[2].shape[0])  # now, and in the file
    if output_shape[0] not in batches or output_shape[-1] != weight.shape[-2]:
        raise node.invalid(
            f"output shape {output_shape} does not fit {list(x.shape)} and weights of "
            f"{weight.shape[-2]} channels"
        )
    return windows.conv_transpose(
        g,
        x,
        weight,
        node.input(3),
        sizes=[int(size) for size in output_shape[1:-1]],
        strides=sizes_of(node, "stride_%s", axes),
        padding=padding_of(node),
        dilations=sizes_of(node, "dilation_%sfactor", axes, 1),
    )


@handler(*_POOLS)
def _pool(node: Node, g: Operators) -> Value:
    kernel = [node.attr("filter_height", 0), node.attr("filter_width", 0)]
    if max(kernel) > _LARGEST:
        raise node.invalid(f"the window {kernel} is too large; LiteRT supports at most {_LARGEST}")
    strides = sizes_of(node, "stride_%s")
    return _POOLS[node.type](g, node.required(0), kernel=kernel, strides=strides, padding=padding_of(node))
