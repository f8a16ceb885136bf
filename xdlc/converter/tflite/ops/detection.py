"""Handler of detections."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xdlc.converter.functions import detection
from xdlc.converter.functions.gathering import gather, split
from xdlc.converter.functions.shapes import cast, dims, positions, reshape, vector
from xdlc.converter.functions.terms import Term
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tflite.registry import handler
from xdlc.converter.values import Value
from xdlc.ir.dtype import FLOAT32


@handler(
    "TFLite_Detection_PostProcess",
    ignores=("_output_quantized", "_support_output_type_float_in_quantized_op"),
)
def _detections(node: Node, g: Operators, codes: Value, scores: Value, anchors: Value) -> Sequence[Value]:
    most, classes = int(node.attr("max_detections", 0)), int(node.attr("num_classes", 0))
    shape = dims(scores)
    if len(shape) != 3 or dims(codes) != (1, shape[1], 4) or dims(anchors) != (shape[1], 4) or shape[0] != 1:
        raise node.invalid(
            f"boxes {list(codes.shape)}, scores {list(shape)}, anchors {list(anchors.shape)} do not match"
        )
    first = shape[2] - classes  # 1 if the background is a class
    if first not in (0, 1) or classes < 1 or not 0 < most <= 1 << 16:
        raise node.invalid(f"{shape[2]} scores do not fit {classes} classes and {most} detections")
    if first:
        limits = [vector(g, [number]) for number in (1, shape[2], 2)]
        scores = g("Slice", [scores, *limits])
    overlap = float(node.attr("nms_iou_threshold", 0.0))
    # The canonical operator drops scores that equal the threshold.
    threshold = float(np.nextafter(np.float32(node.attr("nms_score_threshold", 0.0)), np.float32(-np.inf)))
    boxes = _corners(node, g, codes, anchors)
    per_anchor, per_class = (
        int(node.attr(name, default))
        for name, default in (("max_classes_per_detection", 0), ("detections_per_class", 100))
    )
    if node.attr("use_regular_nms", False):
        table = reshape(g, boxes, (1, shape[1], 1, 4))
        found, best, kinds, count = detection.combined(
            g, table, scores, per_class, most, overlap, threshold, clips=False
        )
        return [found, kinds, best, cast(g, count, FLOAT32)]
    if not 0 < per_anchor <= 64:
        raise node.invalid(f"{per_anchor} classes per detection are not valid")
    return _fast(g, boxes, reshape(g, scores, (shape[1], classes)), most, per_anchor, overlap, threshold)


def _corners(node: Node, g: Operators, codes: Value, anchors: Value) -> Value:
    """Return boxes [n, 4] y1, x1, y2, x2 of codes y, x, h, w relative to anchors."""
    scales = [float(node.attr(f"{axis}_scale", 1.0)) for axis in "yxhw"]
    if 0 in scales:
        raise node.invalid("a scale of the boxes must not be 0")
    count = codes.shape[1]
    codes = g("Div", [reshape(g, codes, (count, 4)), np.asarray(scales, np.float32)])
    (places, sizes), (at, of) = (
        [Term(g, part) for part in split(g, table, [2, 2], 1)] for table in (codes, anchors)
    )
    centre, half = places * of + at, sizes("Exp") * of * 0.5
    return g("Concat", [(centre - half).value, (centre + half).value], axis=1)


def _fast(
    g: Operators, boxes: Value, scores: Value, most: int, per_anchor: int, overlap: float, threshold: float
) -> list[Value]:
    """Return detections with suppression across classes.

    Each has the ``per_anchor`` best classes of its anchor.
    """
    kept = min(per_anchor, scores.shape[1])
    best, kinds = g.apply("TopK", [scores, [kept]], {"axis": 1}, 2)
    leading = g("Slice", [best, [0], [1], [1]])
    chosen = detection.suppressed(g, boxes, reshape(g, leading, (scores.shape[0],)), most, overlap, threshold)
    chosen, count = detection.padded_choice(g, chosen, most)
    is_found = g("Less", [np.arange(most, dtype=np.int32), count])
    is_found = g("Unsqueeze", [is_found, [1]])

    def of_chosen(table: Value) -> Value:
        rows = gather(g, table, positions(g, chosen), 0)
        return g("Where", [is_found, rows, 0])

    def spread(table: Value) -> Value:
        pads = vector(g, [0, 0, 0, per_anchor - kept])
        found = g("Pad", [table, pads]) if per_anchor > kept else table
        return reshape(g, found, (1, most * per_anchor))

    corners = g("Tile", [of_chosen(boxes), [1, kept]])
    if per_anchor > kept:
        corners = g("Pad", [corners, [0, 0, 0, 4 * (per_anchor - kept)]])
    return [
        reshape(g, corners, (1, most * per_anchor, 4)),
        spread(of_chosen(cast(g, kinds, FLOAT32))),
        spread(of_chosen(best)),
        reshape(g, cast(g, count, FLOAT32), (1,)),
    ]
