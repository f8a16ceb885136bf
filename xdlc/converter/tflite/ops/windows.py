"""Handlers of convolutions, products, pools, and of image resizing and blocks."""

from __future__ import annotations

from collections.abc import Callable

from xdlc.converter.nhwc import images, reduce, resize, windows
from xdlc.converter.nhwc.shapes import dims, ints, known, permuted, reshape
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
            raise node.invalid(f"depthwise weights {list(shape)}")
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
            f"output shape {output_shape} of {list(x.shape)} and weights of {weight.shape[-2]} channels"
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


@handler("FULLY_CONNECTED", ignores=("asymmetric_quantize_inputs", "quantized_bias_type", "quant_spec"))
def _fully_connected(node: Node, g: Operators) -> Value:
    if node.attr("weights_format", 0):
        raise node.problem("shuffled weights are not supported", "convert with default weights")
    keep = bool(node.attr("keep_num_dims", False))
    return reduce.fully_connected(g, node.required(0), node.required(1), node.input(2), keep_dims=keep)


@handler("BATCH_MATMUL", ignores=("asymmetric_quantize_inputs",))
def _batch_matmul(node: Node, g: Operators, x: Value, y: Value) -> Value:
    swap_x, swap_y = (bool(node.attr(name, False)) for name in ("adj_x", "adj_y"))
    return reduce.matmul(g, x, y, swap_x=swap_x, swap_y=swap_y)


@handler(*_POOLS)
def _pool(node: Node, g: Operators) -> Value:
    kernel = [node.attr("filter_height", 0), node.attr("filter_width", 0)]
    if max(kernel) > _LARGEST:
        raise node.invalid(f"a window {kernel} is not supported; LiteRT supports at most {_LARGEST}")
    strides = sizes_of(node, "stride_%s")
    return _POOLS[node.type](g, node.required(0), kernel=kernel, strides=strides, padding=padding_of(node))


_RESIZES: dict[str, Callable[..., Value]] = {
    "RESIZE_BILINEAR": resize.bilinear,
    "RESIZE_NEAREST_NEIGHBOR": resize.nearest,
}


@handler(*_RESIZES, ignores=("unused0", "unused1"))
def _resize(node: Node, g: Operators, x: Value, size: Value) -> Value:
    align, half = (bool(node.attr(name, False)) for name in ("align_corners", "half_pixel_centers"))
    if align and half:
        raise node.invalid("align_corners and half_pixel_centers exclude each other")
    return _RESIZES[node.type](g, x, ints(size, "the size"), align_corners=align, half_pixel=half)


@handler("SPACE_TO_DEPTH", "DEPTH_TO_SPACE")
def _depth_blocks(node: Node, g: Operators) -> Value:
    function = images.space_to_depth if node.type == "SPACE_TO_DEPTH" else images.depth_to_space
    return function(g, node.required(0), node.attr("block_size", 0))


@handler("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND")
def _batches(node: Node, g: Operators, x: Value, block: Value, borders: Value) -> Value:
    function = images.space_to_batch if node.type == "SPACE_TO_BATCH_ND" else images.batch_to_space
    pairs = known(borders, "paddings or crops").reshape(-1, 2).tolist()
    return function(g, x, ints(block, "the block shape"), pairs)


@handler("L2_NORMALIZATION")
def _l2_normalization(node: Node, g: Operators) -> Value:
    return reduce.l2_normalized(g, node.required(0), [-1], 1e-12)


@handler("LOCAL_RESPONSE_NORMALIZATION")
def _lrn(node: Node, g: Operators) -> Value:
    bias, alpha, beta = (float(node.attr(name, 0.0)) for name in ("bias", "alpha", "beta"))
    radius = node.attr("radius", 0)
    return reduce.lrn(g, node.required(0), radius=radius, bias=bias, alpha=alpha, beta=beta)
