"""Handlers of operators on images: sizes, borders, channels, blocks."""

from __future__ import annotations

import numpy as np

from xdlc.converter.caffe2.ops._args import inputs, integer, is_channel_last, number, planes, stored, word
from xdlc.converter.caffe2.ops.normalization import channels
from xdlc.converter.caffe2.ops.windows import padding
from xdlc.converter.caffe2.registry import operator
from xdlc.converter.nhwc import blocks
from xdlc.converter.nhwc.gathering import shuffled
from xdlc.converter.nhwc.shapes import channel_first, channel_last, dims, vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import ANY, CHANNEL_LAST
from xdlc.converter.values import Value


def _spatial(node: Node, x: Value, rank: int = 2) -> tuple[int, ...]:
    """Return the sizes of the spatial axes of planes.

    Raises:
        ModelError: If there is another number of them.
    """
    if x.rank != rank + 2:
        raise node.invalid(f"an input of rank {x.rank} instead of {rank + 2}")
    return dims(x, range(2, x.rank))


def _scales(node: Node, names: tuple[str, ...]) -> list[float]:
    """Return the factors of the spatial axes, which a second input states before arguments do.

    Raises:
        ModelError: If one is not positive.
    """
    found = [number(node, name, 1.0) for name in names]
    if len(node.inputs) > 1:
        given = node.static(1, "the scales")
        found = [] if given is None else [float(scale) for scale in given.reshape(-1)]
    if len(found) != len(names) or not all(0 < scale < 1 << 16 for scale in found):
        raise node.invalid(f"scales {found} of {len(names)} axes")
    return found


@operator("ResizeNearest", "ResizeNearest3D", layout=CHANNEL_LAST)
def _resize_nearest(node: Node, g: Operators) -> Value:
    """Return images of sizes floor(size * scale), of the elements at floor(place / scale)."""
    x = planes(node, g, inputs(node, 1, 2)[0])
    names = ("height_scale", "width_scale")
    scales = _scales(node, names if node.type == "ResizeNearest" else ("temporal_scale", *names))
    return stored(node, g, nearest(node, g, x, scales))


def nearest(node: Node, g: Operators, x: Value, scales: list[float]) -> Value:
    """Return planes resized as by ResizeNearest.

    Raises:
        ModelError: If nothing is left of an axis.
    """
    sizes = _spatial(node, x, len(scales))
    wanted = _scaled(node, sizes, scales)
    for axis, (size, scale, count) in enumerate(zip(sizes, scales, wanted, strict=True), 2):
        if scale.is_integer():
            continue
        g.builder.check_table(count)
        places = (np.arange(count, dtype=np.float32) / np.float32(scale)).astype(np.int64)
        places = np.minimum(places, size - 1)
        if not np.array_equal(places, np.arange(count) * size // count):
            x = g("Gather", [x, vector(g, places)], axis=axis)
    if wanted == list(x.shape[2:]):
        return x
    mode = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return g("Resize", [x, None, None, vector(g, wanted)], axes=list(range(2, x.rank)), **mode)


def _scaled(node: Node, sizes: tuple[int, ...], scales: list[float]) -> list[int]:
    """Return sizes times scales, rounded down as of float32.

    Raises:
        ModelError: If nothing is left of an axis.
    """
    found = [int(np.float32(size) * np.float32(scale)) for size, scale in zip(sizes, scales, strict=True)]
    if min(found) < 1:
        raise node.invalid(f"scales {scales} leave nothing of {list(sizes)}")
    return found


@operator("UpsampleNearest", layout=CHANNEL_LAST)
def _upsample_nearest(node: Node, g: Operators) -> Value:
    (x,) = inputs(node, 1)
    scale = float(integer(node, "scale", 2, 1))
    return stored(node, g, nearest(node, g, planes(node, g, x), [scale, scale]))


@operator("UpsampleBilinear", layout=CHANNEL_LAST)
def _upsample_bilinear(node: Node, g: Operators) -> Value:
    """Return images of sizes floor(size * scale), interpolated with the corners in place."""
    x = planes(node, g, inputs(node, 1, 2)[0])
    scales = _scales(node, ("height_scale", "width_scale"))
    wanted = _scaled(node, _spatial(node, x), scales)
    mode = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    return stored(node, g, g("Resize", [x, None, None, vector(g, wanted)], axes=[2, 3], **mode))


@operator("PadImage", layout=ANY, ignores=("kernel", "kernels", "kernel_h", "kernel_w"))
def _pad_image(node: Node, g: Operators) -> Value:
    (x,) = inputs(node, 1)
    x = planes(node, g, x)
    sizes = _spatial(node, x)
    mode = word(node, "mode", ("constant", "reflect", "edge"), "constant")
    fill = number(node, "value", 0.0)
    if integer(node, "legacy_pad", 0):
        raise node.invalid("legacy_pad of PadImage must be 0")
    before, after = padding(node, 2, cuts=True)
    for first, last, size in zip(before, after, sizes, strict=True):
        left = size + min(0, first) + min(0, last)
        if left < 1 or (mode == "reflect" and max(first, last) >= left):
            raise node.invalid(f"padding {[*before, *after]} of {list(sizes)} elements")
    if not any((*before, *after)):
        return stored(node, g, x)
    operands = [x, vector(g, [0, 0, *before, 0, 0, *after])]
    if mode == "constant":
        operands.append(g.builder.const(np.asarray(fill, x.dtype.numpy)))
    return stored(node, g, g("Pad", operands, mode=mode))


@operator("ChannelShuffle", layout=ANY, ignores=("kernel",))
def _channel_shuffle(node: Node, g: Operators) -> Value:
    (x,) = inputs(node, 1)
    count, groups = channels(node, x), integer(node, "group", 1, 1)
    if count % groups:
        raise node.invalid(f"{count} channels in {groups} groups")
    return shuffled(g, x, groups, x.rank - 1 if is_channel_last(node) else 1)


@operator("SpaceToBatch", "BatchToSpace", layout=CHANNEL_LAST)
def _blocks(node: Node, g: Operators) -> Value:
    (x,) = inputs(node, 1)
    x = planes(node, g, x)
    _spatial(node, x)
    size = integer(node, "block_size", 2, 1)
    before, after = padding(node, 2)
    pairs = list(zip(before, after, strict=True))
    function = blocks.space_to_batch if node.type == "SpaceToBatch" else blocks.batch_to_space
    return stored(node, g, channel_first(g, function(g, channel_last(g, x), [size, size], pairs)))
