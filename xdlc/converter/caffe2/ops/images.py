"""Handlers of operators on images."""

from __future__ import annotations

import numpy as np

from xdlc.converter.caffe2.ops.normalization import channels
from xdlc.converter.caffe2.ops.windows import padding
from xdlc.converter.caffe2.registry import (
    integer,
    is_channel_last,
    number,
    operator,
    planes,
    stored,
    word,
)
from xdlc.converter.functions import blocks
from xdlc.converter.functions.gathering import shuffled
from xdlc.converter.functions.resampling import nearest_at, resize
from xdlc.converter.functions.shapes import channel_first, channel_last, dims, known
from xdlc.converter.functions.shapes import number as scalar
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import ANY, CHANNEL_LAST
from xdlc.converter.values import Value, check_table
from xdlc.ir.data import Array
from xdlc.opdefs import sampling


def _spatial(node: Node, x: Value, rank: int = 2) -> tuple[int, ...]:
    """Return the sizes of the spatial axes of planes, whose number must be the rank."""
    if x.rank != rank + 2:
        raise node.invalid(f"the input has rank {x.rank} instead of {rank + 2}")
    return dims(x, range(2, x.rank))


_SCALES = {
    "ResizeNearest3D": ["temporal_scale", "height_scale", "width_scale"],
    "UpsampleNearest": ["scale"] * 2,
}


@operator("ResizeNearest", "ResizeNearest3D", "UpsampleBilinear", "UpsampleNearest", layout=CHANNEL_LAST)
def _resize(node: Node, g: Operators, x: Value, stated: Value | None = None) -> Value:
    """Return planes of sizes floor(size * scale); a second input overrides arguments.

    Nearest elements are those at floor(place / scale); bilinear ones have the corners in place.
    """
    names = _SCALES.get(node.type, ["height_scale", "width_scale"])
    scales = [number(node, name, 2.0 if name == "scale" else 1.0) for name in names]
    if stated is not None:
        scales = [float(scale) for scale in known(stated, "the scales").reshape(-1)]
    if len(scales) != len(names) or not all(0 < scale < 1 << 16 for scale in scales):
        raise node.invalid(f"scales {scales} are not valid")
    x = planes(node, g, x)
    sizes = _spatial(node, x, len(scales))
    target = [int(np.float32(size) * np.float32(scale)) for size, scale in zip(sizes, scales, strict=True)]
    if min(target) < 1:
        raise node.invalid(f"scales {scales} reduce an image of size {list(sizes)} to nothing")
    for count in target:
        check_table(count)
    if node.type != "UpsampleBilinear":
        picks = {axis: _picks(*each) for axis, each in enumerate(zip(sizes, target, scales, strict=True), 2)}
        return stored(node, g, nearest_at(g, x, picks, "asymmetric"))
    return stored(node, g, x if target == [*sizes] else resize(g, x, target, "linear", "align_corners"))


def _picks(n: int, m: int, scale: float) -> Array:
    """Return the source index of each new element, in single precision as in Caffe2."""
    places = sampling.positions(n, m, "asymmetric", scale, dtype=np.float32)
    return sampling.rounded(places, n, "floor")


@operator("PadImage", layout=ANY, ignores=("kernel", "kernels", "kernel_h", "kernel_w"))
def _pad_image(node: Node, g: Operators, x: Value) -> Value:
    x = planes(node, g, x)
    sizes = _spatial(node, x)
    mode, fill = word(node, "mode", "constant", "reflect", "edge"), number(node, "value", 0.0)
    if integer(node, "legacy_pad", 0):
        raise node.invalid("xdlc supports PadImage only with legacy_pad 0")
    before, after = padding(node, 2, cuts=True)
    for first, last, size in zip(before, after, sizes, strict=True):
        left = size + min(0, first) + min(0, last)
        if left < 1 or (mode == "reflect" and max(first, last) >= left):
            raise node.invalid(f"padding {[*before, *after]} does not fit an image of size {list(sizes)}")
    if any((*before, *after)):
        x = g("Pad", [x, [0, 0, *before, 0, 0, *after], scalar(g, x, fill)], mode=mode)
    return stored(node, g, x)


@operator("ChannelShuffle", layout=ANY, ignores=("kernel",))
def _channel_shuffle(node: Node, g: Operators, x: Value) -> Value:
    count, groups = channels(node, x), integer(node, "group", 1, 1)
    if count % groups:
        raise node.invalid(f"{count} channels cannot be divided into {groups} groups")
    return shuffled(g, x, groups, x.rank - 1 if is_channel_last(node) else 1)


@operator("SpaceToBatch", "BatchToSpace", layout=CHANNEL_LAST)
def _blocks(node: Node, g: Operators, x: Value) -> Value:
    x = planes(node, g, x)
    _spatial(node, x)
    size = integer(node, "block_size", 2, 1)
    pairs = list(zip(*padding(node, 2), strict=True))
    function = blocks.space_to_batch if node.type == "SpaceToBatch" else blocks.batch_to_space
    return stored(node, g, channel_first(g, function(g, channel_last(g, x), [size, size], pairs)))
