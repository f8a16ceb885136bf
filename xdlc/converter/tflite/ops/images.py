"""Handlers of images: sizes and blocks."""

from __future__ import annotations

from collections.abc import Callable

from xdlc.converter.nhwc import blocks, resize
from xdlc.converter.nhwc.shapes import ints, known
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tflite.registry import handler
from xdlc.converter.values import Value

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
    function = blocks.space_to_depth if node.type == "SPACE_TO_DEPTH" else blocks.depth_to_space
    return function(g, node.required(0), node.attr("block_size", 0))


@handler("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND")
def _batches(node: Node, g: Operators, x: Value, block: Value, borders: Value) -> Value:
    function = blocks.space_to_batch if node.type == "SPACE_TO_BATCH_ND" else blocks.batch_to_space
    pairs = known(borders, "paddings or crops").reshape(-1, 2).tolist()
    return function(g, x, ints(block, "the block shape"), pairs)
