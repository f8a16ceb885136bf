"""Handlers of operators that join, cut, view, move and repeat."""

from __future__ import annotations

import math

import numpy as np

from xdlc.converter.caffe2.ops._args import flag, inputs, integer, integers, wants, word
from xdlc.converter.caffe2.registry import operator
from xdlc.converter.nhwc.elementwise import one_hot
from xdlc.converter.nhwc.gathering import split, split_evenly, stack, unstack
from xdlc.converter.nhwc.shapes import dims, ints, permuted, reshape, vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value
from xdlc.ir.dtype import INT32


def _channel_axis(node: Node, rank: int) -> int:
    """Return argument axis, by default the one of channels in the storage order of images."""
    order = word(node, "order", ("NCHW", "NHWC"), "NCHW")
    return node.axis(integer(node, "axis", 1 if order == "NCHW" else 3), rank)


@operator("Concat", "DepthConcat", layout=ANY)
def _concat(node: Node, g: Operators) -> list[Value]:
    """Return the inputs side by side, along a new axis with add_axis, and the size of each, int32."""
    values = inputs(node, 1, len(node.inputs))
    adds = flag(node, "add_axis")
    rank = values[0].rank
    axis = _channel_axis(node, rank + adds)
    shapes = [list(dims(value)) for value in values]
    for shape in shapes:
        kept = [shape[:axis], shape[axis if adds else axis + 1 :]]
        if kept != [shapes[0][:axis], shapes[0][axis if adds else axis + 1 :]]:
            raise node.invalid(f"shapes {shapes[0]} and {shape} side by side along axis {axis}")
    if adds and shapes != shapes[:1] * len(shapes):
        raise node.invalid(f"shapes {shapes[0]} and others with add_axis")
    sizes = [1 if adds else shape[axis] for shape in shapes]
    joined = values[0] if len(values) == 1 else g("Concat", values, axis=axis) if not adds else None
    made = stack(g, values, axis) if adds else joined
    assert made is not None
    return [made, g.builder.const(np.asarray(sizes, np.int32))] if wants(node, 1) else [made]


@operator("Split", "DepthSplit", layout=ANY)
def _split(node: Node, g: Operators) -> list[Value]:
    """Return parts of the sizes that an argument or the second input states, else equal ones."""
    x, *_ = inputs(node, 1, 2)
    axis, count, drops = _channel_axis(node, x.rank), len(node.outputs), flag(node, "add_axis")
    (whole,) = dims(x, [axis])
    sizes = integers(node, "split")
    if len(node.inputs) == 2:
        sizes = ints(node.required(1), "the sizes of the parts")
    if not sizes:
        if whole % count:
            raise node.invalid(f"{whole} elements of axis {axis} in {count} equal parts")
        sizes = [whole // count] * count
    if len(sizes) != count or sum(sizes) != whole or min(sizes) < 1:
        raise node.invalid(f"parts {sizes} of {whole} elements of axis {axis} for {count} outputs")
    if drops:
        if set(sizes) != {1}:
            raise node.invalid(f"parts {sizes} with add_axis, which must be 1 each")
        return unstack(g, x, count, axis)
    return split(g, x, sizes, axis)


@operator("Slice", layout=ANY)
def _slice(node: Node, g: Operators) -> Value:
    """Return a part; a negative place p counts as size + 1 + p, so that -1 is the end itself."""
    x, *given = inputs(node, 1, 3)
    starts, ends = integers(node, "starts"), integers(node, "ends")
    if len(given) == 2:
        starts, ends = ints(given[0], "the starts"), ints(given[1], "the ends")
    if starts is None or ends is None or len(given) == 1 or len(starts) != len(ends) or len(starts) > x.rank:
        raise node.invalid(f"starts {starts} and ends {ends} of {x.rank} axes")
    axes, first, last = [], [], []
    for axis, (start, end) in enumerate(zip(starts, ends, strict=True)):
        if (start, end) == (0, -1):
            continue
        (size,) = dims(x, [axis])
        start, end = (min(size, size + 1 + place if place < 0 else place) for place in (start, end))
        if not 0 <= start < end:
            raise node.invalid(f"nothing is left of the {size} elements of axis {axis}: {start} to {end}")
        axes.append(axis)
        first.append(start)
        last.append(end)
    return g("Slice", [x, vector(g, first), vector(g, last), vector(g, axes)]) if axes else x


@operator("Reshape")
def _reshape(node: Node, g: Operators) -> list[Value]:
    """Return x under another shape, 0 for a size of x, and the old shape."""
    x, *_ = inputs(node, 1, 2)
    wanted = integers(node, "shape")
    if len(node.inputs) == 2:
        wanted = ints(node.required(1), "the shape")
    if wanted is None:
        raise node.invalid("has neither an argument shape nor an input that holds it")
    shape = dims(x)
    if any(not size and place >= x.rank for place, size in enumerate(wanted)):
        raise node.invalid(f"shape {wanted} copies an axis that {list(shape)} lacks")
    sizes = [size or shape[place] for place, size in enumerate(wanted)]
    rest, known = sizes.count(-1), math.prod(size for size in sizes if size != -1)
    if rest == 1 and known:
        sizes[sizes.index(-1)] = x.size // known
    if rest > 1 or min(sizes, default=0) < 0 or math.prod(sizes) != x.size:
        raise node.invalid(f"{list(shape)}, {x.size} elements, under shape {wanted}")
    return [reshape(g, x, sizes), *_old_shape(node, g, shape)]


def _old_shape(node: Node, g: Operators, shape: tuple[int, ...]) -> list[Value]:
    return [vector(g, shape)] if wants(node, 1) else []


@operator("ResizeLike")
def _resize_like(node: Node, g: Operators) -> Value:
    x, like = inputs(node, 2)
    if math.prod(dims(x)) != math.prod(dims(like)):
        raise node.invalid(f"{list(x.shape)} under the shape {list(like.shape)}")
    return reshape(g, x, dims(like))


@operator("Flatten", "FlattenToVec")
def _flatten(node: Node, g: Operators) -> Value:
    """Return a matrix whose columns are the axes from axis on, or all elements in a row."""
    (x,) = inputs(node, 1)
    shape = dims(x)
    if node.type == "FlattenToVec":
        return reshape(g, x, (math.prod(shape),))
    given = integer(node, "axis", 1)
    axis = x.rank if given == x.rank else node.axis(given, x.rank)
    return reshape(g, x, (math.prod(shape[:axis]), math.prod(shape[axis:])))


@operator("Squeeze", "ExpandDims")
def _dims(node: Node, g: Operators) -> Value:
    (x,) = inputs(node, 1)
    given = sorted(set(integers(node, "dims") or ()))
    shape = list(dims(x))
    if not given or given[0] < 0:
        raise node.invalid(f"argument dims is {given}")
    for place in given if node.type == "ExpandDims" else reversed(given):
        if place > len(shape) - (node.type == "Squeeze"):
            raise node.invalid(f"dims {given} of {list(x.shape)}")
        if node.type == "ExpandDims":
            shape.insert(place, 1)
        elif shape.pop(place) != 1:
            raise node.invalid(f"axis {place} of {list(x.shape)} is removed, and has not size 1")
    return reshape(g, x, shape)


@operator("Transpose", "NCHW2NHWC", "NHWC2NCHW")
def _transpose(node: Node, g: Operators) -> Value:
    (x,) = inputs(node, 1)
    if node.type == "Transpose":
        perm = integers(node, "axes") or list(range(x.rank))[::-1]
    else:
        last = x.rank - 1
        perm = [0, *range(2, x.rank), 1] if node.type == "NCHW2NHWC" else [0, last, *range(1, last)]
        if x.rank < 3:
            raise node.invalid(f"an input of rank {x.rank}")
    if sorted(perm) != list(range(x.rank)):
        raise node.invalid(f"axes {perm} of rank {x.rank}")
    return permuted(g, x, perm)


@operator("Shape", "Size")
def _shape(node: Node, g: Operators) -> Value:
    (x,) = inputs(node, 1)
    if node.type == "Size":
        return g.builder.const(np.asarray(math.prod(dims(x)), np.int64))
    axes = integers(node, "axes")
    return vector(g, dims(x, [node.axis(axis, x.rank) for axis in axes] if axes else None))


@operator("Tile", layout=ANY)
def _tile(node: Node, g: Operators) -> Value:
    """Return x repeated along one axis; inputs state the number and the axis before arguments do."""
    x, *given = inputs(node, 1, 3)
    if any(value.size != 1 for value in given):
        raise node.invalid("its number of repetitions or axis is no single number")
    tiles, axis = integer(node, "tiles", 1), integer(node, "axis", 0)
    if given:
        tiles = ints(given[0], "the number of repetitions")[0]
    if len(given) > 1:
        axis = ints(given[1], "the axis")[0]
    if tiles < 1:
        raise node.invalid(f"{tiles} repetitions")
    place = node.axis(axis, x.rank)
    return g("Tile", [x, vector(g, [tiles if each == place else 1 for each in range(x.rank)])])


@operator("NumpyTile", "Expand", layout=ANY)
def _by_shape(node: Node, g: Operators) -> Value:
    """Return x repeated along each axis, or broadcast as in numpy, by numbers of the second input."""
    x, *given = inputs(node, 1, 2)
    wanted = ints(given[0], "the shape") if given else integers(node, "shape")
    if not wanted or min(wanted) < 1 or (node.type == "NumpyTile" and len(wanted) != x.rank):
        raise node.invalid(f"{list(x.shape)} by numbers {wanted}")
    pairs = zip(reversed(dims(x)), reversed(wanted), strict=False)
    if node.type == "Expand" and any(size != new and 1 not in (size, new) for size, new in pairs):
        raise node.invalid(f"{list(x.shape)} does not broadcast with {wanted}")
    return g("Tile" if node.type == "NumpyTile" else "Expand", [x, vector(g, wanted)])


@operator("Glu")
def _glu(node: Node, g: Operators) -> Value:
    """Return the first half along an axis times the sigmoid of the second."""
    (x,) = inputs(node, 1)
    axis = node.axis(integer(node, "dim", -1), x.rank)
    first, second = split_evenly(g, x, 2, axis)
    return g("Mul", [first, g("Sigmoid", [second])])


@operator("Gather", "BatchGather", layout=ANY, ignores=("wrap_indices",))
def _gather(node: Node, g: Operators) -> Value:
    x, indices = inputs(node, 2)
    if flag(node, "match_outer"):
        raise node.problem(
            "argument match_outer", "use BatchGather, or cut the net before it with --out_name"
        )
    axis = node.axis(integer(node, "axis", 1 if node.type == "BatchGather" else 0), x.rank)
    if not indices.dtype.is_integer:
        indices = g.builder.cast(indices, INT32)
    return g("Gather", [x, indices], axis=axis)


@operator("OneHot")
def _one_hot(node: Node, g: Operators) -> Value:
    """Return rows [N, size] of uint8 with a 1 at the index each; the second input is the size."""
    indices, size = inputs(node, 2)
    if indices.rank != 1 or size.size != 1:
        raise node.invalid(f"indices {list(indices.shape)} and size {list(size.shape)}")
    on, off = (g.builder.const(np.asarray(value, np.uint8)) for value in (1, 0))
    return one_hot(g, g.builder.cast(indices, INT32), ints(size, "the size")[0], on, off, -1)
