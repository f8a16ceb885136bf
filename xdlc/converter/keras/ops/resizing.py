"""Layers and operations that resize and crop images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xdlc.converter.functions import blocks, resampling
from xdlc.converter.functions.shapes import dims, in_channel_last, number, vector
from xdlc.converter.keras.ops._operations import Arguments, operations
from xdlc.converter.keras.registry import (
    as_float,
    handler,
    is_channel_first,
    number_of,
    only_input,
    sizes,
)
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value, check_table


def _is_last(a: Arguments) -> None:
    if a.option("data_format", "channels_last") != "channels_last":
        raise a.node.problem(
            "xdlc does not support channels_first operations", "transpose the images to channels_last"
        )


def _blocks(a: Arguments) -> Value:
    """Turn channels into blocks of pixels, or blocks into channels."""
    _is_last(a)
    function = blocks.depth_to_space if a.node.type == "DepthToSpace" else blocks.space_to_depth
    return function(a.g, a.value(), a.integer("block_size"))


def _resized(a: Arguments) -> Value:
    _is_last(a)
    if any(a.option(name, False) for name in ("crop_to_aspect_ratio", "pad_to_aspect_ratio")):
        raise a.node.problem(
            "xdlc does not support resizing that keeps the aspect ratio", "use the layer Resizing"
        )
    x, size, antialias = a.value("images"), a.integers("size"), bool(a.option("antialias", False))
    if x.rank != 4 or len(size) != 2 or min(size) < 1:
        raise a.node.problem(
            f"xdlc does not support images of rank {x.rank} and size {size}",
            "pass a batch of images, of rank 4",
        )
    return resized(a.node, a.g, x, size, a.option("interpolation", "bilinear"), antialias)


operations(
    {"DepthToSpace": ("x", _blocks), "SpaceToDepth": ("x", _blocks), "Resize": ("images size", _resized)}
)


_KERNELS = {
    "bilinear": "triangle",
    "bicubic": "keyscubic",
    **{name: name for name in ("lanczos3", "lanczos5", "gaussian", "mitchellcubic")},
}


@handler(*(f"UpSampling{rank}D" for rank in (1, 2, 3)))
def up_sampling(node: Node, g: Operators) -> Value:
    """Repeat elements along the spatial axes, or interpolate between them."""
    x = only_input(node)
    count = x.rank - 2
    factors = sizes(node, "size", count, 2)
    mode = node.attr("interpolation", "nearest")

    def function(value: Value) -> Value:
        found = dims(value, range(1, value.rank - 1))
        if count == 2:
            return resized(node, g, value, [a * b for a, b in zip(found, factors, strict=True)], mode)
        for axis, (size, factor) in enumerate(zip(found, factors, strict=True), 1):
            check_table(size, factor)
            value = resampling.picked(g, value, axis, np.repeat(np.arange(size), factor))
        return value

    return in_channel_last(is_channel_first(node), g, x, function)


def resized(node: Node, g: Operators, x: Value, size: list[int], mode: Any, antialias: bool = False) -> Value:
    """Return images [N, H, W, C] of another size, as tf.image.resize defines it.

    Raises:
        UnsupportedOp: If the interpolation is unknown.
    """
    if mode == "nearest":
        return resampling.nearest(g, x, size, align_corners=False, half_pixel=True)
    if mode == "area":
        return resampling.area(g, x, size, align_corners=False)
    if mode in ("bilinear", "bicubic") and not antialias:
        function = resampling.bilinear if mode == "bilinear" else resampling.bicubic
        return function(g, x, size, align_corners=False, half_pixel=True)
    if mode not in _KERNELS:
        raise node.problem(f"xdlc does not support interpolation {mode!r:.40}")
    factors = [new / old for new, old in zip(size, dims(x, (1, 2)), strict=True)]
    return resampling.scale_and_translate(
        g, as_float(g, x), size, factors, [0.0, 0.0], kernel=_KERNELS[mode], antialias=antialias
    )


def _cropped(g: Operators, x: Value, starts: list[int], size: list[int]) -> Value:
    ends = [start + length for start, length in zip(starts, size, strict=True)]
    return g("Slice", [x, vector(g, starts), vector(g, ends), [1, 2]])


def _to_ratio(g: Operators, x: Value, size: list[int]) -> Value:
    """Return the largest centred part with the aspect ratio of a size."""
    height, width = dims(x, (1, 2))
    part = [max(min(height, width * size[0] // size[1]), 1), max(min(width, height * size[1] // size[0]), 1)]
    starts = [int((height - part[0]) / 2), int((width - part[1]) / 2)]
    return x if part == [height, width] else _cropped(g, x, starts, part)


def _padded_to_ratio(g: Operators, x: Value, size: list[int], fill: float) -> Value:
    """Return images padded by whole equal borders to the ratio of a size."""
    height, width = dims(x, (1, 2))
    borders = [int(width * size[0] / size[1]) - height, int(height * size[1] / size[0]) - width]
    around = [0, *(max(border, 0) // 2 for border in borders), 0]
    return g("Pad", [x, vector(g, around * 2), number(g, x, fill)]) if any(around) else x


@handler("Resizing", ignores=("fill_mode",))
def resizing(node: Node, g: Operators) -> Value:
    """Resize images, cropped or padded to the ratio of the result's sides."""
    size, mode = _size(node), node.attr("interpolation", "bilinear")
    antialias, crops = bool(node.attr("antialias", False)), bool(node.attr("crop_to_aspect_ratio", False))
    pads, fill = bool(node.attr("pad_to_aspect_ratio", False)), float(number_of(node, "fill_value", 0.0))

    def function(value: Value) -> Value:
        if crops:
            value = _to_ratio(g, value, size)
        elif pads:
            value = _padded_to_ratio(g, value, size, fill)
        return resized(node, g, value, size, mode, antialias)

    return _of_images(node, g, function)


@handler("CenterCrop")
def center_crop(node: Node, g: Operators) -> Value:
    """Crop images at the center; smaller images are cropped to the ratio and resized."""
    size = _size(node)

    def function(value: Value) -> Value:
        found = dims(value, (1, 2))
        if all(have >= want for have, want in zip(found, size, strict=True)):
            starts = [(have - want) // 2 for have, want in zip(found, size, strict=True)]
            return _cropped(g, value, starts, size)
        return resized(node, g, _to_ratio(g, value, size), size, "bilinear")

    return _of_images(node, g, function)


def _size(node: Node) -> list[int]:
    """Return the height and width of the result.

    Raises:
        ModelError: If they are below 1.
    """
    size = [int(number_of(node, name)) for name in ("height", "width")]
    if min(size) < 1:
        raise node.invalid(f"the size {size} is not valid")
    return size


def _of_images(node: Node, g: Operators, function: Callable[[Value], Value]) -> Value:
    """Apply a function of [N, H, W, C] to the input; a single image has rank 3."""
    x = as_float(g, only_input(node))
    if x.rank == 4:
        return in_channel_last(is_channel_first(node), g, x, function)
    lone = g("Unsqueeze", [x, [0]])
    return g("Squeeze", [in_channel_last(is_channel_first(node), g, lone, function), [0]])
