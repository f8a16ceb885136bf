"""Handlers of layers that join, cut, reshape and move blobs."""

from __future__ import annotations

import itertools
import math

from xdlc.converter.caffe.registry import MANY, bottoms, layer, misfit, params
from xdlc.converter.functions.gathering import shuffled, split
from xdlc.converter.functions.shapes import cast, number, permuted, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node, cut_before
from xdlc.converter.session.ordering import ANY, CHANNEL_LAST
from xdlc.converter.values import Value, check_shape
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.ir.dtype import INT32
from xdlc.options import spell


def _either_axis(node: Node, name: str, old: str, rank: int) -> int:
    """Return the axis of Concat or Slice, which an older field states too."""
    p = params(node, name)
    if p.has("axis") and p.has(old):
        raise misfit(f"the layer has axis and {old}, which mean the same: remove one")
    return node.axis(p.integer(old, least=0) if p.has(old) else p.integer("axis", 1), rank)


@layer("Concat", layout=ANY)
def _concat(node: Node, g: Operators) -> Value:
    first, *others = values = bottoms(node, 1, MANY)
    axis = _either_axis(node, "concat_param", "concat_dim", first.rank)
    for value in others:
        sizes = itertools.zip_longest(first.shape, value.shape)
        if axis >= value.rank or any(a != b for place, (a, b) in enumerate(sizes) if place != axis):
            shapes = f"{list(first.shape)} and {list(value.shape)}"
            raise misfit(f"the layer joins bottoms along axis {axis}, but {shapes} differ in other axes")
    return g("Concat", values, axis=axis) if others else first


@layer("Slice", layout=ANY)
def _slice(node: Node, g: Operators) -> list[Value]:
    (x,) = bottoms(node, 1)
    axis = _either_axis(node, "slice_param", "slice_dim", x.rank)
    count, size = len(node.outputs), x.shape[axis]
    points = params(node, "slice_param").integers("slice_point")
    if not points and (not count or size % count):
        raise ModelError(
            f"the layer cannot cut {size} elements of axis {axis} into {count} equal parts",
            fix="set slice_point to where each part begins",
        )
    ends = [0, *points, size] if points else range(0, size + 1, size // count)
    sizes = [end - start for start, end in itertools.pairwise(ends)]
    if len(sizes) != count or min(sizes) < 1:
        raise misfit(
            f"slice_point {points[:16]} does not cut the {size} elements of axis {axis} into {count} tops"
        )
    return split(g, x, sizes, axis)


@layer("Split", layout=ANY)
def _split(node: Node, g: Operators) -> list[Value]:
    return bottoms(node, 1) * len(node.outputs)


@layer("Flatten")
def _flatten(node: Node, g: Operators) -> Value:
    (x,), p = bottoms(node, 1), params(node, "flatten_param")
    first, last = (node.axis(p.integer(name, at), x.rank) for name, at in (("axis", 1), ("end_axis", -1)))
    if last < first - 1:
        raise misfit(f"the layer cannot flatten axes {first} to {last}")
    return reshape(g, x, (*x.shape[:first], math.prod(x.shape[first : last + 1]), *x.shape[last + 1 :]))


@layer("Reshape")
def _reshape(node: Node, g: Operators) -> Value:
    """Reshape as reshape_layer.cpp: 0 copies the axis there, from ``axis`` on."""
    (x,), p = bottoms(node, 1), params(node, "reshape_param")
    new, start = p.integers("shape.dim", least=-1), p.integer("axis", 0)
    count = p.integer("num_axes", -1, least=-1)
    first = start + x.rank + 1 if start < 0 else start
    last = x.rank if count == -1 else first + count
    if not 0 <= first <= last <= x.rank:
        raise misfit(f"axis {start} and num_axes {count} do not fit a bottom of {x.rank} axes")
    if new.count(-1) > 1:
        raise misfit("only one dimension of the shape may be -1")
    kept = x.shape[first:]
    if 0 in new[len(kept) :]:
        raise misfit(f"size 0 copies a dimension that the bottom, of rank {x.rank}, does not have")
    new = [kept[place] if size == 0 else size for place, size in enumerate(new)]
    sizes = [*x.shape[:first], *new, *x.shape[last:]]
    check_shape(node.outputs[0], [max(size, 1) for size in sizes], x.dtype)
    rest = math.prod(max(size, 1) for size in sizes)
    sizes = [x.size // rest if size == -1 else size for size in sizes]
    if math.prod(sizes) != x.size:
        fix = f"write 0 or -1 instead of a fixed size, or set the input's size with {spell('input_dims')}"
        raise ModelError(f"the layer cannot reshape {x.size} elements, {list(x.shape)}, to {sizes}", fix=fix)
    if x.rank and x.shape[0] > 1 and first == 0 and sizes[:1] == [1] and -1 in new:
        g.context.diagnostics.notices.append(
            f"{node.own_name!r} (Reshape) has 1 for the batch, so the layer joins {x.shape[0]} images"
        )
    return reshape(g, x, sizes)


@layer("Unsqueeze")
def _unsqueeze(node: Node, g: Operators) -> Value:
    (x,) = bottoms(node, 1)
    axis = node.axis(params(node, "unsqueeze_param").integer("dim"), x.rank + 1)
    return reshape(g, x, (*x.shape[:axis], 1, *x.shape[axis:]))


@layer("Permute")
def _permute(node: Node, g: Operators) -> Value:
    (x,) = bottoms(node, 1)
    order = params(node, "permute_param").integers("order", least=0)
    if len(set(order)) != len(order) or any(axis >= x.rank for axis in order):
        raise misfit(f"order {order[:8]} does not permute the {x.rank} axes of the bottom")
    return permuted(g, x, [*order, *(axis for axis in range(x.rank) if axis not in order)])


@layer("Crop", layout=ANY)
def _crop(node: Node, g: Operators) -> Value:
    (x, like), p = bottoms(node, 2), params(node, "crop_param")
    axes = range(node.axis(p.integer("axis", 2), x.rank), x.rank)
    starts = p.integers("offset", least=0) or [0]
    if len(starts) not in (1, len(axes)):
        raise misfit(f"the layer has {len(starts)} values of offset, but crops {len(axes)} axes")
    if like.rank < x.rank:
        raise misfit(f"the layer cannot cut rank {x.rank} to the size of a bottom of rank {like.rank}")
    starts = starts * (len(axes) // len(starts))
    ends = [start + like.shape[axis] for start, axis in zip(starts, axes, strict=True)]
    if any(end > x.shape[axis] for end, axis in zip(ends, axes, strict=True)):
        raise misfit(
            f"cannot cut {list(like.shape)} from {starts} on out of {list(x.shape)}, axes {list(axes)}"
        )
    if tuple(ends) == x.shape[axes[0] :] and not any(starts):
        return x
    return g("Slice", [x, vector(g, starts), vector(g, ends), vector(g, axes)])


@layer("Tile", layout=ANY)
def _tile(node: Node, g: Operators) -> Value:
    (x,), p = bottoms(node, 1), params(node, "tile_param")
    axis, count = node.axis(p.integer("axis", 1), x.rank), p.integer("tiles", least=1)
    return g("Tile", [x, [count if at == axis else 1 for at in range(x.rank)]])


@layer("Pad", layout=ANY)
def _pad(node: Node, g: Operators) -> Value:
    """Pad the last two axes; amounts below 0, all four of them, cut."""
    (x,), p = bottoms(node, 1), params(node, "pad_param")
    up, down, left, right = amounts = [p.integer(f"pad_{side}", 0) for side in "udlr"]
    kind = p.word("pad_type", {"CONSTANT": 0, "REPLICATE": 1, "REFLECT": 2}, "CONSTANT")
    if not 2 <= x.rank <= 4:
        raise misfit(f"the layer pads 2 to 4 axes, but its bottom has {x.rank}")
    if min(amounts) < 0 < max(amounts):
        raise misfit(f"xdlc does not support padding one side and cropping another: {amounts}")
    if kind == "REFLECT" and (max(up, down) >= x.shape[-2] or max(left, right) >= x.shape[-1]):
        raise misfit(f"the layer reflects {amounts} elements, too many for a bottom {list(x.shape)}")
    zeros = [0] * (x.rank - 2)
    pads = vector(g, [*zeros, up, left, *zeros, down, right])
    mode = {"CONSTANT": "constant", "REPLICATE": "edge", "REFLECT": "reflect"}[kind]
    return g("Pad", [x, pads, number(g, x, p.number("pad_value", 0.0))], mode=mode)


# ------------------------------------------------------------------ channels


@layer("ShuffleChannel", layout=CHANNEL_LAST)
def _shuffle(node: Node, g: Operators) -> Value:
    (x,), p = bottoms(node, 1, rank=4), params(node, "shuffle_channel_param")
    return shuffled(g, x, p.integer("group", 1, least=1), 1)


@layer("PixelShuffle", layout=CHANNEL_LAST)
def _pixel_shuffle(node: Node, g: Operators) -> Value:
    (x,), p = bottoms(node, 1, rank=4), params(node, "pixelshuffle_param")
    factor = p.integer("upscale_factor", least=1)
    _check_channels(x, factor**2)
    return g("DepthToSpace", [x], blocksize=factor, mode="CRD")


@layer("Reorg", "ReorgYolo")
def _reorg(node: Node, g: Operators) -> Value:
    """Apply Darknet's reorg: s x s blocks of [C / s², H s, W s] become channels."""
    (x,), p = bottoms(node, 1, rank=4), params(node, "reorg_param")
    stride = p.integer("stride", least=1)
    _check_channels(x, stride**2)
    n, c, h, w = x.shape
    if p.flag("reverse", False):
        return g("DepthToSpace", [x], blocksize=stride, mode="DCR")
    if h % stride or w % stride:
        raise misfit(f"stride {stride} does not divide an image of {h} x {w}")
    wide = reshape(g, x, (n, c // stride**2, h * stride, w * stride))
    apart = g("SpaceToDepth", [wide], blocksize=stride)
    return reshape(g, apart, (n, c * stride**2, h // stride, w // stride))


def _check_channels(x: Value, group: int) -> None:
    if x.shape[1] % group:
        raise misfit(f"group {group} does not divide the channels of a bottom {list(x.shape)}")


# ------------------------------------------------------------------ rows


@layer("BatchReindex")
def _batch_reindex(node: Node, g: Operators) -> Value:
    x, index = bottoms(node, 2)
    if index.rank != 1 or not x.rank:
        raise misfit(f"the second bottom selects rows and must have rank 1, but has {index.rank}")
    return g("Gather", [x, cast(g, index, INT32)], axis=0)


@layer("Filter")
def _filter(node: Node, g: Operators) -> Value:
    raise UnsupportedOp(
        "the number of rows that the layer keeps depends on data, but a DLC has fixed shapes",
        fix=f"{cut_before()}, and select the rows in your program",
    )
