"""Handlers of Faster R-CNN and R-FCN: regions of interest and pools over them."""

from __future__ import annotations

import re

import numpy as np

from xdlc.converter.caffe.params import bottoms, misfit, params
from xdlc.converter.caffe.registry import layer
from xdlc.converter.nhwc.detection import LOWEST, padded_choice, suppressed
from xdlc.converter.nhwc.elementwise import where
from xdlc.converter.nhwc.gathering import split
from xdlc.converter.nhwc.shapes import cast, number, permuted, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.ir.data import Array
from xdlc.ir.dtype import FLOAT32
from xdlc.options import spell


def _regions(node: Node, g: Operators) -> tuple[Value, Value]:
    """Return features [N, C, H, W] and regions [R, 5]: image, x1, y1, x2, y2."""
    x, rois = bottoms(node, 2, rank=4)
    if not rois.rank or rois.size != 5 * rois.shape[0]:
        raise misfit(f"has regions {list(rois.shape)} instead of [R, 5]")
    return x, reshape(g, rois, (rois.shape[0], 5))


@layer("ROIPooling")
def _roi_pooling(node: Node, g: Operators) -> Value:
    (x, rois), p = _regions(node, g), params(node, "roi_pooling_param")
    size = [p.integer(name, least=1) for name in ("pooled_h", "pooled_w")]
    scale = p.number("spatial_scale", 1.0, above=0)
    return g("MaxRoiPool", [x, rois], pooled_shape=size, spatial_scale=scale)


@layer("PSROIPooling")
def _position_sensitive(node: Node, g: Operators) -> Value:
    """Return means [R, output_dim, k, k]: bin (i, j) reads channel (c k + i) k + j.

    The sums over rows and columns of a bin are products with 0 and 1, as psroi_pooling_layer.cpp has bins
    from round(x1) to round(x2) + 1, both times the scale.
    """
    (x, rois), p = _regions(node, g), params(node, "psroi_pooling_param")
    depth, size = p.integer("output_dim", least=1), p.integer("group_size", least=1)
    scale = p.number("spatial_scale", above=0)
    images, channels, height, width = x.shape
    count = rois.shape[0]
    if channels != depth * size * size:
        raise misfit(f"requires {depth} x {size} x {size} channels, but the bottom is {list(x.shape)}")
    image, corners = split(g, rois, [1, 4], 1)
    ends = g.builder.const(np.asarray([0, 0, 1, 1], np.float32))  # a box has its last pixel
    corners = g("Mul", [g("Add", [_rounded(g, corners), ends]), number(g, corners, scale)])
    x1, y1, x2, y2 = split(g, corners, [1] * 4, 1)
    tall, rows = _bins(g, y1, y2, size, height)
    wide, columns = _bins(g, x1, x2, size, width)
    apart = reshape(g, x, (images * depth, size, size, height, width))
    sums = g("Einsum", [apart, columns], equation="cijhw,rjw->rcijh")
    sums = g("Mul", [sums, reshape(g, rows, (count, 1, size, 1, height))])
    sums = reshape(g, g("ReduceSum", [sums, vector(g, [4])], keepdims=0), (count, images, channels))
    if images > 1:
        g.builder.check_table(images)
        numbers = g.builder.const(np.arange(images, dtype=np.float32))
        own_image = cast(g, g("Equal", [numbers, image]), FLOAT32)
        sums = g("MatMul", [reshape(g, own_image, (count, 1, images)), sums])
    sums = reshape(g, sums, (count, depth, size, size))
    area = g("Mul", [reshape(g, tall, (count, 1, size, 1)), reshape(g, wide, (count, 1, 1, size))])
    return g("Div", [sums, g("Max", [area, number(g, area, 1)])])


def _rounded(g: Operators, x: Value) -> Value:
    """Return numbers rounded as C rounds them: halves away from 0."""
    return g("Mul", [g("Sign", [x]), g("Floor", [g("Add", [g("Abs", [x]), number(g, x, 0.5)])])])


def _bins(g: Operators, first: Value, last: Value, count: int, size: int) -> tuple[Value, Value]:
    """Return bin lengths [R, bins] of regions, and their masks [R, bins, size]."""
    g.builder.check_table(count, size)
    step = g("Max", [g("Sub", [last, first]), number(g, first, 0.1)])
    step = g("Mul", [step, number(g, first, 1 / count)])
    zero, top = number(g, first, 0), number(g, first, size)
    ends = []
    for shift, rounds in ((0, "Floor"), (1, "Ceil")):
        place = g.builder.const(np.arange(shift, count + shift, dtype=np.float32)[None])
        ends.append(g("Clip", [g(rounds, [g("Add", [g("Mul", [place, step]), first])]), zero, top]))
    lengths = g("Max", [g("Sub", [ends[1], ends[0]]), zero])
    at = g.builder.const(np.arange(size, dtype=np.float32))
    low, high = (g("Unsqueeze", [end, vector(g, [2])]) for end in ends)
    inside = g("And", [g("GreaterOrEqual", [at, low]), g("Less", [at, high])])
    return lengths, cast(g, inside, FLOAT32)


# ------------------------------------------------------------------ proposals

_KEY = r"""['"]?(feat_stride|scales|ratios)['"]?\s*:\s*(?:!!python/tuple)?"""
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_RATIOS, _SCALES = [0.5, 1.0, 2.0], [8.0, 16.0, 32.0]


@layer("rpn.proposal_layer.ProposalLayer")
def _python_proposal(node: Node, g: Operators) -> list[Value]:
    """Apply py-faster-rcnn's layer with the numbers of its configuration at test time."""
    bottoms(node, 3)
    text = params(node, "python_param").text("param_str", "")
    first, *parts = re.split(_KEY, text)
    pairs = zip(parts[::2], parts[1::2], strict=True)
    lists = {key: [float(number) for number in re.findall(_NUMBER, part)] for key, part in pairs}
    others = re.sub(_NUMBER, "", first + "".join(parts[1::2]))
    if others.strip(" \t\n,{}[]()") or 2 * len(lists) < len(parts) or len(lists.get("feat_stride", ())) != 1:
        raise ModelError(
            f"states a param_str that is not of 'feat_stride', 'scales' and 'ratios': {text[:40]!r}",
            fix="write it as 'feat_stride': 16, or replace the layer with one of type Proposal",
        )
    anchors = _anchors(g, 16.0, lists.get("ratios") or _RATIOS, lists.get("scales") or _SCALES)
    g.context.diagnostics.notices.append(
        f"{node.own_name!r} uses the numbers of py-faster-rcnn's configuration: the best 6000 boxes, 300 of "
        "them after suppression over 0.7, of 16 pixels or more; a Proposal layer states others"
    )
    rois, *scores = _proposals(node, g, anchors, lists["feat_stride"][0], 16.0, 6000, 300, 0.7)
    return [rois, *(reshape(g, score, (score.size, 1)) for score in scores)]


@layer("Proposal")
def _proposal(node: Node, g: Operators) -> list[Value]:
    p = params(node, "proposal_param")
    ratios, scales = p.numbers("ratio") or _RATIOS, p.numbers("scale") or _SCALES
    anchors = _anchors(g, p.number("base_size", 16.0), ratios, scales)
    before, after = p.integer("pre_nms_topn", 6000), p.integer("post_nms_topn", 300, least=1)
    fields = {"feat_stride": 16.0, "min_size": 16.0, "nms_thresh": 0.7}
    stride, least, overlap = (p.number(name, default) for name, default in fields.items())
    return _proposals(node, g, anchors, stride, least, before, after, overlap)


def _anchors(g: Operators, base: float, ratios: list[float], scales: list[float]) -> Array:
    """Return anchors [ratios * scales, 4], as py-faster-rcnn's generate_anchors.py."""
    if not 0 < min(base, *ratios, *scales) <= max(base, *ratios, *scales) <= 1e6:
        raise misfit("states a base_size, ratio or scale that is not above 0, or above 1000000")
    g.builder.check_table(len(ratios), len(scales), 4)
    widths = np.round(np.sqrt(base * base / np.asarray(ratios)))
    sides = np.stack([widths, np.round(widths * ratios)], axis=-1)
    sides = (sides[:, None, :] * np.asarray(scales)[None, :, None]).reshape(-1, 2)
    center = (base - 1) / 2
    return np.concatenate([center - (sides - 1) / 2, center + (sides - 1) / 2], axis=1)


def _proposals(
    node: Node,
    g: Operators,
    anchors: Array,
    stride: float,
    least: float,
    before: int,
    after: int,
    overlap: float,
) -> list[Value]:
    """Return regions [after, 5] and their scores [after], those after the last one 0.

    Boxes count their last pixel: a side is x2 - x1 + 1.  Source: proposal_layer.py of py-faster-rcnn.
    """
    scores, moves, info = bottoms(node, 3, rank=4)
    images, channels, rows, columns = scores.shape
    count = len(anchors)
    if channels != 2 * count or moves.shape != (images, 4 * count, rows, columns) or info.size < 3 * images:
        shapes = f"scores {list(scores.shape)}, moves {list(moves.shape)} and sizes {list(info.shape)}"
        raise misfit(f"has {shapes}, which do not fit {count} anchors (ratios x scales)")
    if images != 1:
        fix = f"convert with {spell('batch', 1)}"
        raise UnsupportedOp(f"proposals of {images} images are not supported", fix=fix)
    if not 0 < stride < 1e6 or overlap < 0 or not 0 <= least < 1e9:
        raise misfit(f"states feat_stride {stride:g}, min_size {least:g} and nms_thresh {overlap:g}")
    total = rows * columns * count
    g.builder.check_table(total + after, 8)
    grid = np.stack(np.meshgrid(np.arange(columns), np.arange(rows)), axis=-1) * stride
    boxes = (anchors + np.tile(grid, 2)[:, :, None, :]).reshape(total, 4)
    better = split(g, scores, [count, count], 1)[1]
    better = reshape(g, permuted(g, better, (0, 2, 3, 1)), (total,))
    moves = reshape(g, permuted(g, moves, (0, 2, 3, 1)), (total, 4))
    info = reshape(g, info, (info.size,))
    edges, scale = (g("Gather", [info, vector(g, places)], axis=0) for places in ([1, 0], [2]))
    unit, zero = number(g, better, 1), number(g, better, 0)
    sides = boxes[:, 2:] - boxes[:, :2] + 1
    center, side = (g.builder.const(each.astype(np.float32)) for each in (boxes[:, :2] + sides / 2, sides))
    move, grow = split(g, moves, [2, 2], 1)
    center = g("Add", [g("Mul", [move, side]), center])
    reach = g("Mul", [g("Mul", [g("Exp", [grow]), side]), number(g, grow, 0.5)])
    last = g("Sub", [edges, unit])
    low, high = (g("Max", [g("Min", [g(name, [center, reach]), last]), zero]) for name in ("Sub", "Add"))
    shorter_side = g("ReduceMin", [g("Add", [g("Sub", [high, low]), unit]), vector(g, [1])], keepdims=0)
    is_large = g("GreaterOrEqual", [shorter_side, g("Mul", [scale, number(g, scale, least)])])
    better = where(g, is_large, better, number(g, better, LOWEST))
    regions = g("Concat", [low, high], axis=1)
    most = min(before, total) if before > 0 else total
    better, order = g.apply("TopK", [better, vector(g, [most])], {"axis": 0}, 2)
    regions = g("Gather", [regions, order], axis=0)
    ends = g("Add", [regions, g.builder.const(np.asarray([0, 0, 1, 1], np.float32))])
    chosen = suppressed(g, ends, better, after, min(overlap, 1.0), LOWEST)
    chosen, valid = padded_choice(g, chosen, after)
    kept = g("Less", [g.builder.const(np.arange(after, dtype=np.int32)), valid])
    regions = g("Pad", [g("Gather", [regions, chosen], axis=0), vector(g, [0, 1, 0, 0])])
    better = g("Gather", [better, chosen], axis=0)
    g.context.diagnostics.notices.append(
        f"{node.own_name!r} runs on the host and outputs {after} regions, those after the last one 0; for "
        "HTP cut the net around it"
    )
    rois = where(g, g("Unsqueeze", [kept, vector(g, [1])]), regions, number(g, regions, 0))
    return [rois, where(g, kept, better, zero)][: len(node.outputs)]
