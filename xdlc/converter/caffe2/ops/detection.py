"""Handlers of regions, boxes and keypoints of detectors."""

from __future__ import annotations

import functools
import math

import numpy as np

from xdlc.converter.caffe2.registry import (
    flag,
    integer,
    number,
    numbers,
    operator,
    planes,
    stored,
    wants,
)
from xdlc.converter.functions.gathering import gather, split, stack, unstack
from xdlc.converter.functions.reduce import reduced
from xdlc.converter.functions.shapes import cast, dims, reshape, vector
from xdlc.converter.functions.shapes import number as scalar
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node, cut_before
from xdlc.converter.session.ordering import CHANNEL_LAST
from xdlc.converter.values import Value
from xdlc.ir.dtype import FLOAT32, INT32

_CLIP = math.log(1000.0 / 16.0)
"""Greatest logarithm of a box's growth."""
_DIFFERENCES = [
    [0, 0, 0, 0, 1, 0, 0, 0, 0],
    [0, 0, 0, -0.5, 0, 0.5, 0, 0, 0],
    [0, -0.5, 0, 0, 0, 0, 0, 0.5, 0],
    [0, 0, 0, 1, -2, 1, 0, 0, 0],
    [0, 1, 0, 0, -2, 0, 0, 1, 0],
    [0.25, 0, -0.25, 0, 0, 0, -0.25, 0, 0.25],
]
"""Value and differences along x, y, x x, y y and x y by the elements of 3 x 3 neighbours."""


def _regions(node: Node, g: Operators, rois: Value, batch: int) -> tuple[Value, Value | None]:
    """Return corners [R, 4] and image [R] of regions; None for a single image."""
    if rois.rank != 2 or rois.shape[1] not in (4, 5) or (rois.shape[1] == 4 and batch > 1):
        raise node.invalid(f"regions of shape {list(rois.shape)} do not fit {batch} images")
    if rois.shape[1] == 4:
        return rois, None
    image, corners = split(g, rois, [1, 4], 1)
    return corners, cast(g, reshape(g, image, dims(rois, [0])), INT32) if batch > 1 else None


@operator("RoIAlign", "RoIPool", layout=CHANNEL_LAST)
def _regions_of_images(node: Node, g: Operators, x: Value, rois: Value) -> Value:
    """Return averages or maxima of pooled_h x pooled_w parts of each region."""
    x = planes(node, g, x)
    height, width = (integer(node, name, 1, 1) for name in ("pooled_h", "pooled_w"))
    scale = number(node, "spatial_scale", 1.0)
    if x.rank != 4 or not 0 < scale < math.inf:
        raise node.invalid(
            f"the operator needs an input of rank 4 and spatial_scale above 0, but has {x.rank} and {scale:g}"
        )
    corners, image = _regions(node, g, rois, dims(x, [0])[0])
    count = dims(rois, [0])
    g.builder.check_table(*count)
    if node.type == "RoIPool":
        if rois.shape[1] != 5:
            raise node.invalid(f"the regions have shape {list(rois.shape)} instead of [R, 5]")
        regions = g("MaxRoiPool", [x, rois], pooled_shape=[height, width], spatial_scale=scale)
        return stored(node, g, regions)
    regions = g(
        "RoiAlign",
        [x, corners, g.builder.const(np.zeros(count, np.int64)) if image is None else image],
        output_height=height,
        output_width=width,
        sampling_ratio=max(0, integer(node, "sampling_ratio", -1)),
        spatial_scale=scale,
        coordinate_transformation_mode="half_pixel" if flag(node, "aligned") else "output_half_pixel",
    )
    return stored(node, g, regions)


@operator(
    "BBoxTransform", ignores=("angle_bound_hi", "angle_bound_lo", "angle_bound_on", "clip_angle_thresh")
)
def _bbox_transform(node: Node, g: Operators, rois: Value, deltas: Value, info: Value) -> list[Value]:
    """Return boxes [R, 4 K] moved and clipped, and the region count per image [N].

    As Caffe2's bbox_transform_op.cc and generate_proposals_op_util_boxes.h compute it.
    """
    if flag(node, "rotated"):
        raise node.problem("xdlc does not support rotated boxes", cut_before())
    (batch,), (count,) = dims(info, [0]), dims(rois, [0])
    if info.rank != 2 or info.shape[1] != 3 or deltas.rank != 2 or deltas.shape[0] != count:
        raise node.invalid(
            f"deltas {list(deltas.shape)}, images {list(info.shape)} and {count} regions do not fit together"
        )
    corners, image = _regions(node, g, rois, batch)
    own = info if image is None else g("Gather", [info, image], axis=0)  # [1 or R, 3]
    height, width, scale = split(g, own, [1, 1, 1], 1)
    limits = [g("Div", [width, scale]), g("Div", [height, scale])]
    made = _moved(node, g, g("Div", [corners, scale]), deltas, limits)
    if flag(node, "apply_scale", True):
        made = g("Mul", [made, scale])
    return [made, _counts(g, image, batch, count)] if wants(node, 1) else [made]


def _moved(node: Node, g: Operators, corners: Value, deltas: Value, limits: list[Value]) -> Value:
    """Return corners moved by weighted deltas [R, 4 K], clipped to their images."""
    weights = numbers(node, "weights") or [1.0] * 4
    if len(weights) != 4 or 0 in weights or deltas.shape[1] % 4:
        raise node.invalid(f"deltas {list(deltas.shape)} do not fit weights {weights}")
    legacy, corrects = flag(node, "legacy_plus_one", True), flag(node, "correct_transform_coords", True)
    extra, beyond = scalar(g, corners, legacy), scalar(g, corners, legacy and corrects)
    half = scalar(g, corners, 0.5)
    count, classes = dims(corners)[0], deltas.shape[1] // 4
    ends = split(g, corners, [1] * 4, 1)
    apart = unstack(g, reshape(g, deltas, (count, classes, 4)), 4, 2)
    moves = [g("Div", [part, weight]) for part, weight in zip(apart, weights, strict=True)]
    firsts: list[Value] = []
    lasts: list[Value] = []
    for start, end, move, growth, limit in zip(ends, ends[2:], moves, moves[2:], limits, strict=False):
        size = g("Add", [g("Sub", [end, start]), extra])
        center = g("Add", [g("Mul", [move, size]), g("Add", [start, g("Mul", [size, half])])])
        reach = g("Mul", [g("Exp", [g("Min", [growth, _CLIP])]), g("Mul", [size, half])])
        most = g("Sub", [g("Floor", [g("Add", [limit, half])]), extra])
        first, last = g("Sub", [center, reach]), g("Sub", [g("Add", [center, reach]), beyond])
        for corner, found in ((first, firsts), (last, lasts)):
            found.append(g("Max", [g("Min", [corner, most]), 0]))
    return reshape(g, stack(g, [*firsts, *lasts], 2), (count, 4 * classes))


def _counts(g: Operators, image: Value | None, batch: int, count: int) -> Value:
    """Return the number of regions of each image, float32."""
    g.builder.check_table(batch)
    if image is None:
        return g.builder.const(np.full(batch, count, np.float32))
    belongs = g("Equal", [reshape(g, image, (count, 1)), np.arange(batch, dtype=np.int32)])
    return reduced(g, "Sum", cast(g, belongs, FLOAT32), [0], keep=False)


@operator("HeatmapMaxKeypoint")
def _heatmap_max_keypoint(node: Node, g: Operators, maps: Value, boxes: Value) -> Value:
    """Return [N, 4, K] of x, y, score, probability at maxima of maps [N, K, S, S].

    A place is refined by the quadratic form through its 3 x 3 neighbours, mirrored at the borders, as
    Caffe2's heatmap_max_keypoint_op.cc computes it.
    """
    shape = dims(maps)
    if len(shape) != 4 or shape[2] != shape[3] or shape[2] < 2 or boxes.rank != 2 or boxes.shape[1] < 4:
        raise node.invalid(f"maps {list(shape)} do not fit boxes {list(boxes.shape)}")
    if boxes.shape[0] != shape[0]:
        raise node.invalid(f"{shape[0]} sets of maps need as many boxes, not {boxes.shape[0]}")
    (count, points, size), rows = shape[:3], shape[0] * shape[1]
    flat = reshape(g, maps, (rows, size * size))
    place = cast(g, g("ArgMax", [flat], axis=1, keepdims=1), INT32)
    row = g("Div", [place, size])
    column = g("Sub", [place, g("Mul", [row, size])])
    planes = g("Pad", [reshape(g, maps, (rows, 1, size, size)), [0, 0, 1, 1] * 2], mode="reflect")
    table = np.asarray(_DIFFERENCES, np.float32).reshape(6, 1, 3, 3)
    forms = reshape(g, g("Conv", [planes, table]), (rows, 6, size * size))
    *moves, score = _refined(g, reshape(g, gather(g, forms, place, 2, batch_dims=1), (rows, 6)))
    corners = split(g, g("Slice", [boxes, *(vector(g, [each]) for each in (0, 4, 1))]), [1] * 4, 1)
    keypoints = []
    for start, end, at, move in zip(corners, corners[2:], (column, row), moves, strict=False):
        reach = g("Max", [g("Sub", [end, start]), 1])
        inside = g("Add", [g("Add", [cast(g, at, FLOAT32), move]), 0.5])
        inside = reshape(g, g("Mul", [inside, 1 / size]), (count, points))
        keypoints.append(g("Add", [start, g("Mul", [inside, reach])]))
    if flag(node, "should_output_softmax"):
        chance = g("ReduceMax", [g("Softmax", [flat], axis=1), [1]])
    else:
        chance = g("Mul", [score, 0])
    return stack(g, [*keypoints, *(reshape(g, value, (count, points)) for value in (score, chance))], 1)


def _refined(g: Operators, forms: Value) -> list[Value]:
    """Return offsets along x and y, at most 1.5, to the extreme, and its value."""

    def mul(*values: Value) -> Value:
        return functools.reduce(lambda x, y: g("Mul", [x, y]), values)

    center, x, y, xx, yy, xy = split(g, forms, [1] * 6, 1)
    area = g("Sub", [mul(xx, yy), mul(xy, xy)])
    is_flat = g("Less", [g("Abs", [area]), 1e-4])
    divisor = g("Where", [is_flat, 1, area])
    moves = [
        g("Div", [g("Sub", [mul(xy, other), mul(bend, own)]), divisor])
        for bend, own, other in ((yy, x, y), (xx, y, x))
    ]
    limit, none, half = (scalar(g, area, value) for value in (1.5, 0, 0.5))
    share = g("Div", [limit, g("Max", [*(g("Abs", [move]) for move in moves), limit])])
    u, v = (g("Where", [is_flat, none, mul(move, share)]) for move in moves)
    linear, bent = g("Add", [mul(x, u), mul(y, v)]), g("Add", [mul(xx, u, u), mul(yy, v, v)])
    return [u, v, g("Sum", [center, linear, mul(xy, u, v), mul(half, bent)])]
