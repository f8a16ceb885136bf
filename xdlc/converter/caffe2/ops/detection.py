"""Handlers of regions and boxes of detectors."""

from __future__ import annotations

import math

import numpy as np

from xdlc.converter.caffe2.ops._args import flag, inputs, integer, number, numbers, planes, stored, wants
from xdlc.converter.caffe2.registry import operator
from xdlc.converter.nhwc.gathering import split, stack, unstack
from xdlc.converter.nhwc.shapes import cast, dims, reshape, vector
from xdlc.converter.nhwc.shapes import number as scalar
from xdlc.converter.operators.applying import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import CHANNEL_LAST
from xdlc.converter.values import Value
from xdlc.ir.dtype import FLOAT32, INT32

_CLIP = math.log(1000.0 / 16.0)
"""Greatest logarithm of a box's growth."""


def _regions(node: Node, g: Operators, rois: Value, images: int) -> tuple[Value, Value | None]:
    """Return the corners [R, 4] of regions, and the image [R] of each; None if there is one image only.

    Raises:
        ModelError: If the regions have another shape, or name no image of several.
    """
    if rois.rank != 2 or rois.shape[1] not in (4, 5) or (rois.shape[1] == 4 and images > 1):
        raise node.invalid(f"regions {list(rois.shape)} of {images} images")
    if rois.shape[1] == 4:
        return rois, None
    image, corners = split(g, rois, [1, 4], 1)
    return corners, cast(g, reshape(g, image, dims(rois, [0])), INT32) if images > 1 else None


@operator("RoIAlign", "RoIPool", layout=CHANNEL_LAST)
def _regions_of_images(node: Node, g: Operators) -> Value:
    """Return means of samples, or greatest elements, of pooled_h x pooled_w parts of regions."""
    x, rois = inputs(node, 2)
    x = planes(node, g, x)
    if x.rank != 4:
        raise node.invalid(f"an input of rank {x.rank} instead of 4")
    size = [integer(node, name, 1, 1) for name in ("pooled_h", "pooled_w")]
    scale = number(node, "spatial_scale", 1.0)
    if not 0 < scale < math.inf:
        raise node.invalid(f"spatial_scale is {scale:g}")
    corners, image = _regions(node, g, rois, dims(x, [0])[0])
    count = dims(rois, [0])
    g.builder.check_table(*count)
    if node.type == "RoIPool":
        if rois.shape[1] != 5:
            raise node.invalid(f"regions {list(rois.shape)} instead of [R, 5]")
        return stored(node, g, g("MaxRoiPool", [x, rois], pooled_shape=size, spatial_scale=scale))
    image = g.builder.const(np.zeros(count, np.int64)) if image is None else image
    mode = "half_pixel" if flag(node, "aligned") else "output_half_pixel"
    made = g(
        "RoiAlign",
        [x, corners, image],
        output_height=size[0],
        output_width=size[1],
        sampling_ratio=max(0, integer(node, "sampling_ratio", -1)),
        spatial_scale=scale,
        coordinate_transformation_mode=mode,
    )
    return stored(node, g, made)


@operator(
    "BBoxTransform", ignores=("angle_bound_hi", "angle_bound_lo", "angle_bound_on", "clip_angle_thresh")
)
def _bbox_transform(node: Node, g: Operators) -> list[Value]:
    """Return boxes [R, 4 K] moved by deltas and cut at the image, and the regions of each image [N].

    As Caffe2's bbox_transform_op.cc and generate_proposals_op_util_boxes.h compute it.
    """
    rois, deltas, info = inputs(node, 3)
    if flag(node, "rotated"):
        raise node.problem("rotated boxes", "cut the net before it with --out_name")
    weights = numbers(node, "weights") or [1.0] * 4
    (images,), (count,) = dims(info, [0]), dims(rois, [0])
    if info.rank != 2 or info.shape[1] != 3 or deltas.rank != 2 or deltas.shape[0] != count:
        raise node.invalid(f"deltas {list(deltas.shape)} and images {list(info.shape)} of {count} regions")
    if len(weights) != 4 or 0 in weights or deltas.shape[1] % 4:
        raise node.invalid(f"deltas {list(deltas.shape)} with weights {weights}")
    corners, image = _regions(node, g, rois, images)
    own = info if image is None else g("Gather", [info, image], axis=0)  # [1 or R, 3]
    height, width, scale = split(g, own, [1, 1, 1], 1)
    made = _moved(
        node,
        g,
        g("Div", [corners, scale]),
        deltas,
        weights,
        [g("Div", [width, scale]), g("Div", [height, scale])],
    )
    if flag(node, "apply_scale", True):
        made = g("Mul", [made, scale])
    return [made, _counts(g, image, images, count)] if wants(node, 1) else [made]


def _moved(
    node: Node, g: Operators, corners: Value, deltas: Value, weights: list[float], limits: list[Value]
) -> Value:
    """Return corners moved by deltas [R, 4 K] over weights, cut at the width and height of their images."""
    legacy = flag(node, "legacy_plus_one", True)
    extra = scalar(g, corners, float(legacy))
    beyond = scalar(g, corners, float(legacy and flag(node, "correct_transform_coords", True)))
    half = scalar(g, corners, 0.5)
    count, classes = dims(corners)[0], deltas.shape[1] // 4
    starts, ends = split(g, corners, [2, 2], 1)
    apart = unstack(g, reshape(g, deltas, (count, classes, 4)), 4, 2)
    moves = [g("Div", [part, scalar(g, part, weight)]) for part, weight in zip(apart, weights, strict=True)]
    found: list[list[Value]] = [[], []]
    for axis, (start, end) in enumerate(
        zip(split(g, starts, [1, 1], 1), split(g, ends, [1, 1], 1), strict=True)
    ):
        size = g("Add", [g("Sub", [end, start]), extra])
        center = g("Add", [start, g("Mul", [size, half])])
        growth = g("Exp", [g("Min", [moves[axis + 2], scalar(g, deltas, _CLIP)])])
        middle, reach = g("Add", [g("Mul", [moves[axis], size]), center]), g("Mul", [growth, size])
        most = g("Sub", [g("Floor", [g("Add", [limits[axis], half])]), extra])
        first = g("Sub", [middle, g("Mul", [reach, half])])
        last = g("Sub", [g("Add", [middle, g("Mul", [reach, half])]), beyond])
        for place, corner in enumerate((first, last)):
            found[place].append(g("Max", [g("Min", [corner, most]), scalar(g, deltas, 0)]))
    return reshape(g, stack(g, [*found[0], *found[1]], 2), (count, 4 * classes))


def _counts(g: Operators, image: Value | None, images: int, count: int) -> Value:
    """Return the number of regions of each image, float32."""
    g.builder.check_table(images)
    if image is None:
        return g.builder.const(np.full(images, count, np.float32))
    belongs = g("Equal", [reshape(g, image, (count, 1)), g.builder.const(np.arange(images, dtype=np.int32))])
    return g("ReduceSum", [cast(g, belongs, FLOAT32), vector(g, [0])], keepdims=0)


@operator("HeatmapMaxKeypoint")
def _heatmap_max_keypoint(node: Node, g: Operators) -> Value:
    """Return [N, 4, K] of x, y, score and probability: the greatest elements of maps [N, K, S, S] in boxes.

    A place is refined by the quadratic form through its 3 x 3 neighbours, mirrored at the borders, as
    Caffe2's heatmap_max_keypoint_op.cc computes it.
    """
    maps, boxes = inputs(node, 2)
    shape = dims(maps)
    if len(shape) != 4 or shape[2] != shape[3] or shape[2] < 2 or boxes.rank != 2 or boxes.shape[1] < 4:
        raise node.invalid(f"maps {list(shape)} and boxes {list(boxes.shape)}")
    if boxes.shape[0] != shape[0]:
        raise node.invalid(f"{boxes.shape[0]} boxes for {shape[0]} sets of maps")
    count, points, size = shape[:3]
    flat = reshape(g, maps, (count * points, size * size))
    place = cast(g, g("ArgMax", [flat], axis=1, keepdims=1), INT32)
    row = g("Div", [place, scalar(g, place, size)])
    column = g("Sub", [place, g("Mul", [row, scalar(g, row, size)])])
    rows, columns = (g("Concat", _neighbours(g, at, size), axis=1) for at in (row, column))
    lines = g("Mul", [g("Unsqueeze", [rows, vector(g, [2])]), scalar(g, rows, size)])
    places = g("Add", [lines, g("Unsqueeze", [columns, vector(g, [1])])])
    places = reshape(g, places, (count * points, 9))
    near = split(g, g("GatherElements", [flat, places], axis=1), [1] * 9, 1)
    *moves, score = _refined(g, near)
    found = []
    for axis, (at, move) in enumerate(zip((column, row), moves, strict=True)):
        start, end = (
            g("Slice", [boxes, *(vector(g, [each]) for each in (first, first + 1, 1))])
            for first in (axis, axis + 2)
        )
        reach = g("Max", [g("Sub", [end, start]), scalar(g, boxes, 1)])
        inside = g("Add", [g("Add", [cast(g, at, FLOAT32), move]), scalar(g, move, 0.5)])
        inside = reshape(g, g("Mul", [inside, scalar(g, inside, 1 / size)]), (count, points))
        found.append(g("Add", [start, g("Mul", [inside, reach])]))
    if flag(node, "should_output_softmax"):
        chance = g("ReduceMax", [g("Softmax", [flat], axis=1), vector(g, [1])])
    else:
        chance = g("Mul", [score, scalar(g, score, 0)])
    return stack(g, [*found, *(reshape(g, value, (count, points)) for value in (score, chance))], 1)


def _neighbours(g: Operators, at: Value, size: int) -> list[Value]:
    """Return the places before, at and after places of an axis, mirrored at its ends."""
    before = g("Abs", [g("Sub", [at, scalar(g, at, 1)])])
    after = g("Sub", [scalar(g, at, size - 1), g("Abs", [g("Sub", [scalar(g, at, size - 2), at])])])
    return [before, at, after]


def _refined(g: Operators, near: list[Value]) -> list[Value]:
    """Return the moves along x and y, at most 1.5, to the extreme of a quadratic form, and its value."""

    def weighted(*parts: tuple[float, Value]) -> Value:
        terms = [g("Mul", [value, scalar(g, value, factor)]) for factor, value in parts]
        return g("Sum", terms)

    def product(*values: Value) -> Value:
        made = values[0]
        for value in values[1:]:
            made = g("Mul", [made, value])
        return made

    center = near[4]
    slope_x, slope_y = weighted((0.5, near[3]), (-0.5, near[5])), weighted((0.5, near[1]), (-0.5, near[7]))
    bend_x = weighted((1, near[3]), (-2, center), (1, near[5]))
    bend_y = weighted((1, near[1]), (-2, center), (1, near[7]))
    twist = weighted((0.25, near[8]), (-0.25, near[6]), (-0.25, near[2]), (0.25, near[0]))
    area = g("Sub", [product(bend_x, bend_y), product(twist, twist)])
    is_flat = g("Less", [g("Abs", [area]), scalar(g, area, 1e-4)])
    divisor = g("Where", [is_flat, scalar(g, area, 1), area])
    moves = [
        g("Div", [g("Sub", [product(bend, own), product(twist, other)]), divisor])
        for bend, own, other in ((bend_y, slope_x, slope_y), (bend_x, slope_y, slope_x))
    ]
    widest = g("Max", [*(g("Abs", [move]) for move in moves), scalar(g, area, 1.5)])
    share = g("Div", [scalar(g, area, 1.5), widest])
    x, y = (g("Where", [is_flat, scalar(g, area, 0), product(move, share)]) for move in moves)
    score = weighted(
        *((1, center), (-1, product(slope_x, x)), (-1, product(slope_y, y)), (1, product(twist, x, y))),
        *((0.5, product(bend_x, x, x)), (0.5, product(bend_y, y, y))),
    )
    return [x, y, score]
