"""Handlers of operators that join, cut, view, move and repeat."""

from __future__ import annotations

import math

import numpy as np

from xdlc.converter.caffe2.registry import flag, integer, integers, is_channel_last, operator, wants
from xdlc.converter.functions.elementwise import one_hot
from xdlc.converter.functions.gathering import split, split_evenly, stack, unstack
from xdlc.converter.functions.shapes import cast, channel_first, channel_last, dims, ints, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node, cut_before
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value
from xdlc.ir.dtype import INT32


def _channel_axis(node: Node, rank: int) -> int:
    """Return argument axis, by default that of channels in the images' order."""
    return node.axis(integer(node, "axis", 3 if is_channel_last(node) else 1), rank)


def _stated(node: Node, value: Value | None, name: str) -> list[int]:
    """Return integers from an optional input, else from the argument."""
    own = integers(node, name)
    return own if value is None else ints(value, f"argument {name}")


@operator("Concat", "DepthConcat", layout=ANY)
def _concat(node: Node, g: Operators, *values: Value) -> list[Value]:
    """Return inputs joined, along a new axis with add_axis, and their sizes, int32."""
    adds = flag(node, "add_axis")
    axis = _channel_axis(node, values[0].rank + adds)
    shapes = [dims(value) for value in values]
    if len({shape if adds else (len(shape), shape[:axis], shape[axis + 1 :]) for shape in shapes}) != 1:
        raise node.invalid(
            f"inputs of shapes {[list(shape) for shape in shapes]} cannot be joined along axis {axis}"
        )
    sizes = [1 if adds else shape[axis] for shape in shapes]
    made = stack(g, values, axis) if adds else values[0]
    if len(values) > 1 and not adds:
        made = g("Concat", values, axis=axis)
    return [made, g.builder.const(np.asarray(sizes, np.int32))] if wants(node, 1) else [made]


@operator("Split", "DepthSplit", layout=ANY)
def _split(node: Node, g: Operators, x: Value, parts: Value | None = None) -> list[Value]:
    """Split ``x`` into sizes from an input or an argument, else into equal parts."""
    axis, count, sizes = _channel_axis(node, x.rank), len(node.outputs), _stated(node, parts, "split")
    (whole,) = dims(x, [axis])
    if not sizes and whole % count == 0:
        sizes = [whole // count] * count
    drops = flag(node, "add_axis")
    if len(sizes) != count or sum(sizes) != whole or min(sizes) < 1 or (drops and whole != count):
        raise node.invalid(
            f"{whole} elements of axis {axis} cannot be split into {count} parts of sizes "
            f"{sizes or 'that are equal'}"
        )
    return unstack(g, x, count, axis) if drops else split(g, x, sizes, axis)


@operator("Slice", layout=ANY)
def _slice(
    node: Node, g: Operators, x: Value, first: Value | None = None, last: Value | None = None
) -> Value:
    """Return a slice; a negative position p means size + 1 + p, so -1 is the end."""
    starts, ends = _stated(node, first, "starts"), _stated(node, last, "ends")
    if (first is None) != (last is None) or len(starts) != len(ends) or len(starts) > x.rank:
        raise node.invalid(f"starts {starts} and ends {ends} do not fit an input of {x.rank} axes")
    slices = []
    for axis, places in enumerate(zip(starts, ends, strict=True)):
        if places != (0, -1):
            (size,) = dims(x, [axis])
            start, end = (min(size, size + 1 + place if place < 0 else place) for place in places)
            if not 0 <= start < end:
                raise node.invalid(f"a slice of {size} elements of axis {axis} is empty: {start} to {end}")
            slices.append((start, end, axis))
    return g("Slice", [x, *(vector(g, part) for part in zip(*slices, strict=True))]) if slices else x


@operator("Reshape")
def _reshape(node: Node, g: Operators, x: Value, new_shape: Value | None = None) -> list[Value]:
    """Return x reshaped (0 keeps a size), and the old shape."""
    if new_shape is None and "shape" not in node.attributes:
        raise node.invalid("the operator has neither an argument shape nor an input for the shape")
    stated, shape = _stated(node, new_shape, "shape"), dims(x)
    sizes = [size or shape[place] for place, size in enumerate(stated) if size or place < x.rank]
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = x.size // max(1, -math.prod(sizes))
    if len(sizes) != len(stated) or min(sizes, default=0) < 0 or math.prod(sizes) != x.size:
        raise node.invalid(f"an input {list(shape)}, {x.size} elements, cannot become shape {stated}")
    reshaped = reshape(g, x, sizes)
    return [reshaped, vector(g, shape)] if wants(node, 1) else [reshaped]


@operator("ResizeLike")
def _resize_like(node: Node, g: Operators, x: Value, like: Value) -> Value:
    if math.prod(dims(x)) != math.prod(dims(like)):
        raise node.invalid(f"an input {list(x.shape)} cannot become the shape {list(like.shape)}")
    return reshape(g, x, dims(like))


def flattened(g: Operators, x: Value, axis: int) -> Value:
    """Return a value as a matrix whose columns are the axes from ``axis`` on."""
    shape = dims(x)
    return reshape(g, x, (math.prod(shape[:axis]), math.prod(shape[axis:])))


@operator("Flatten", "FlattenToVec")
def _flatten(node: Node, g: Operators, x: Value) -> Value:
    """Return a matrix whose columns are the axes from axis on, or a vector."""
    if node.type == "FlattenToVec":
        return reshape(g, x, (math.prod(dims(x)),))
    axis = integer(node, "axis", 1)
    return flattened(g, x, axis if axis == x.rank else node.axis(axis, x.rank))


@operator("Squeeze", "ExpandDims")
def _dims(node: Node, g: Operators, x: Value) -> Value:
    places, shape = sorted(set(integers(node, "dims"))), list(dims(x))
    adds = node.type == "ExpandDims"
    if not places or places[0] < 0 or places[-1] >= x.rank + adds * len(places):
        raise node.invalid(f"dims {places} do not fit an input {list(x.shape)}")
    if adds:
        for place in places:
            shape.insert(place, 1)
    elif any(shape.pop(place) != 1 for place in reversed(places)):
        raise node.invalid(
            f"the operator removes dims {places} of {list(x.shape)}, which do not all have size 1"
        )
    return reshape(g, x, shape)


@operator("Transpose", "NCHW2NHWC", "NHWC2NCHW")
def _transpose(node: Node, g: Operators, x: Value) -> Value:
    if node.type != "Transpose":
        if x.rank < 3:
            raise node.invalid(f"the input needs rank 3 or more, but has {x.rank}")
        return channel_last(g, x) if node.type == "NCHW2NHWC" else channel_first(g, x)
    perm = integers(node, "axes") or list(range(x.rank))[::-1]
    if sorted(perm) != list(range(x.rank)):
        raise node.invalid(f"axes {perm} do not fit an input of rank {x.rank}")
    return g("Transpose", [x], perm=perm)


@operator("Shape", "Size")
def _shape(node: Node, g: Operators, x: Value) -> Value:
    if node.type == "Size":
        return g.builder.const(np.asarray(math.prod(dims(x)), np.int64))
    axes = [node.axis(axis, x.rank) for axis in integers(node, "axes")]
    return vector(g, dims(x, axes or None))


@operator("Tile", layout=ANY)
def _tile(
    node: Node, g: Operators, x: Value, count: Value | None = None, place: Value | None = None
) -> Value:
    """Return x repeated along an axis; inputs override the arguments."""
    tiles, axis = _stated(node, count, "tiles") or [1], _stated(node, place, "axis") or [0]
    if len(tiles) != 1 or len(axis) != 1 or tiles[0] < 1:
        raise node.invalid(f"{tiles} repetitions along axis {axis} are not valid")
    counts = [1] * x.rank
    counts[node.axis(axis[0], x.rank)] = tiles[0]
    return g("Tile", [x, vector(g, counts)])


@operator("NumpyTile", "Expand", layout=ANY)
def _by_shape(node: Node, g: Operators, x: Value, shape: Value | None = None) -> Value:
    """Return x tiled, or broadcast as in numpy, by the second input's numbers."""
    wanted = _stated(node, shape, "shape")
    if not wanted or min(wanted) < 1 or (node.type == "NumpyTile" and len(wanted) != x.rank):
        raise node.invalid(f"xdlc cannot repeat an input {list(x.shape)} by {wanted}")
    return g("Tile" if node.type == "NumpyTile" else "Expand", [x, vector(g, wanted)])


@operator("Glu")
def _glu(node: Node, g: Operators, x: Value) -> Value:
    """Return the first half along an axis times the sigmoid of the second."""
    first, second = split_evenly(g, x, 2, node.axis(integer(node, "dim", -1), x.rank))
    return g("Mul", [first, g("Sigmoid", [second])])


@operator("Gather", "BatchGather", layout=ANY, ignores=("wrap_indices",))
def _gather(node: Node, g: Operators, x: Value, indices: Value) -> Value:
    if flag(node, "match_outer"):
        raise node.problem(
            "xdlc does not support the argument match_outer", f"use BatchGather, or {cut_before()}"
        )
    axis = node.axis(integer(node, "axis", 1 if node.type == "BatchGather" else 0), x.rank)
    return g("Gather", [x, indices if indices.dtype.is_integer else cast(g, indices, INT32)], axis=axis)


@operator("OneHot")
def _one_hot(node: Node, g: Operators, indices: Value, size: Value) -> Value:
    """Return rows [N, size] of uint8 with a 1 at the index; input 2 is the size."""
    if indices.rank != 1 or size.size != 1:
        raise node.invalid(f"indices {list(indices.shape)} do not fit an input {list(size.shape)}")
    on, off = (g.builder.const(np.asarray(value, np.uint8)) for value in (1, 0))
    return one_hot(g, cast(g, indices, INT32), ints(size, "the size")[0], on, off, -1)
