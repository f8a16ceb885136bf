"""Handlers of images: sizes, blocks, patches, regions, colours."""

from __future__ import annotations

from collections.abc import Callable

from xdlc.converter.functions import blocks, images, resampling
from xdlc.converter.functions.gathering import stack, unstack
from xdlc.converter.functions.reduce import reduced
from xdlc.converter.functions.shapes import (
    channel_first,
    channel_last,
    dims,
    ints,
    known,
    permuted,
    reshape,
)
from xdlc.converter.functions.terms import Term
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.registry import handler, padding_of, spatial
from xdlc.converter.values import Value

_RESIZES: dict[str, Callable[..., Value]] = {
    "ResizeBicubic": resampling.bicubic,
    "ResizeBilinear": resampling.bilinear,
    "ResizeNearestNeighbor": resampling.nearest,
}


@handler(*_RESIZES)
def _resize(node: Node, g: Operators, x: Value, size: Value) -> Value:
    align, half = (bool(node.attr(name, False)) for name in ("align_corners", "half_pixel_centers"))
    if align and half:
        raise node.invalid("align_corners and half_pixel_centers exclude each other")
    given = size if not size.is_static and node.type != "ResizeBicubic" else ints(size, "the size")
    return _RESIZES[node.type](g, x, given, align_corners=align, half_pixel=half)


@handler("ResizeArea")
def _resize_area(node: Node, g: Operators, x: Value, size: Value) -> Value:
    return resampling.area(
        g, x, ints(size, "the size"), align_corners=bool(node.attr("align_corners", False))
    )


@handler("ScaleAndTranslate")
def _scale_and_translate(
    node: Node, g: Operators, x: Value, size: Value, scale: Value, shift: Value
) -> Value:
    factors, moves = (known(value, "scale and translation").tolist() for value in (scale, shift))
    kernel, antialias = str(node.attr("kernel_type", "lanczos3")), bool(node.attr("antialias", True))
    return resampling.scale_and_translate(
        g, x, ints(size, "the size"), factors, moves, kernel=kernel, antialias=antialias
    )


@handler("CropAndResize")
def _crop_and_resize(node: Node, g: Operators, x: Value, boxes: Value, places: Value, size: Value) -> Value:
    mode, fill = str(node.attr("method", "bilinear")), float(node.attr("extrapolation_value", 0.0))
    return images.crop_and_resize(g, x, boxes, places, ints(size, "the size"), mode=mode, fill=fill)


@handler("SpaceToDepth", "DepthToSpace")
def _depth_blocks(node: Node, g: Operators, x: Value) -> Value:
    function = blocks.space_to_depth if node.type == "SpaceToDepth" else blocks.depth_to_space
    block, data_format = node.attr("block_size", 2), str(node.attr("data_format", "NHWC"))
    if data_format == "NCHW_VECT_C":  # [N, C / 4, H, W, 4]
        batch, groups, height, width, four = dims(x)
        plain = reshape(g, permuted(g, x, (0, 2, 3, 1, 4)), (batch, height, width, groups * four))
        moved = function(g, plain, block)
        batch, height, width, channels = dims(moved)
        return permuted(g, reshape(g, moved, (batch, height, width, channels // 4, 4)), (0, 3, 1, 2, 4))
    if data_format == "NCHW":
        return channel_first(g, function(g, channel_last(g, x), block))
    return function(g, x, block)


@handler("ExtractImagePatches")
def _patches(node: Node, g: Operators, x: Value) -> Value:
    kernel, steps, rates = (spatial(node, name) for name in ("ksizes", "strides", "rates"))
    return images.patches(g, x, kernel=kernel, strides=steps, rates=rates, padding=padding_of(node))


@handler("AdjustContrastv2")
def _contrast(_node: Node, g: Operators, x: Value, factor: Value) -> Value:
    mean = Term(g, reduced(g, "Mean", x, [-3, -2], keep=True))
    return ((Term(g, x) - mean) * factor + mean).value


@handler("RGBToHSV")
def _rgb_to_hsv(_node: Node, g: Operators, x: Value) -> Value:
    red, green, blue = (Term(g, channel) for channel in unstack(g, x, 3, -1))
    most, least = red("Max", green, blue), red("Min", green, blue)
    span = most - least
    grey, dark = span <= 0, most <= 0
    divisor = grey.where(1, span)

    def sector(first: Term, second: Term, start: float) -> Term:
        return (first - second) / divisor + start

    sixths = green.same(most).where(sector(blue, red, 2), sector(red, green, 4))
    hue = red.same(most).where(sector(green, blue, 0), sixths) / 6
    hue = (hue < 0).where(hue + 1, hue)
    shade = dark.where(0, span / dark.where(1, most))
    return stack(g, [grey.where(0, hue).value, shade.value, most.value], -1)


@handler("HSVToRGB")
def _hsv_to_rgb(_node: Node, g: Operators, x: Value) -> Value:
    hue, shade, value = (Term(g, channel) for channel in unstack(g, x, 3, -1))
    sixth = hue * 6
    channels = []
    for center, slope, start in ((3, 1.0, -1.0), (2, -1.0, 2.0), (4, -1.0, 2.0)):
        share = (abs(sixth - center) * slope + start)("Clip", 0, 1)
        channels.append(((1 - shade + shade * share) * value).value)
    return stack(g, channels, -1)
