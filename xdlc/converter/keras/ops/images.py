"""Operations of functional models on images and other grids, channels last."""

from __future__ import annotations

from typing import Any

from xdlc.converter.keras.handling import as_float, const, handler
from xdlc.converter.keras.ops._arguments import Arguments
from xdlc.converter.keras.ops.arrays import list_of
from xdlc.converter.keras.ops.reshaping import resized
from xdlc.converter.nhwc import images, windows
from xdlc.converter.operators.applying import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value
from xdlc.errors import UnsupportedOp


def _windows(node: Node, given: Arguments, x: Value, kernel: list[int]) -> dict[str, Any]:
    count = x.rank - 2
    found: dict[str, Any] = {"padding": str(given.option("padding", "valid")).upper()}
    strides = given.option("strides")
    found["strides"] = kernel if strides is None else [strides] * count if type(strides) is int else strides
    if given.option("data_format", "channels_last") not in ("channels_last", None):
        raise UnsupportedOp("data_format channels_first of an operation", fix="use the layer of Keras")
    return found


@handler("MaxPool", "AveragePool", domain="ops")
def pool(node: Node, g: Operators) -> Value:
    """Apply a pool."""
    given = Arguments(node, "inputs")
    x, size = as_float(g, given.value(g, "inputs")), given.option("pool_size")
    kernel = [size] * (x.rank - 2) if type(size) is int else list_of(node, size)
    function = windows.max_pool if node.type == "MaxPool" else windows.average_pool
    return function(g, x, kernel=kernel, **_windows(node, given, x, kernel))


@handler("Conv", "DepthwiseConv", domain="ops")
def convolution(node: Node, g: Operators) -> Value:
    """Apply a convolution."""
    given = Arguments(node, "inputs kernel")
    x, kernel = as_float(g, given.value(g, "inputs")), as_float(g, given.value(g, "kernel"))
    found = _windows(node, given, x, [1] * (x.rank - 2))
    rate = given.option("dilation_rate", 1)
    found["dilations"] = [rate] * (x.rank - 2) if type(rate) is int else rate
    function = windows.conv if node.type == "Conv" else windows.depthwise_conv
    return function(g, x, kernel, **found)


@handler("DepthToSpace", "SpaceToDepth", domain="ops")
def blocks(node: Node, g: Operators) -> Value:
    """Turn channels into blocks of pixels, or blocks into channels."""
    given = Arguments(node)
    if given.option("data_format", "channels_last") != "channels_last":
        raise node.problem("data_format channels_first")
    function = images.depth_to_space if node.type == "DepthToSpace" else images.space_to_depth
    return function(g, given.value(g, "x"), int(given.option("block_size")))


@handler("ExtractPatches", domain="ops")
def patches(node: Node, g: Operators) -> Value:
    """Turn windows of images into channels."""
    given = Arguments(node, "images")
    x, size = given.value(g, "images"), given.option("size")
    kernel, rate = [size] * 2 if type(size) is int else list_of(node, size), given.option("dilation_rate", 1)
    rates = [rate] * 2 if type(rate) is int else rate
    return images.patches(g, x, kernel=kernel, rates=rates, **_windows(node, given, x, kernel))


@handler("RGBToGrayscale", domain="ops")
def grayscale(node: Node, g: Operators) -> Value:
    """Weigh red, green and blue, channels last (ITU-R BT.601)."""
    given = Arguments(node, "images")
    x = as_float(g, given.value(g, "images"))
    if given.option("data_format", "channels_last") != "channels_last":
        raise node.problem("data_format channels_first")
    return g("MatMul", [x, const(g, [[0.2989], [0.587], [0.114]])])


@handler("Resize", domain="ops", ignores=("fill_mode", "fill_value"))
def resize(node: Node, g: Operators) -> Value:
    """Resize images [N, H, W, C]."""
    given = Arguments(node, "images size")
    if given.option("data_format", "channels_last") not in (None, "channels_last") or any(
        given.option(name, False) for name in ("crop_to_aspect_ratio", "pad_to_aspect_ratio")
    ):
        raise node.problem(
            "data_format channels_first, or keeping the aspect ratio", "use the layer Resizing"
        )
    size, mode = list_of(node, given.option("size")), given.option("interpolation", "bilinear")
    antialias = bool(given.option("antialias", False))
    return resized(node, g, given.value(g, "images"), [int(each) for each in size], mode, antialias)
