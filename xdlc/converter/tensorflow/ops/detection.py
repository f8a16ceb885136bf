"""Handlers of suppressed boxes."""

from __future__ import annotations

import numpy as np

from xdlc.converter.functions import detection
from xdlc.converter.functions.elementwise import where
from xdlc.converter.functions.shapes import (
    known,
    number,
    positions,
    vector,
)
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.registry import handler
from xdlc.converter.values import Value

_ALL = float(np.finfo(np.float32).min)


def _number(value: Value) -> float:
    return float(known(value, "a limit").reshape(-1)[0])


@handler("NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3", ignores=("T_threshold",))
def _suppressed(node: Node, g: Operators, boxes: Value, scores: Value, most: Value, *limits: Value) -> Value:
    stated = node.attr("iou_threshold", 0.5) if node.type == "NonMaxSuppression" else _number(limits[0])
    least = _number(limits[1]) if len(limits) > 1 else _ALL
    return detection.suppressed(g, boxes, scores, int(_number(most)), stated, least)


@handler("NonMaxSuppressionV4", "NonMaxSuppressionV5", ignores=("T_threshold",))
def _counted(
    node: Node, g: Operators, boxes: Value, scores: Value, most: Value, *limits: Value
) -> list[Value]:
    count, pads = int(_number(most)), bool(node.attr("pad_to_max_output_size", False))
    overlap, threshold, *sigma = (_number(limit) for limit in limits)
    if any(width > 0 for width in sigma) and count:
        results = detection.softly_suppressed(g, boxes, scores, count, overlap, threshold, *sigma)
        if pads:
            return list(results)
        first, last = vector(g, [0]), g("Unsqueeze", [positions(g, results[2]), [0]])
        return [*(g("Slice", [part, first, last, first]) for part in results[:2]), results[2]]
    chosen = detection.suppressed(g, boxes, scores, count, overlap, threshold)
    padded, valid = detection.padded_choice(g, chosen, count)
    kept = padded if pads else chosen
    if not sigma:
        return [kept, valid]
    best = g("Gather", [scores, kept], axis=0)
    if pads:
        is_valid = g("Less", [np.arange(count, dtype=np.int32), valid])
        best = where(g, is_valid, best, number(g, scores, 0))
    return [kept, best, valid]


@handler("CombinedNonMaxSuppression")
def _combined(node: Node, g: Operators, boxes: Value, scores: Value, *limits: Value) -> list[Value]:
    most_per_class, most, overlap, threshold = (_number(limit) for limit in limits)
    per_class, total = int(most_per_class), int(most)
    if node.attr("pad_per_class", False):
        total = min(total, per_class * scores.shape[-1])
    clips = bool(node.attr("clip_boxes", True))
    return detection.combined(g, boxes, scores, per_class, total, overlap, threshold, clips=clips)
