"""Handlers of layers that enlarge images: interpolated, repeated, or put back to the places of maxima."""

from __future__ import annotations

import math

from xdlc.converter.caffe.params import Params, bottoms, params
from xdlc.converter.caffe.registry import layer
from xdlc.converter.nhwc.scatter import full
from xdlc.converter.nhwc.shapes import cast, reshape, vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import CHANNEL_LAST
from xdlc.converter.values import Value, check_shape
from xdlc.errors import ModelError
from xdlc.ir.dtype import FLOAT32, INT32

_CORRECT = "correct the layer in the net's text"


def _image(x: Value) -> tuple[int, int]:
    if x.rank != 4:
        raise ModelError(f"resizes a bottom of rank {x.rank} instead of 4", fix=_CORRECT)
    return x.shape[2], x.shape[3]


def _resized(g: Operators, x: Value, size: tuple[int, int], mode: str) -> Value:
    """Return an image [N, C, H, W] interpolated between its elements."""
    if min(size) < 1:
        raise ModelError(f"resizes {list(x.shape)} to {list(size)}", fix=_CORRECT)
    check_shape("the result", (*x.shape[:2], *size), FLOAT32)
    if size == x.shape[2:]:
        return x
    sizes = vector(g, size)
    return g(
        "Resize", [x, None, None, sizes], axes=[2, 3], mode="linear", coordinate_transformation_mode=mode
    )


@layer("Interp", layout=CHANNEL_LAST)
def _interp(node: Node, g: Operators) -> Value:
    """Apply DeepLab's layer: corners stay in place; pads are 0 or less, and cut the bottom first."""
    x, *like = bottoms(node, 1, 2)
    own = params(node, "interp_param")
    cuts = [own.integer(name, 0) for name in ("pad_beg", "pad_end")]
    if max(cuts) > 0:
        raise ModelError(f"pads by {max(cuts)}: the layer cuts only, by numbers of 0 or less", fix=_CORRECT)
    _image(x)
    if any(cuts):
        ends = [size + cuts[1] for size in _image(x)]
        if min(ends) <= -cuts[0]:
            raise ModelError(f"cuts everything of {list(x.shape)}", fix=_CORRECT)
        x = g("Slice", [x, vector(g, [-cuts[0]] * 2), vector(g, ends), vector(g, [2, 3])])
    height, width = _interpolated(own, like, _image(x))
    return _resized(g, x, (height, width), "align_corners")


def _interpolated(own: Params, like: list[Value], size: tuple[int, int]) -> tuple[int, int]:
    """Return the size that Interp makes of one."""
    if like:
        return _image(like[0])
    shrink, zoom = (own.integer(f"{name}_factor", 1, least=1) for name in ("shrink", "zoom"))
    if own.has("shrink_factor", "zoom_factor"):
        if own.has("height", "width"):
            raise ModelError("states a size and a factor: one of both is wrong", fix=_CORRECT)
        shrunk = [(edge - 1) // shrink + 1 for edge in size]
        height, width = (edge + (edge - 1) * (zoom - 1) for edge in shrunk)
        return height, width
    return own.integer("height", least=1), own.integer("width", least=1)


@layer("BilinearInterpolate", layout=CHANNEL_LAST)
def _bilinear(node: Node, g: Operators) -> Value:
    """Apply a bilinear Resize; corners stay in place unless ``align_corners`` is false."""
    (x,) = bottoms(node, 1)
    own = params(node, "bilinear_interpolate_param")
    old = _image(x)
    mode = "align_corners" if own.flag("align_corners", True) else "half_pixel"
    if not own.has("dst_h", "dst_w"):
        factor = own.number("scale_factor", 1.0)
        if not 0 < factor * max(old) < math.inf:
            raise ModelError(f"states a scale_factor of {factor:g}", fix=_CORRECT)
        return _resized(g, x, (int(old[0] * factor), int(old[1] * factor)), mode)
    if own.has("scale_factor"):
        raise ModelError("states dst_h or dst_w, and scale_factor: one of both is wrong", fix=_CORRECT)
    size = [own.integer(name, edge, least=1) for name, edge in zip(("dst_h", "dst_w"), old, strict=True)]
    return _resized(g, x, (size[0], size[1]), mode)


# ------------------------------------------------------------------ repetition, places


@layer("Upsample", layout=CHANNEL_LAST)
def _upsample(node: Node, g: Operators) -> Value:
    """Repeat elements (Darknet's layer); with a mask, put them to their places (SegNet's)."""
    x, *mask = bottoms(node, 1, 2)
    own = params(node, "upsample_param")
    if mask:
        return _unpooled(g, x, mask[0], _upsampled(own, _image(x)))
    scale = own.integer("scale", 1, least=1)
    axes = [2, 3] if own.integer("dims_num", 4) == 4 else [x.rank - 1]
    if x.rank != (4 if len(axes) == 2 else 3):
        raise ModelError(f"repeats elements of a bottom of rank {x.rank}", fix=_CORRECT)
    sizes = [x.shape[axis] * scale for axis in axes]
    check_shape("the result", (*x.shape[: axes[0]], *sizes), FLOAT32)
    if scale == 1:
        return x
    options = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor", "mode": "nearest"}
    return g("Resize", [x, None, None, vector(g, sizes)], axes=axes, **options)


def _upsampled(own: Params, size: tuple[int, int]) -> tuple[int, int]:
    """Return the size of SegNet's Upsample, as upsample_layer.cpp of caffe-segnet computes it."""
    scales = own.sizes("scale", 2, 2, least=1, both=True)
    cuts = [own.flag(name, False) for name in ("pad_out_h", "pad_out_w")]
    height, width = (edge * scale - cut for edge, scale, cut in zip(size, scales, cuts, strict=True))
    return own.integer("upsample_h", height, least=1), own.integer("upsample_w", width, least=1)


@layer("MaxUnPool")
def _max_unpool(node: Node, g: Operators) -> Value:
    x, mask = bottoms(node, 2)
    own = params(node, "max_unpool_param")
    return _unpooled(g, x, mask, (own.integer("dst_h", least=1), own.integer("dst_w", least=1)))


def _unpooled(g: Operators, x: Value, mask: Value, size: tuple[int, int]) -> Value:
    """Return zeros [N, C, *size] with elements at places ``y * width + x`` of their planes."""
    old = _image(x)
    if mask.shape != x.shape:
        raise ModelError(f"has a mask {list(mask.shape)} of {list(x.shape)}", fix=_CORRECT)
    planes, inside = x.shape[0] * x.shape[1], math.prod(size)
    if inside < math.prod(old):
        raise ModelError(f"puts {list(x.shape)} to places of {list(size)}, which are fewer", fix=_CORRECT)
    check_shape("the result", (*x.shape[:2], *size), FLOAT32)
    places = reshape(g, cast(g, mask, INT32), (planes, math.prod(old)))
    zeros = full(g, (planes, inside), 0, FLOAT32)
    made = g("ScatterElements", [zeros, places, reshape(g, x, places.shape)], axis=1)
    return reshape(g, made, (*x.shape[:2], *size))
