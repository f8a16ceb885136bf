"""Suppression of boxes that overlap better ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from xdlc.converter.functions.elementwise import clipped, where
from xdlc.converter.functions.gathering import gather, split, unstack
from xdlc.converter.functions.recurrence import scanned
from xdlc.converter.functions.scatter import full, scatter_nd
from xdlc.converter.functions.shapes import cast, dims, number, permuted, positions, reshape, vector
from xdlc.converter.functions.terms import Term
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import cut_before
from xdlc.converter.values import Value, check_table
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.ir.dtype import FLOAT32, INT32

_MOST = 128  # steps of soft suppression, each of which is about 30 operations
LOWEST = float(np.finfo(np.float32).min)
"""Score of a box that is dropped."""


def suppressed(
    g: Operators, boxes: Value, scores: Value, count: int, overlap: float, threshold: float
) -> Value:
    """Return indices of the best boxes, int32, best first; their number is dynamic.

    Args:
        boxes: [n, 4] y1, x1, y2, x2; any two opposite corners.
        scores: [n].
        count: Most boxes.
        overlap: Intersection over union above which the worse of two boxes is dropped; below 0, any.
        threshold: Boxes of this score or less are dropped.
    """
    count, overlap = (min(count, 1), 0.0) if overlap < 0 else (count, overlap)
    batch, single = g("Unsqueeze", [boxes, [0]]), g("Unsqueeze", [scores, [0, 1]])
    limits = [g.builder.const(np.asarray(limit, np.float32)) for limit in (overlap, threshold)]
    chosen = g("NonMaxSuppression", [batch, single, [count], *limits])
    column = g.builder.const(np.asarray(2, np.int64))
    return cast(g, g("Gather", [chosen, column], axis=1), INT32)


def padded_choice(g: Operators, chosen: Value, count: int) -> tuple[Value, Value]:
    """Return indices padded with 0 to ``count``, and their number, both int32."""
    check_table(count)
    zeros = g.builder.const(np.zeros(count, np.int32))
    joined = g("Concat", [chosen, zeros], axis=0)
    cut = g("Slice", [joined, [0], [count], [0]])
    number_of = g("Squeeze", [cast(g, g("Shape", [chosen]), INT32), [0]])
    return g("Reshape", [cut, [count]]), number_of


def softly_suppressed(
    g: Operators, boxes: Value, scores: Value, count: int, overlap: float, threshold: float, sigma: float
) -> tuple[Value, Value, Value]:
    """Return the best boxes by soft suppression of overlaps, unrolled.

    A chosen box multiplies other scores by exp(-iou² / (2 sigma)), and by 0 above ``overlap`` (N. Bodla
    et al., Soft-NMS, 2017).

    Args:
        boxes: [n, 4] y1, x1, y2, x2; any two opposite corners.
        scores: [n].
        count: Most boxes.
        overlap: Intersection over union above which boxes are dropped.
        threshold: Boxes of this score or less are dropped.
        sigma: Width of the decay; 0 for none.

    Returns:
        Indices [count], int32, and scores [count], 0 after the last chosen one; their number, int32.

    Raises:
        UnsupportedOp: If there are too many steps.
    """
    if count > _MOST:
        raise UnsupportedOp(
            f"xdlc supports at most {_MOST} steps of soft suppression, not {count}",
            fix=f"set soft_nms_sigma to 0, or {cut_before()}",
        )
    (total,) = dims(scores)
    check_table(total)
    corners = unstack(g, boxes, 4, 1)
    sides = [Term(g, g(type, corners[start::2])) for type in ("Min", "Max") for start in (0, 1)]
    area = _area(sides)
    places = g.builder.const(np.arange(total, dtype=np.int64))
    picks, values, flags = [], [], []
    rest = Term(g, scores)
    for _ in range(count):
        best = rest("ArgMax", axis=0, keepdims=1)
        value = rest("ReduceMax", [0], keepdims=1)
        is_kept = value > threshold
        picks.append(is_kept.where(best, 0).value)
        values.append(is_kept.where(value, 0).value)
        flags.append(is_kept.to(INT32).value)
        own = [side("Gather", best, axis=0) for side in (*sides, area)]
        iou = _overlaps(own[:4], own[4], sides, area)
        if sigma > 0:
            rest = rest * (iou * iou * (-0.5 / sigma))("Exp")
        rest = ((iou > overlap) | Term(g, places).same(best)).where(LOWEST, rest)
    indices, chosen, kept = (
        parts[0] if count == 1 else g("Concat", parts, axis=0) for parts in (picks, values, flags)
    )
    return cast(g, indices, INT32), chosen, g("ReduceSum", [kept, [0]], keepdims=0)


def _area(sides: Sequence[Term]) -> Term:
    """Return the areas of boxes of top, left, bottom and right sides."""
    top, left, bottom, right = sides
    return (bottom - top) * (right - left)


def _overlaps(box: Sequence[Term], own: Term, others: Sequence[Term], areas: Term) -> Term:
    """Return the intersection over union of a box and others.

    Args:
        box: Its top, left, bottom and right side.
        own: Its area.
        others: The sides of the others.
        areas: Their areas.
    """
    height, width = (
        (box[axis + 2].least(others[axis + 2]) - box[axis].most(others[axis])).most(0) for axis in (0, 1)
    )
    shared = height * width
    return shared / (own + areas - shared).most(1e-30)


def kept_scores(
    g: Operators, boxes: Value, scores: Value, count: int, overlap: float, threshold: float
) -> Value:
    """Return scores with the lowest number for the boxes that are dropped.

    Args:
        boxes: [sets, n, 4]; any two opposite corners.
        scores: [sets, classes, n]; each class is suppressed on its own.
        count: Most boxes of a class.
        overlap: Intersection over union above which the worse of two boxes is dropped.
        threshold: Boxes of this score or less are dropped.
    """
    limits = [g.builder.const(np.asarray(limit, np.float32)) for limit in (overlap, threshold)]
    chosen = g("NonMaxSuppression", [boxes, scores, [count], *limits])
    base = full(g, scores.shape, LOWEST, FLOAT32)
    return scatter_nd(g, base, chosen, g("GatherND", [scores, chosen]))


def adaptively_kept_scores(
    g: Operators, boxes: Value, scores: Value, overlap: float, threshold: float, eta: float
) -> Value:
    """Return scores with the lowest number for the boxes that are dropped, box by box.

    The overlap that is allowed is multiplied by ``eta`` after each kept box while it is above 0.5, as SSD's
    bbox_util.cpp does.

    Args:
        boxes: [sets, n, 4] x1, y1, x2, y2, best first.
        scores: [sets, n].
        overlap: Intersection over union above which the worse of two boxes is dropped.
        threshold: Boxes of this score or less are dropped.
        eta: Factor of ``overlap``.
    """
    sets, total = dims(scores)
    check_table(sets, total)
    names = ("top", "left", "bottom", "right")
    x1, y1, x2, y2 = unstack(g, boxes, 4, 2)
    shared = dict(zip(names, (y1, x1, y2, x2), strict=True))
    shared["area"] = _area([Term(g, shared[name]) for name in names]).value
    shared["places"] = g.builder.const(np.arange(total, dtype=np.int64)[None])
    rows = g("Concat", [boxes, g("Unsqueeze", [scores, [2]])], axis=2)

    def step(row: Value, states: Sequence[Value], at: Callable[[str], Value | None]) -> list[Value]:
        def shared_term(name: str) -> Term:
            value = at(name)
            assert value is not None  # each is one of ``shared``
            return Term(g, value)

        kept, bar, place = (Term(g, state) for state in states)
        left, top, right, bottom, score = (Term(g, part) for part in split(g, row, [1] * 5, 1))
        box, others = [top, left, bottom, right], list(map(shared_term, names))
        iou = _overlaps(box, _area(box), others, shared_term("area"))
        hit = ((iou > bar).to(FLOAT32) * kept)("ReduceMax", [1], keepdims=1)
        is_good = (hit < 0.5) & (score > threshold)
        is_here = shared_term("places").same(place) & is_good
        bar = (is_good & (bar > 0.5)).where(bar * eta, bar)
        results = [kept + is_here.to(FLOAT32), bar, place + 1, score]
        return [result.value for result in results]

    states = [np.zeros((sets, total), np.float32), np.full((sets, 1), overlap, np.float32)]
    start = [g.builder.const(each) for each in (*states, np.zeros((1, 1), np.int64))]
    _, kept, _, _ = scanned(g, permuted(g, rows, (1, 0, 2)), start, step, shared, rows=1)
    return where(g, g("Greater", [kept, 0.5]), scores, number(g, scores, LOWEST))


def combined(
    g: Operators,
    boxes: Value,
    scores: Value,
    per_class: int,
    total: int,
    overlap: float,
    threshold: float,
    *,
    clips: bool,
) -> list[Value]:
    """Return the best boxes of each image over all classes, suppressed per class.

    Args:
        boxes: [images, n, 1 or classes, 4] y1, x1, y2, x2.
        scores: [images, n, classes].
        per_class: Most boxes of a class.
        total: Boxes of the result.
        overlap: Intersection over union above which the worse of two boxes is dropped.
        threshold: Boxes of this score or less are dropped.
        clips: Whether boxes are cut to 0 ... 1.

    Returns:
        Boxes [images, total, 4], scores [images, total], classes [images, total], float32, all 0 after the
        last one, and their number [images], int32.
    """
    images, count, classes = dims(scores)
    shape = dims(boxes)
    if len(shape) != 4 or shape[:2] != (images, count) or shape[2] not in (1, classes) or shape[3] != 4:
        raise ModelError(
            f"boxes {list(shape)} do not fit scores of shape {[images, count, classes]}",
            fix="correct the model",
        )
    own = shape[2] > 1
    by_class = permuted(g, scores, (0, 2, 1))  # [images, classes, n]
    if own:
        lone = reshape(g, permuted(g, boxes, (0, 2, 1, 3)), (images * classes, count, 4))
        ranked = reshape(g, by_class, (images * classes, 1, count))
    else:
        lone, ranked = reshape(g, boxes, (images, count, 4)), by_class
    kept = kept_scores(g, lone, ranked, per_class, overlap, threshold)
    kept = reshape(g, kept, (images, classes * count))
    size = min(total, classes * count)
    values, places = g.apply("TopK", [kept, [size]], {"axis": -1}, 2)
    is_valid = g("Greater", [values, LOWEST / 2])
    classes_of = g("Div", [places, count])
    rows = g("Mod", [places, count])
    if own:
        rows = g("Add", [g("Mul", [classes_of, count]), rows])
    table = reshape(g, lone, (images, lone.shape[0] * count // images, 4))
    picked = gather(g, table, positions(g, rows), 1, 1)
    picked = clipped(g, picked, 0.0, 1.0) if clips else picked
    zero = number(g, values, 0)
    results = [
        where(g, g("Unsqueeze", [is_valid, [2]]), picked, zero),
        where(g, is_valid, values, zero),
        where(g, is_valid, cast(g, classes_of, FLOAT32), zero),
    ]
    if size < total:
        results = [_extended(g, value, total - size) for value in results]
    return [*results, g("ReduceSum", [cast(g, is_valid, INT32), [1]], keepdims=0)]


def _extended(g: Operators, x: Value, more: int) -> Value:
    pads: Sequence[int] = [*[0] * x.rank, *(more if axis == 1 else 0 for axis in range(x.rank))]
    return g("Pad", [x, vector(g, pads)])
