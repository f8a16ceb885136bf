"""Handlers of detectors: SSD's boxes, regions of interest and pools over them."""

from __future__ import annotations

import itertools
import math
import re
from shlex import quote

import numpy as np

from xdlc.converter.caffe.registry import Params, bottoms, layer, misfit, params
from xdlc.converter.functions.detection import (
    LOWEST,
    adaptively_kept_scores,
    kept_scores,
    padded_choice,
    suppressed,
)
from xdlc.converter.functions.elementwise import clipped, where
from xdlc.converter.functions.gathering import gather, split, stack, unstack
from xdlc.converter.functions.shapes import cast, number, permuted, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node, cut_before
from xdlc.converter.values import Value
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.ir.data import Array
from xdlc.ir.dtype import FLOAT32, INT32
from xdlc.options import spell

_MOST = 1 << 10
_OWN = "detection_output_param"
_CODES = {"CORNER": 1, "CENTER_SIZE": 2, "CORNER_SIZE": 3}
_FILES = tuple(f"{_OWN}.{name}" for name in ("save_output_param.", "save_file", "visualize"))
"""Beginnings of the parameters of files and pictures, which do not change the result."""


@layer("PriorBox")
def _prior_box(node: Node, g: Operators) -> Value:
    """Return cells' boxes and variances [1, 2, 4 n], as SSD's prior_box_layer.cpp.

    Sizes count as integers; per cell and min_size come the square of min_size, that of
    sqrt(min_size max_size), and one box per aspect ratio.
    """
    given, p = bottoms(node, 1, 2, rank=4), params(node, "prior_box_param")
    x, image, sizes = given[0], given[-1], _box_sizes(p)
    if image.rank != 4:
        raise misfit(f"the image of the layer has {image.rank} axes instead of 4")
    rows, columns = x.shape[2:]
    g.builder.check_table(rows, columns, len(sizes), 8)
    height, width = _pair(p, "img", "img_size", (image.shape[2], image.shape[3]))
    step_y, step_x = _pair(p, "step", "step", (height / rows, width / columns))
    offset = p.number("offset", 0.5)
    places = (np.arange(columns) + offset) * step_x, (np.arange(rows) + offset) * step_y
    centers = np.stack(np.meshgrid(*places), axis=-1)[:, :, None, :]
    half = np.asarray(sizes) / 2
    corners = np.concatenate([centers - half, centers + half], axis=-1) / [width, height, width, height]
    if p.flag("clip", False):
        corners = np.clip(corners, 0, 1)
    elif not p.has("clip") and (corners.min() < 0 or corners.max() > 1):
        g.context.diagnostics.notices.append(
            f"{node.own_name!r} has no clip: like SSD, xdlc does not clip its boxes to 0 ... 1; state "
            "clip, because some forks of Caffe clip"
        )
    variance = p.numbers("variance", above=0) or [0.1]
    if len(variance) not in (1, 4):
        raise misfit(f"the layer has {len(variance)} variances instead of 1 or 4")
    variances = np.broadcast_to(variance, corners.shape)
    both = np.stack([corners.reshape(-1), variances.reshape(-1)])[None].astype(np.float32)
    return g.builder.const(both)


def _box_sizes(p: Params) -> list[tuple[float, float]]:
    """Return width and height of the boxes of a cell."""
    least, most, extra = (p.numbers(name, above=0) for name in ("min_size", "max_size", "aspect_ratio"))
    if max(len(least), len(most), len(extra)) > _MOST:
        raise misfit(f"the layer has too many sizes or aspect ratios; xdlc supports at most {_MOST}")
    rises = all(small < large for small, large in zip(least, most, strict=False))
    if not least or len(most) not in (0, len(least)) or not rises:
        raise misfit(
            f"the layer has min_size {least} and max_size {most}: each max_size must exceed its min_size"
        )
    ratios, flips = [1.0], p.flag("flip", True)
    for ratio in extra:
        if all(abs(ratio - earlier) >= 1e-6 for earlier in ratios):
            ratios += [ratio, 1 / ratio] if flips else [ratio]
    boxes = []
    for small, large in itertools.zip_longest(map(int, least), map(int, most)):
        boxes.append((float(small), float(small)))
        if large is not None:
            boxes.append((math.sqrt(small * large),) * 2)
        boxes += [(small * math.sqrt(ratio), small / math.sqrt(ratio)) for ratio in ratios[1:]]
    return boxes


def _pair(p: Params, stem: str, both: str, default: tuple[float, float]) -> tuple[float, float]:
    """Return height and width of the image or steps, from 0, 1 or 2 parameters."""
    parts = (f"{stem}_h", f"{stem}_w")
    if not p.has(both, *parts):
        return default
    if p.has(both) and p.has(*parts):
        raise misfit(f"the layer has {both}, and {parts[0]} or {parts[1]}: remove one")
    height, width = (p.number(both if p.has(both) else part, above=0) for part in parts)
    return height, width


# ------------------------------------------------------------------ detections


@layer("DetectionOutput")
def _detection_output(node: Node, g: Operators) -> Value:
    """Return [1, 1, count, 7] of image, label, score, corners (SSD's detections).

    There are ``keep_top_k`` rows per image, or as many as can be; those after the last detection are 0.
    Without detections, each image has a row of its number and of -1, as in Caffe.
    """
    loc, conf, prior = bottoms(node, 3)
    p = params(node, _OWN)
    node.read.update(name for name in node.attributes if name.startswith(_FILES))
    classes = p.integer("num_classes", least=1)
    shared = p.flag("share_location", True)
    background = p.integer("background_label_id", 0)
    images = loc.shape[0] if loc.rank else 0
    rows, length = (*prior.shape, 0, 0, 0)[1:3]
    count, sets = length // 4, 1 if shared else classes
    sizes = (images * count * sets * 4, images * count * classes, 4 * count * rows)
    if not count or rows not in (1, 2) or (loc.size, conf.size, prior.size) != sizes:
        shapes = f"locations {list(loc.shape)}, scores {list(conf.shape)} and boxes {list(prior.shape)}"
        raise misfit(f"has {shapes}, which do not fit {classes} classes and share_location")
    g.builder.check_table(images, count, classes)
    labels = [label for label in range(classes) if label != background]
    most, keep = params(node, f"{_OWN}.nms_param").integer("top_k", -1), p.integer("keep_top_k", -1)
    if not labels or not most or not keep:
        raise misfit("the layer keeps no box: top_k or keep_top_k is 0, or the background is the only class")
    boxes = _decoded(p, g, reshape(g, loc, (images, count, sets, 4)), prior)
    scores = permuted(g, reshape(g, conf, (images, count, classes)), (0, 2, 1))
    scores = g("Gather", [scores, vector(g, labels)], axis=1)  # [images, labels, count]

    # best first, within each class
    most = count if most < 0 else min(most, count)
    scores, order = g.apply("TopK", [scores, [most]], {"axis": -1}, 2)
    if shared:
        boxes = gather(g, reshape(g, boxes, (images, count, 4)), order, 1, 1)
    else:
        boxes = g("Gather", [permuted(g, boxes, (0, 2, 1, 3)), vector(g, labels)], axis=1)
        boxes = gather(g, boxes, order, 2, 2)
    groups = images * len(labels)
    boxes, scores = reshape(g, boxes, (groups, most, 4)), reshape(g, scores, (groups, most))
    kept = _suppressed(node, g, boxes, scores)
    g.context.diagnostics.notices.append(
        f"{node.own_name!r} runs on the host and fills rows after the last detection with 0; keep it float "
        f"with {spell('quantize.float_ops', [node.own_name])}. For HTP, {cut_before()} "
        f"{quote(node.names[0])} {spell('out_name')} {quote(node.names[1])} {spell('out_name')} "
        f"{quote(node.names[2])}, and find the boxes in your program"
    )
    numbers = np.repeat(np.arange(images), len(labels) * most), np.tile(np.repeat(labels, most), images)
    heads = g.builder.const(np.stack(numbers, axis=1).astype(np.float32))
    columns = [heads, reshape(g, kept, (groups * most, 1)), reshape(g, boxes, (groups * most, 4))]
    table = g("Concat", columns, axis=1)
    return _rows(g, table, reshape(g, kept, (images, len(labels) * most)), keep)


def _suppressed(node: Node, g: Operators, boxes: Value, scores: Value) -> Value:
    """Return the scores [groups, count] of boxes after non-maximum suppression."""
    nms = params(node, f"{_OWN}.nms_param")
    overlap, eta = nms.number("nms_threshold", 0.3), nms.number("eta", 1.0)
    threshold = params(node, _OWN).number("confidence_threshold", LOWEST)
    if overlap < 0 or not 0 < eta <= 1:
        raise misfit(f"the layer needs nms_threshold >= 0 and 0 < eta <= 1, but has {overlap:g} and {eta:g}")
    if eta < 1 and overlap > 0.5:
        return adaptively_kept_scores(g, boxes, scores, overlap, threshold, eta)
    x1, y1, x2, y2 = unstack(g, boxes, 4, 2)  # boxes turned round have no area, and hide none
    boxes = stack(g, [x1, y1, g("Max", [x1, x2]), g("Max", [y1, y2])], 2)
    one_class = g("Unsqueeze", [scores, [1]])
    return kept_scores(g, boxes, one_class, scores.shape[1], min(overlap, 1.0), threshold)


def _decoded(p: Params, g: Operators, loc: Value, prior: Value) -> Value:
    """Return the corners [images, count, sets, 4] of boxes x1, y1, x2, y2."""
    code, rows = p.word("code_type", _CODES, "CORNER"), prior.shape[1]
    encoded = p.flag("variance_encoded_in_target", False)
    if rows == 1 and not encoded:
        raise misfit("xdlc does not support boxes without variances")
    stored = unstack(g, reshape(g, prior, (rows, loc.shape[1], 1, 4)), rows, 0)
    low, high = split(g, stored[0], [2, 2], 2)
    size = g("Sub", [high, low])
    move, grow = split(g, loc if encoded else g("Mul", [loc, stored[1]]), [2, 2], 3)
    if code == "CENTER_SIZE":
        half = number(g, loc, 0.5)
        middle = g("Add", [g("Mul", [move, size]), g("Mul", [g("Add", [low, high]), half])])
        reach = g("Mul", [g("Mul", [g("Exp", [grow]), size]), half])
        corners = [g("Sub", [middle, reach]), g("Add", [middle, reach])]
    else:
        if code == "CORNER_SIZE":
            move, grow = (g("Mul", [each, size]) for each in (move, grow))
        corners = [g("Add", [low, move]), g("Add", [high, grow])]
    boxes = g("Concat", corners, axis=3)
    return clipped(g, boxes, 0.0, 1.0) if p.flag("clip", False) else boxes


def _rows(g: Operators, table: Value, kept: Value, keep: int) -> Value:
    """Return the kept rows of a table [all, 7] by image, padded with rows of 0.

    Args:
        table: Image, label, score and corners of every box.
        kept: Scores [images, places], the lowest number where a box is dropped.
        keep: Most rows per image; -1 for all.
    """
    images, places = kept.shape
    total = images * (places if keep < 0 else keep)
    g.builder.check_table(total, 7)
    size, every = places if keep < 0 else min(keep, places), images * places
    starts = g.builder.const(np.arange(images, dtype=np.int32)[:, None] * places)
    kept, at = g.apply("TopK", [kept, [size]], {"axis": -1}, 2)
    at = g("Add", [g.builder.cast(at, INT32), starts])
    beyond, count = number(g, at, every), images * size
    at = where(g, g("Greater", [kept, LOWEST]), at, beyond)
    at, _ = g.apply("TopK", [reshape(g, at, (count,)), [count]], {"axis": 0, "largest": 0}, 2)
    rows = g("Gather", [g("Pad", [table, [0, 0, 1, 0]]), at], axis=0)
    if count < total:
        rows = g("Pad", [rows, [0, 0, total - count, 0]])
    nothing = np.zeros((total, 7), np.float32)
    nothing[:images] = -1
    nothing[:images, 0] = np.arange(images)
    first = g("Slice", [at, [0], [1]])
    rows = where(g, g("Less", [first, beyond]), rows, g.builder.const(nothing))
    return reshape(g, rows, (1, 1, total, 7))


def _regions(node: Node, g: Operators) -> tuple[Value, Value]:
    """Return features [N, C, H, W] and regions [R, 5]: image, x1, y1, x2, y2."""
    x, rois = bottoms(node, 2, rank=4)
    if not rois.rank or rois.size != 5 * rois.shape[0]:
        raise misfit(f"the regions of the layer have shape {list(rois.shape)} instead of [R, 5]")
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
        raise misfit(
            f"the layer requires {depth} x {size} x {size} channels, but its bottom is {list(x.shape)}"
        )
    image, corners = split(g, rois, [1, 4], 1)
    ends = g.builder.const(np.asarray([0, 0, 1, 1], np.float32))  # a box has its last pixel
    corners = g("Mul", [g("Add", [_rounded(g, corners), ends]), scale])
    x1, y1, x2, y2 = split(g, corners, [1] * 4, 1)
    tall, rows = _bins(g, y1, y2, size, height)
    wide, columns = _bins(g, x1, x2, size, width)
    apart = reshape(g, x, (images * depth, size, size, height, width))
    sums = g("Einsum", [apart, columns], equation="cijhw,rjw->rcijh")
    sums = g("Mul", [sums, reshape(g, rows, (count, 1, size, 1, height))])
    sums = reshape(g, g("ReduceSum", [sums, [4]], keepdims=0), (count, images, channels))
    if images > 1:
        g.builder.check_table(images)
        numbers = g.builder.const(np.arange(images, dtype=np.float32))
        own_image = cast(g, g("Equal", [numbers, image]), FLOAT32)
        sums = g("MatMul", [reshape(g, own_image, (count, 1, images)), sums])
    sums = reshape(g, sums, (count, depth, size, size))
    area = g("Mul", [reshape(g, tall, (count, 1, size, 1)), reshape(g, wide, (count, 1, 1, size))])
    return g("Div", [sums, g("Max", [area, 1])])


def _rounded(g: Operators, x: Value) -> Value:
    """Return numbers rounded as C rounds them: halves away from 0."""
    return g("Mul", [g("Sign", [x]), g("Floor", [g("Add", [g("Abs", [x]), 0.5])])])


def _bins(g: Operators, first: Value, last: Value, count: int, size: int) -> tuple[Value, Value]:
    """Return bin lengths [R, bins] of regions, and their masks [R, bins, size]."""
    g.builder.check_table(count, size)
    step = g("Max", [g("Sub", [last, first]), 0.1])
    step = g("Mul", [step, 1 / count])
    zero, top = number(g, first, 0), number(g, first, size)
    ends = []
    for shift, rounds in ((0, "Floor"), (1, "Ceil")):
        place = g.builder.const(np.arange(shift, count + shift, dtype=np.float32)[None])
        ends.append(g("Clip", [g(rounds, [g("Add", [g("Mul", [place, step]), first])]), zero, top]))
    lengths = g("Max", [g("Sub", [ends[1], ends[0]]), zero])
    at = g.builder.const(np.arange(size, dtype=np.float32))
    low, high = (g("Unsqueeze", [end, [2]]) for end in ends)
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
            fix="write param_str like 'feat_stride': 16, or replace the layer with one of type Proposal",
        )
    anchors = _anchors(g, 16.0, lists.get("ratios") or _RATIOS, lists.get("scales") or _SCALES)
    g.context.diagnostics.notices.append(
        f"{node.own_name!r} uses the settings of py-faster-rcnn: 6000 boxes, 300 after suppression at 0.7, "
        "sides of 16 pixels or more; a layer of type Proposal can state other settings"
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
        raise misfit("the layer needs a base_size, ratios and scales above 0 and at most 1000000")
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
    """Return regions [after, 5] and scores [after], padded with scores of 0.

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
        raise UnsupportedOp(f"xdlc supports proposals of 1 image, not of {images}", fix=fix)
    if not 0 < stride < 1e6 or overlap < 0 or not 0 <= least < 1e9:
        raise misfit(
            f"one of feat_stride {stride:g}, min_size {least:g} and nms_thresh {overlap:g} is not valid"
        )
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
    reach = g("Mul", [g("Mul", [g("Exp", [grow]), side]), 0.5])
    last = g("Sub", [edges, unit])
    low, high = (g("Max", [g("Min", [g(name, [center, reach]), last]), zero]) for name in ("Sub", "Add"))
    shorter_side = g("ReduceMin", [g("Add", [g("Sub", [high, low]), unit]), [1]], keepdims=0)
    is_large = g("GreaterOrEqual", [shorter_side, g("Mul", [scale, least])])
    better = where(g, is_large, better, number(g, better, LOWEST))
    regions = g("Concat", [low, high], axis=1)
    most = min(before, total) if before > 0 else total
    better, order = g.apply("TopK", [better, [most]], {"axis": 0}, 2)
    regions = g("Gather", [regions, order], axis=0)
    ends = g("Add", [regions, np.asarray([0, 0, 1, 1], np.float32)])
    chosen = suppressed(g, ends, better, after, min(overlap, 1.0), LOWEST)
    chosen, valid = padded_choice(g, chosen, after)
    kept = g("Less", [np.arange(after, dtype=np.int32), valid])
    regions = g("Pad", [g("Gather", [regions, chosen], axis=0), [0, 1, 0, 0]])
    better = g("Gather", [better, chosen], axis=0)
    g.context.diagnostics.notices.append(
        f"{node.own_name!r} runs on the host and outputs {after} regions; unused regions are 0. "
        "For HTP, cut the net around the layer"
    )
    rois = where(g, g("Unsqueeze", [kept, [1]]), regions, number(g, regions, 0))
    return [rois, where(g, kept, better, zero)][: len(node.outputs)]
