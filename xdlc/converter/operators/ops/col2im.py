"""Col2Im."""

from __future__ import annotations

import math

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import picked
from xdlc.converter.operators.registry import Node, importer
from xdlc.converter.values import Value, check_table
from xdlc.ir.data import Array

_ADD = 1


@importer("Col2Im", since=18)
def col2im(node: Node, b: Builder) -> Value:
    """Map onto a ScatterNd that adds; QNN's Col2Im does not document its column order."""
    x = node.required(0)
    image, block = node.ints(1, "", "the image's shape"), node.ints(2, "", "the block's shape")
    if x.rank != 3 or not image or not block or len(image) != len(block) or x.shape[1] % math.prod(block):
        raise node.invalid(f"image {image} and block {block} do not fit {list(x.shape)}")
    batch, channels = x.shape[0], x.shape[1] // math.prod(block)
    b.check_table(*image, batch * channels)
    places = _places(node, image, block)
    if places.size != math.prod(block) * x.shape[2]:
        raise node.invalid(
            f"{x.shape[2]} windows, but the image {image} has {places.size // math.prod(block)}"
        )
    inside = np.flatnonzero(places >= 0)
    split = b.reshape(x, (batch, channels, places.size))
    rows = b.reshape(b.transpose(split, (2, 0, 1)), (places.size, batch * channels))
    rows = picked(b, rows, 0, inside)
    nothing = b.const(np.zeros((math.prod(image), batch * channels), x.dtype.numpy), f"{b.stem}_zeros")
    index = b.const(places[inside].astype(np.int32).reshape(-1, 1), f"{b.stem}_places")
    inputs = [b.source_order(value) for value in (nothing, index, rows)]
    out = b.emit("ScatterNd", inputs, nothing.shape, x.dtype, {"reduction": ir.u32(_ADD)})
    made = b.reshape(Value(out, (0, 1)), (math.prod(image), batch, channels))
    return b.reshape(b.transpose(made, (1, 2, 0)), (batch, channels, *image))


def _places(node: Node, image: list[int], block: list[int]) -> Array:
    """Return where in the flat image each element of each window is, -1 for padding."""
    axes = len(image)
    strides, dilations = (node.attr(name, [1] * axes) for name in ("strides", "dilations"))
    pads = node.attr("pads", [0] * (2 * axes))
    if not len(strides) == len(dilations) == len(pads) / 2 == axes or min((*strides, *dilations)) < 1:
        raise node.invalid("its strides, dilations or pads do not fit its image")
    flat = np.zeros([1] * (2 * axes), np.int64)
    outside = np.zeros([1] * (2 * axes), np.bool_)
    for axis in range(axes):
        reach = dilations[axis] * (block[axis] - 1) + 1
        count = (image[axis] + pads[axis] + pads[axis + axes] - reach) // strides[axis] + 1
        check_table(flat.size, block[axis], max(count, 0))
        taps, windows = np.arange(block[axis]) * dilations[axis], np.arange(max(count, 0)) * strides[axis]
        place = taps[:, None] + windows - pads[axis]
        dims = [1] * (2 * axes)
        dims[axis], dims[axes + axis] = place.shape
        place = place.reshape(dims)
        flat = flat * image[axis] + place
        outside = outside | (place < 0) | (place >= image[axis])
    return np.where(outside, -1, flat).reshape(-1)
