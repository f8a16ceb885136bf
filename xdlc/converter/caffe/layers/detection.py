"""Handlers of SSD's boxes and detections."""

from __future__ import annotations

import itertools
import math
from shlex import quote

import numpy as np

from xdlc.converter.caffe.params import Params, bottoms, misfit, params
from xdlc.converter.caffe.registry import layer
from xdlc.converter.nhwc.detection import LOWEST, adaptively_kept_scores, kept_scores
from xdlc.converter.nhwc.elementwise import clipped, where
from xdlc.converter.nhwc.gathering import gather, split, stack, unstack
from xdlc.converter.nhwc.shapes import number, permuted, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node, cut_before
from xdlc.converter.values import Value
from xdlc.ir.dtype import INT32
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
        raise misfit(f"has an image of {image.rank} axes instead of 4")
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
            f"{node.own_name!r} states no clip: its boxes are not clipped to 0 ... 1, as in SSD; "
            "some forks of Caffe clip them: state clip to be sure"
        )
    variance = p.numbers("variance", above=0) or [0.1]
    if len(variance) not in (1, 4):
        raise misfit(f"states {len(variance)} variances instead of one or four")
    variances = np.broadcast_to(variance, corners.shape)
    both = np.stack([corners.reshape(-1), variances.reshape(-1)])[None].astype(np.float32)
    return g.builder.const(both)


def _box_sizes(p: Params) -> list[tuple[float, float]]:
    """Return width and height of the boxes of a cell."""
    least, most, extra = (p.numbers(name, above=0) for name in ("min_size", "max_size", "aspect_ratio"))
    if max(len(least), len(most), len(extra)) > _MOST:
        raise misfit(f"states more than {_MOST} sizes or aspect ratios")
    rises = all(small < large for small, large in zip(least, most, strict=False))
    if not least or len(most) not in (0, len(least)) or not rises:
        raise misfit(f"states min_size {least} and max_size {most}: each max_size must exceed its min_size")
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
    """Return height and width of the image or steps, from one number, two or none."""
    parts = (f"{stem}_h", f"{stem}_w")
    if not p.has(both, *parts):
        return default
    if p.has(both) and p.has(*parts):
        raise misfit(f"states {both}, and {parts[0]} or {parts[1]}: remove one")
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
        raise misfit("keeps no box: top_k or keep_top_k is 0, or there is only the background")
    boxes = _decoded(p, g, reshape(g, loc, (images, count, sets, 4)), prior)
    scores = permuted(g, reshape(g, conf, (images, count, classes)), (0, 2, 1))
    scores = g("Gather", [scores, vector(g, labels)], axis=1)  # [images, labels, count]

    # best first, within each class
    most = count if most < 0 else min(most, count)
    scores, order = g.apply("TopK", [scores, vector(g, [most])], {"axis": -1}, 2)
    if shared:
        boxes = gather(g, reshape(g, boxes, (images, count, 4)), order, 1, 1)
    else:
        boxes = g("Gather", [permuted(g, boxes, (0, 2, 1, 3)), vector(g, labels)], axis=1)
        boxes = gather(g, boxes, order, 2, 2)
    groups = images * len(labels)
    boxes, scores = reshape(g, boxes, (groups, most, 4)), reshape(g, scores, (groups, most))
    kept = _suppressed(node, g, boxes, scores)
    g.context.diagnostics.notices.append(
        f"{node.own_name!r} runs on the host, as Caffe computes it, and outputs rows of 0 after the last "
        f"detection; quantized, it stays float with {spell('quantize.float_ops', [node.own_name])}; for HTP "
        f"{cut_before()} {quote(node.names[0])} {spell('out_name')} {quote(node.names[1])} and find the "
        f"boxes in the program, with the priors, which {spell('out_name')} {quote(node.names[2])} outputs"
    )
    numbers = np.repeat(np.arange(images), len(labels) * most), np.tile(np.repeat(labels, most), images)
    heads = g.builder.const(np.stack(numbers, axis=1).astype(np.float32))
    columns = [heads, reshape(g, kept, (groups * most, 1)), reshape(g, boxes, (groups * most, 4))]
    table = g("Concat", columns, axis=1)
    return _rows(g, table, reshape(g, kept, (images, len(labels) * most)), keep)


def _suppressed(node: Node, g: Operators, boxes: Value, scores: Value) -> Value:
    """Return scores [groups, count] of boxes [groups, count, 4] not hidden by others."""
    nms = params(node, f"{_OWN}.nms_param")
    overlap, eta = nms.number("nms_threshold", 0.3), nms.number("eta", 1.0)
    threshold = params(node, _OWN).number("confidence_threshold", LOWEST)
    if overlap < 0 or not 0 < eta <= 1:
        raise misfit(f"states an nms_threshold of {overlap:g} and an eta of {eta:g}")
    if eta < 1 and overlap > 0.5:
        return adaptively_kept_scores(g, boxes, scores, overlap, threshold, eta)
    x1, y1, x2, y2 = unstack(g, boxes, 4, 2)  # boxes turned round have no area, and hide none
    boxes = stack(g, [x1, y1, g("Max", [x1, x2]), g("Max", [y1, y2])], 2)
    one_class = g("Unsqueeze", [scores, vector(g, [1])])
    return kept_scores(g, boxes, one_class, scores.shape[1], min(overlap, 1.0), threshold)


def _decoded(p: Params, g: Operators, loc: Value, prior: Value) -> Value:
    """Return the corners [images, count, sets, 4] of boxes x1, y1, x2, y2."""
    code, rows = p.word("code_type", _CODES, "CORNER"), prior.shape[1]
    encoded = p.flag("variance_encoded_in_target", False)
    if rows == 1 and not encoded:
        raise misfit("boxes without variances are not supported")
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
    kept, at = g.apply("TopK", [kept, vector(g, [size])], {"axis": -1}, 2)
    at = g("Add", [g.builder.cast(at, INT32), starts])
    beyond, count = number(g, at, every), images * size
    at = where(g, g("Greater", [kept, number(g, kept, LOWEST)]), at, beyond)
    at, _ = g.apply("TopK", [reshape(g, at, (count,)), vector(g, [count])], {"axis": 0, "largest": 0}, 2)
    rows = g("Gather", [g("Pad", [table, vector(g, [0, 0, 1, 0])]), at], axis=0)
    if count < total:
        rows = g("Pad", [rows, vector(g, [0, 0, total - count, 0])])
    nothing = np.zeros((total, 7), np.float32)
    nothing[:images] = -1
    nothing[:images, 0] = np.arange(images)
    first = g("Slice", [at, vector(g, [0]), vector(g, [1])])
    rows = where(g, g("Less", [first, beyond]), rows, g.builder.const(nothing))
    return reshape(g, rows, (1, 1, total, 7))
