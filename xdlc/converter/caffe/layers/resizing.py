"""Handlers of layers that change the size of images."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdlc.converter.caffe.registry import Params, bottoms, layer, misfit, params
from xdlc.converter.functions.resampling import resize
from xdlc.converter.functions.scatter import full
from xdlc.converter.functions.shapes import cast, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import CHANNEL_LAST
from xdlc.converter.values import Value
from xdlc.ir.dtype import FLOAT32, INT32


def _resized(g: Operators, x: Value, size: Sequence[int], transform: str, mode: str = "linear") -> Value:
    """Return an image [N, C, spatial...] after a canonical Resize."""
    if len(size) != x.rank - 2 or min(size) < 1:
        raise misfit(f"the layer cannot resize {list(x.shape)} to {list(size)}")
    return x if tuple(size) == x.shape[2:] else resize(g, x, size, mode, transform)


@layer("Interp", layout=CHANNEL_LAST)
def _interp(node: Node, g: Operators) -> Value:
    """Apply DeepLab's Interp with aligned corners; pads (at most 0) crop first."""
    (x, *like), p = bottoms(node, 1, 2, rank=4), params(node, "interp_param")
    begin, end = (p.integer(name, 0) for name in ("pad_beg", "pad_end"))
    sizes = [size + begin + end for size in x.shape[2:]]
    if max(begin, end) > 0 or min(sizes) < 1:
        raise misfit(
            f"the layer pads by {begin} and {end}, but must pad by 0 or less to crop {list(x.shape)}"
        )
    if begin or end:
        ends = [size + end for size in x.shape[2:]]
        x = g("Slice", [x, [-begin] * 2, vector(g, ends), [2, 3]])
    if like:
        sizes = list(like[0].shape[2:])
    elif p.has("shrink_factor", "zoom_factor"):
        if p.has("height", "width"):
            raise misfit("the layer has a size and a factor: remove one")
        shrink, zoom = (p.integer(f"{name}_factor", 1, least=1) for name in ("shrink", "zoom"))
        sizes = [(size - 1) // shrink * zoom + 1 for size in sizes]
    else:
        sizes = [p.integer(name, least=1) for name in ("height", "width")]
    return _resized(g, x, sizes, "align_corners")


@layer("BilinearInterpolate", layout=CHANNEL_LAST)
def _interpolated(node: Node, g: Operators) -> Value:
    """Apply a bilinear Resize; corners are aligned unless ``align_corners`` is false."""
    (x,), p = bottoms(node, 1, rank=4), params(node, "bilinear_interpolate_param")
    transform, old = "align_corners" if p.flag("align_corners", True) else "half_pixel", x.shape[2:]
    if not p.has("dst_h", "dst_w"):
        factor = p.number("scale_factor", 1.0, above=0)
        return _resized(g, x, [int(size * factor) for size in old], transform)
    if p.has("scale_factor"):
        raise misfit("the layer has dst_h or dst_w, and scale_factor: remove one")
    sizes = [p.integer(name, size, least=1) for name, size in zip(("dst_h", "dst_w"), old, strict=True)]
    return _resized(g, x, sizes, transform)


# ------------------------------------------------------------------ repetition, places


@layer("Upsample", layout=CHANNEL_LAST)
def _upsample(node: Node, g: Operators) -> Value:
    """Repeat elements (Darknet); with a mask, move them to its positions (SegNet)."""
    p = params(node, "upsample_param")
    if node.message.bottoms == 2:
        x, mask = bottoms(node, 2, rank=4)
        return _unpooled(g, x, mask, _upsampled(p, x.shape[2:]))
    (x,), scale = bottoms(node, 1, rank=p.integer("dims_num", 4)), p.integer("scale", 1, least=1)
    if x.rank not in (3, 4):
        raise misfit("dims_num must be 3 or 4")
    return _resized(g, x, [size * scale for size in x.shape[2:]], "asymmetric", "nearest")


def _upsampled(p: Params, size: Sequence[int]) -> list[int]:
    """Return the size of SegNet's Upsample, as upsample_layer.cpp computes it."""
    scales = p.sizes("scale", 2, 2, least=1, both=True)
    cuts = [p.flag(name, False) for name in ("pad_out_h", "pad_out_w")]
    made = [edge * scale - cut for edge, scale, cut in zip(size, scales, cuts, strict=True)]
    return [p.integer(f"upsample_{side}", edge, least=1) for side, edge in zip("hw", made, strict=True)]


@layer("MaxUnPool")
def _max_unpool(node: Node, g: Operators) -> Value:
    (x, mask), p = bottoms(node, 2, rank=4), params(node, "max_unpool_param")
    return _unpooled(g, x, mask, [p.integer(name, least=1) for name in ("dst_h", "dst_w")])


def _unpooled(g: Operators, x: Value, mask: Value, size: Sequence[int]) -> Value:
    """Return zeros [N, C, *size] with elements at positions ``y * width + x``."""
    planes, new = math.prod(x.shape[:2]), (*x.shape[:2], *size)
    if mask.shape != x.shape or math.prod(new) < x.size:
        raise misfit(f"the layer cannot put {list(x.shape)} at the places {list(mask.shape)} of {list(new)}")
    places = reshape(g, cast(g, mask, INT32), (planes, x.size // planes))
    zeros = full(g, (planes, math.prod(size)), 0, FLOAT32)
    made = g("ScatterElements", [zeros, places, reshape(g, x, places.shape)], axis=1)
    return reshape(g, made, new)
