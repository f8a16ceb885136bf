"""Handlers of non-maximum suppression."""

from __future__ import annotations

import numpy as np

from xdlc.converter.nhwc import detection
from xdlc.converter.nhwc.elementwise import where
from xdlc.converter.nhwc.shapes import known, number, positions, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.ops._forms import real_input, real_inputs
from xdlc.converter.tensorflow.registry import handler
from xdlc.converter.values import Value

_ALL = float(np.finfo(np.float32).min)


def _number(node: Node, index: int, default: float) -> float:
    if node.input(index) is None:
        return default
    return float(known(real_input(node, index), f"input {index}").reshape(-1)[0])


@handler("NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3", ignores=("T_threshold",))
def _suppressed(node: Node, g: Operators) -> Value:
    boxes, scores = real_inputs(node)[:2]
    overlap = node.attr("iou_threshold", 0.5) if node.type == "NonMaxSuppression" else _number(node, 3, 0.5)
    return detection.suppressed(g, boxes, scores, int(_number(node, 2, 0)), overlap, _number(node, 4, _ALL))


@handler("NonMaxSuppressionV4", ignores=("T_threshold",))
def _suppressed_4(node: Node, g: Operators) -> list[Value]:
    boxes, scores = real_inputs(node)[:2]
    count = int(_number(node, 2, 0))
    chosen = detection.suppressed(g, boxes, scores, count, _number(node, 3, 0.5), _number(node, 4, _ALL))
    padded, valid = detection.padded_choice(g, chosen, count)
    return [padded if node.attr("pad_to_max_output_size", False) else chosen, valid]


@handler("NonMaxSuppressionV5", ignores=("T_threshold",))
def _suppressed_5(node: Node, g: Operators) -> list[Value]:
    boxes, scores = real_inputs(node)[:2]
    count, sigma = int(_number(node, 2, 0)), _number(node, 5, 0.0)
    overlap, threshold = _number(node, 3, 0.5), _number(node, 4, _ALL)
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
def _combined(node: Node, g: Operators) -> list[Value]:
    boxes, scores = real_inputs(node)[:2]
    per_class, total = int(_number(node, 2, 0)), int(_number(node, 3, 0))
    if node.attr("pad_per_class", False):
        total = min(total, per_class * scores.shape[-1])
    overlap, threshold = _number(node, 4, 0.5), _number(node, 5, 0.0)
    clips = bool(node.attr("clip_boxes", True))
    return detection.combined(g, boxes, scores, per_class, total, overlap, threshold, clips=clips)
