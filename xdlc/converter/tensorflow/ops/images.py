"""Handlers of images: sizes, blocks, patches, regions, colours."""

from __future__ import annotations

from collections.abc import Callable

from xdlc.converter.nhwc import blocks, images, resize
from xdlc.converter.nhwc.elementwise import where
from xdlc.converter.nhwc.gathering import stack, unstack
from xdlc.converter.nhwc.reduce import reduced
from xdlc.converter.nhwc.shapes import (
    channel_first,
    channel_last,
    dims,
    ints,
    known,
    number,
    permuted,
    reshape,
)
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.registry import handler, padding_of, spatial
from xdlc.converter.values import Value

_RESIZES: dict[str, Callable[..., Value]] = {
    "ResizeBicubic": resize.bicubic,
    "ResizeBilinear": resize.bilinear,
    "ResizeNearestNeighbor": resize.nearest,
}


@handler(*_RESIZES)
def _resize(node: Node, g: Operators, x: Value, size: Value) -> Value:
    align, half = (bool(node.attr(name, False)) for name in ("align_corners", "half_pixel_centers"))
    given = size if not size.is_static and node.type != "ResizeBicubic" else ints(size, "the size")
    return _RESIZES[node.type](g, x, given, align_corners=align, half_pixel=half)


@handler("ResizeArea")
def _resize_area(node: Node, g: Operators, x: Value, size: Value) -> Value:
    return resize.area(g, x, ints(size, "the size"), align_corners=bool(node.attr("align_corners", False)))


@handler("ScaleAndTranslate")
def _scale_and_translate(
    node: Node, g: Operators, x: Value, size: Value, scale: Value, shift: Value
) -> Value:
    factors, moves = (known(value, "scale and translation").tolist() for value in (scale, shift))
    kernel, antialias = str(node.attr("kernel_type", "lanczos3")), bool(node.attr("antialias", True))
    return resize.scale_and_translate(
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
def _contrast(node: Node, g: Operators, x: Value, factor: Value) -> Value:
    mean = reduced(g, "Mean", x, [-3, -2], keep=True)
    return g("Add", [g("Mul", [g("Sub", [x, mean]), factor]), mean])


@handler("RGBToHSV")
def _rgb_to_hsv(node: Node, g: Operators, x: Value) -> Value:
    red, green, blue = unstack(g, x, 3, -1)
    most, least = g("Max", [red, green, blue]), g("Min", [red, green, blue])
    span, zero = g("Sub", [most, least]), number(g, red, 0)
    grey, dark = g("LessOrEqual", [span, zero]), g("LessOrEqual", [most, zero])
    divisor = where(g, grey, number(g, red, 1), span)

    def sector(x: Value, y: Value, start: float) -> Value:
        return g("Add", [g("Div", [g("Sub", [x, y]), divisor]), number(g, x, start)])

    hue_sixths = where(g, g("Equal", [green, most]), sector(blue, red, 2), sector(red, green, 4))
    hue = g("Div", [where(g, g("Equal", [red, most]), sector(green, blue, 0), hue_sixths), number(g, red, 6)])
    hue = where(g, g("Less", [hue, zero]), g("Add", [hue, number(g, red, 1)]), hue)
    shade = where(g, dark, zero, g("Div", [span, where(g, dark, number(g, red, 1), most)]))
    return stack(g, [where(g, grey, zero, hue), shade, most], -1)


@handler("HSVToRGB")
def _hsv_to_rgb(node: Node, g: Operators, x: Value) -> Value:
    hue, shade, value = unstack(g, x, 3, -1)
    parts, unit = [], number(g, hue, 1)
    sixth = g("Mul", [hue, number(g, hue, 6)])
    for center, slope, start in ((3, 1.0, -1.0), (2, -1.0, 2.0), (4, -1.0, 2.0)):
        distance = g("Abs", [g("Sub", [sixth, number(g, hue, center)])])
        moved = g("Add", [g("Mul", [distance, number(g, hue, slope)]), number(g, hue, start)])
        share = g("Clip", [moved, number(g, hue, 0), unit])
        faded = g("Add", [g("Sub", [unit, shade]), g("Mul", [shade, share])])
        parts.append(g("Mul", [faded, value]))
    return stack(g, parts, -1)
