"""Handlers of suppressed boxes."""

from __future__ import annotations

import numpy as np

from xdlc.converter.nhwc import detection
from xdlc.converter.nhwc.elementwise import where
from xdlc.converter.nhwc.shapes import (
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


@handler("NonMaxSuppressionV4", ignores=("T_threshold",))
def _suppressed_4(
    node: Node, g: Operators, boxes: Value, scores: Value, most: Value, overlap: Value, least: Value
) -> list[Value]:
    count = int(_number(most))
    chosen = detection.suppressed(g, boxes, scores, count, _number(overlap), _number(least))
    padded, valid = detection.padded_choice(g, chosen, count)
    return [padded if node.attr("pad_to_max_output_size", False) else chosen, valid]


@handler("NonMaxSuppressionV5", ignores=("T_threshold",))
def _suppressed_5(
    node: Node, g: Operators, boxes: Value, scores: Value, most: Value, *limits: Value
) -> list[Value]:
    count = int(_number(most))
    overlap, threshold, sigma = (_number(limit) for limit in limits)
    pads = bool(node.attr("pad_to_max_output_size", False))
    if sigma > 0:
        results = detection.softly_suppressed(g, boxes, scores, count, overlap, threshold, sigma)
        if pads:
            return list(results)
        first, last = vector(g, [0]), g("Unsqueeze", [positions(g, results[2]), vector(g, [0])])
        return [*(g("Slice", [each, first, last, first]) for each in results[:2]), results[2]]
    chosen = detection.suppressed(g, boxes, scores, count, overlap, threshold)
    padded, valid = detection.padded_choice(g, chosen, count)
    if not pads:
        return [chosen, g("Gather", [scores, chosen], axis=0), valid]
    is_valid = g("Less", [g.builder.const(np.arange(count, dtype=np.int32)), valid])
    found = where(g, is_valid, g("Gather", [scores, padded], axis=0), number(g, scores, 0))
    return [padded, found, valid]


@handler("CombinedNonMaxSuppression")
def _combined(node: Node, g: Operators, boxes: Value, scores: Value, *limits: Value) -> list[Value]:
    most_per_class, most, overlap, threshold = (_number(limit) for limit in limits)
    per_class, total = int(most_per_class), int(most)
    if node.attr("pad_per_class", False):
        total = min(total, per_class * scores.shape[-1])
    clips = bool(node.attr("clip_boxes", True))
    return detection.combined(g, boxes, scores, per_class, total, overlap, threshold, clips=clips)
