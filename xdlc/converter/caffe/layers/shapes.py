"""Handlers of layers that join, cut, reshape and move blobs."""

from __future__ import annotations

import itertools
import math

from xdlc.converter.caffe.params import MANY, bottoms, params
from xdlc.converter.caffe.registry import layer
from xdlc.converter.nhwc.gathering import shuffled, split, stack
from xdlc.converter.nhwc.shapes import axis_of, cast, permuted, reshape, vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import ANY, CHANNEL_LAST
from xdlc.converter.values import Value, check_shape
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.ir.dtype import FLOAT32, INT32

_CORRECT = "correct the layer in the net's text"


def _either_axis(node: Node, name: str, old: str) -> int:
    """Return the axis of Concat or Slice, which an older field states too."""
    own = params(node, name)
    if own.has("axis") and own.has(old):
        raise ModelError(f"states axis and {old}, which are the same: one of both is wrong", fix=_CORRECT)
    return own.integer(old, least=0) if own.has(old) else own.integer("axis", 1)


@layer("Concat", layout=ANY)
def _concat(node: Node, g: Operators) -> Value:
    given = bottoms(node, 1, MANY)
    first = given[0]
    axis = axis_of(_either_axis(node, "concat_param", "concat_dim"), first.rank)
    for index, other in enumerate(given[1:], 1):
        if other.rank != first.rank:
            raise ModelError(f"joins bottoms of rank {first.rank} and {other.rank}", fix=_CORRECT)
        for place, (wanted, size) in enumerate(zip(first.shape, other.shape, strict=True)):
            if place != axis and wanted != size:
                raise ModelError(
                    f"joins along axis {axis}, and sizes {wanted} of bottom 0 and {size} of bottom {index} "
                    f"differ in axis {place}",
                    fix=_CORRECT,
                )
    return first if len(given) == 1 else g("Concat", given, axis=axis)


@layer("Slice", layout=ANY)
def _slice(node: Node, g: Operators) -> list[Value]:
    (x,) = bottoms(node, 1)
    axis = axis_of(_either_axis(node, "slice_param", "slice_dim"), x.rank)
    points, count, size = (
        params(node, "slice_param").integers("slice_point"),
        len(node.outputs),
        x.shape[axis],
    )
    if not points and (not count or size % count):
        raise ModelError(
            f"cuts {size} elements of axis {axis} into {count} equal parts", fix="state slice_point"
        )
    if not points:
        return split(g, x, [size // count] * count, axis)
    if len(points) != count - 1:
        raise ModelError(f"has {count} tops and {len(points)} values of slice_point", fix=_CORRECT)
    ends = [0, *points, size]
    sizes = [end - start for start, end in itertools.pairwise(ends)]
    if min(sizes) < 1:
        raise ModelError(
            f"slice_point {', '.join(map(str, points))} has to rise, and stay below the {size} elements of "
            f"axis {axis}",
            fix=_CORRECT,
        )
    return split(g, x, sizes, axis)


@layer("Split", layout=ANY)
def _split(node: Node, g: Operators) -> list[Value]:
    return bottoms(node, 1) * len(node.outputs)


@layer("Silence")
def _silence(node: Node, g: Operators) -> list[Value]:
    return []


@layer("Flatten")
def _flatten(node: Node, g: Operators) -> Value:
    (x,) = bottoms(node, 1)
    own = params(node, "flatten_param")
    first = axis_of(own.integer("axis", 1), x.rank)
    last = axis_of(own.integer("end_axis", -1), x.rank)
    if last < first - 1:
        raise ModelError(f"flattens axes {first} to {last}", fix=_CORRECT)
    return reshape(g, x, (*x.shape[:first], math.prod(x.shape[first : last + 1]), *x.shape[last + 1 :]))


@layer("Reshape")
def _reshape(node: Node, g: Operators) -> Value:
    """Apply as reshape_layer.cpp computes it: 0 copies the axis at the same place from ``axis`` on."""
    (x,) = bottoms(node, 1)
    own = params(node, "reshape_param")
    new, start = own.integers("shape.dim", least=-1), own.integer("axis", 0)
    count = own.integer("num_axes", -1, least=-1)
    first = start + x.rank + 1 if start < 0 else start
    last = x.rank if count == -1 else first + count
    if not 0 <= first <= last <= x.rank:
        raise ModelError(f"axis {start} and num_axes {count} do not fit rank {x.rank}", fix=_CORRECT)
    if new.count(-1) > 1:
        raise ModelError("states -1 for more than one dimension", fix=_CORRECT)
    kept = x.shape[first:]
    if any(size == 0 and place >= len(kept) for place, size in enumerate(new)):
        raise ModelError(f"copies (0) a dimension that a bottom of rank {x.rank} lacks", fix=_CORRECT)
    sizes = [*x.shape[:first], *(kept[at] if size == 0 else size for at, size in enumerate(new))]
    sizes += x.shape[last:]
    if -1 in sizes:
        rest = -math.prod(sizes)
        sizes[sizes.index(-1)] = x.size // rest if rest and not x.size % rest else -1
    check_shape(node.outputs[0], [max(size, 1) for size in sizes], x.dtype)
    if math.prod(sizes) != x.size or -1 in sizes:
        raise ModelError(
            f"reshapes {list(x.shape)} of {x.size} elements to {sizes}",
            fix="state 0 or -1 instead of a fixed size, or the input's size that the net is written for "
            "(--input_dim)",
        )
    return reshape(g, x, sizes)


@layer("Unsqueeze")
def _unsqueeze(node: Node, g: Operators) -> Value:
    (x,) = bottoms(node, 1)
    axis = axis_of(params(node, "unsqueeze_param").integer("dim"), x.rank + 1)
    return reshape(g, x, (*x.shape[:axis], 1, *x.shape[axis:]))


@layer("Permute")
def _permute(node: Node, g: Operators) -> Value:
    (x,) = bottoms(node, 1)
    order = params(node, "permute_param").integers("order", least=0)
    if len(set(order)) != len(order) or any(axis >= x.rank for axis in order):
        raise ModelError(f"order {order} does not permute {x.rank} axes", fix=_CORRECT)
    return permuted(g, x, [*order, *(axis for axis in range(x.rank) if axis not in order)])


@layer("Crop", layout=ANY)
def _crop(node: Node, g: Operators) -> Value:
    x, like = bottoms(node, 2)
    own = params(node, "crop_param")
    axis = axis_of(own.integer("axis", 2), x.rank)
    offsets = own.integers("offset", least=0) or [0]
    axes = range(axis, x.rank)
    if len(offsets) not in (1, len(axes)):
        raise ModelError(f"states {len(offsets)} values of offset for {len(axes)} axes", fix=_CORRECT)
    if like.rank < x.rank:
        raise ModelError(f"cuts rank {x.rank} to the size of a bottom of rank {like.rank}", fix=_CORRECT)
    starts = offsets * len(axes) if len(offsets) == 1 else offsets
    ends = [start + like.shape[at] for start, at in zip(starts, axes, strict=True)]
    for at, start, end in zip(axes, starts, ends, strict=True):
        if end > x.shape[at]:
            raise ModelError(
                f"cuts {end - start} elements from {start} on out of the {x.shape[at]} of axis {at}",
                fix=_CORRECT,
            )
    if not any(starts) and all(x.shape[at] == end for at, end in zip(axes, ends, strict=True)):
        return x
    return g("Slice", [x, vector(g, starts), vector(g, ends), vector(g, axes)])


@layer("Tile", layout=ANY)
def _tile(node: Node, g: Operators) -> Value:
    (x,) = bottoms(node, 1)
    own = params(node, "tile_param")
    axis, count = axis_of(own.integer("axis", 1), x.rank), own.integer("tiles", least=1)
    return g("Tile", [x, vector(g, [count if at == axis else 1 for at in range(x.rank)])])


@layer("Pad", layout=ANY)
def _pad(node: Node, g: Operators) -> Value:
    """Pad the last two axes; amounts below 0, all four of them, cut."""
    (x,) = bottoms(node, 1)
    own = params(node, "pad_param")
    up, down, left, right = amounts = [own.integer(f"pad_{side}", 0) for side in "udlr"]
    kinds = {"CONSTANT": 0, "REPLICATE": 1, "REFLECT": 2}
    kind, value = own.word("pad_type", kinds, "CONSTANT"), own.number("pad_value", 0.0)
    if not 2 <= x.rank <= 4:
        raise ModelError(f"pads a bottom of rank {x.rank}", fix=_CORRECT)
    if min(amounts) < 0 < max(amounts):
        raise ModelError(f"pads on one side and cuts on another: {amounts}", fix=_CORRECT)
    if kind == "REFLECT" and (max(up, down) >= x.shape[-2] or max(left, right) >= x.shape[-1]):
        raise ModelError(f"reflects more than there is: {amounts} of {list(x.shape)}", fix=_CORRECT)
    zeros = [0] * (x.rank - 2)
    pads = vector(g, [*zeros, up, left, *zeros, down, right])
    if kind == "CONSTANT":
        return g("Pad", [x, pads, g.builder.const(x.dtype.numpy.type(value))])
    return g("Pad", [x, pads], mode={"REPLICATE": "edge", "REFLECT": "reflect"}[kind])


# ------------------------------------------------------------------ channels


@layer("ShuffleChannel", layout=CHANNEL_LAST)
def _shuffle(node: Node, g: Operators) -> Value:
    (x,) = bottoms(node, 1)
    group = params(node, "shuffle_channel_param").integer("group", 1, least=1)
    _channels(x, group)
    return shuffled(g, x, group, 1)


@layer("PixelShuffle", layout=CHANNEL_LAST)
def _pixel_shuffle(node: Node, g: Operators) -> Value:
    (x,) = bottoms(node, 1)
    factor = params(node, "pixelshuffle_param").integer("upscale_factor", least=1)
    _channels(x, factor**2)
    return g("DepthToSpace", [x], blocksize=factor, mode="CRD")


@layer("Reorg", "ReorgYolo")
def _reorg(node: Node, g: Operators) -> Value:
    """Apply Darknet's reorg: the bottom is read as [C / s², H s, W s], whose s x s blocks are channels."""
    (x,) = bottoms(node, 1)
    own = params(node, "reorg_param")
    stride = own.integer("stride", least=1)
    depth = _channels(x, stride**2) // stride**2
    n, c, h, w = x.shape
    if own.flag("reverse", False):
        return g("DepthToSpace", [x], blocksize=stride, mode="DCR")
    if h % stride or w % stride:
        raise ModelError(f"stride {stride} does not divide {h} x {w}", fix=_CORRECT)
    wide = reshape(g, x, (n, depth, h * stride, w * stride))
    apart = g("SpaceToDepth", [wide], blocksize=stride)
    return reshape(g, apart, (n, c * stride**2, h // stride, w // stride))


def _channels(x: Value, group: int) -> int:
    if x.rank != 4 or x.shape[1] % group:
        raise ModelError(f"{group} does not divide the channels of {list(x.shape)}", fix=_CORRECT)
    return x.shape[1]


# ------------------------------------------------------------------ places and rows


@layer("ArgMax")
def _arg_max(node: Node, g: Operators) -> Value:
    """Return places, or places and values, of the largest; of equal ones the larger place comes first."""
    (x,) = bottoms(node, 1)
    own = params(node, "argmax_param")
    count, has_axis = own.integer("top_k", 1, least=1), own.has("axis")
    with_values = own.flag("out_max_val", False)
    axis = axis_of(own.integer("axis"), x.rank) if has_axis else 1
    lying = x if has_axis else reshape(g, x, (x.shape[0], x.size // x.shape[0])) if x.rank else x
    if not lying.rank or count > lying.shape[axis]:
        raise ModelError(f"takes the {count} largest of {list(lying.shape)}, axis {axis}", fix=_CORRECT)
    values = None
    if count == 1:
        found = g("ArgMax", [lying], axis=axis, keepdims=1, select_last_index=1)
        if with_values:
            values = g("ReduceMax", [lying, vector(g, [axis])], keepdims=1)
    else:
        ends = [vector(g, [value]) for value in (-1, -(1 << 31), axis, -1)]
        values, places = g.apply(
            "TopK", [g("Slice", [lying, *ends]), vector(g, [count])], {"axis": axis}, 2
        )  # from the end: the first of equal ones has the larger place
        found = g("Sub", [vector(g, [lying.shape[axis] - 1]), places])
    if has_axis and with_values and values is not None:
        return values
    found = cast(g, found, FLOAT32)
    if has_axis:
        return found
    if with_values and values is not None:
        found = stack(g, [found, values], 1)
    shape = (x.shape[0], 2 if with_values else 1, count)
    return reshape(g, found, (*shape, *[1] * (x.rank - 3)))


@layer("BatchReindex")
def _batch_reindex(node: Node, g: Operators) -> Value:
    x, index = bottoms(node, 2)
    if index.rank != 1 or not x.rank:
        raise ModelError(
            f"takes rows of rank {x.rank} by a bottom of rank {index.rank} instead of 1", fix=_CORRECT
        )
    return g("Gather", [x, cast(g, index, INT32)], axis=0)


@layer("Filter")
def _filter(node: Node, g: Operators) -> Value:
    raise UnsupportedOp(
        "keeps the rows that its last bottom selects when the net runs: their number is not known before, "
        "and a DLC has fixed shapes",
        fix="cut the net before it with --out_name, and select the rows in the program",
    )
