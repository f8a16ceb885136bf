"""The share of a float network's answers, 0 to 1, that another run keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Outputs = Sequence[Array]
NMS = 0.5


def sigmoid(values: Array) -> Array:
    return 1 / (1 + np.exp(-np.clip(values.astype(np.float64), -100, 100)))


def overlap(box: Array, boxes: Array) -> Array:
    """Return the IoU of a box (x0, y0, x1, y1) with each of boxes."""
    low, high = np.maximum(box[:2], boxes[:, :2]), np.minimum(box[2:4], boxes[:, 2:4])
    common = np.prod(np.clip(high - low, 0, None), axis=1)
    area = np.prod(boxes[:, 2:4] - boxes[:, :2], axis=1)
    return np.asarray(common / np.maximum(area + np.prod(box[2:4] - box[:2]) - common, 1e-9))


def suppressed(boxes: Array, scores: Array, classes: Array) -> Array:
    """Return rows (x0, y0, x1, y1, class) after non-maximum suppression."""
    kept: list[Array] = []
    for index in np.argsort(-scores)[:2000]:
        row = np.append(boxes[index], classes[index])
        same = np.array([other for other in kept if other[4] == row[4]])
        if not len(same) or overlap(row[:4], same).max() < NMS:
            kept.append(row)
    return np.array(kept).reshape(-1, 5)


def boxes(references: Sequence[Array], answers: Sequence[Array], _: Any) -> float:
    """F1 of the boxes that are kept at IoU 0.5: lost and false ones count alike."""
    kept = total = 0
    for reference, answer in zip(references, answers, strict=True):
        total += len(reference) + len(answer)
        left = answer
        for row in reference:
            fits = (
                (overlap(row[:4], left) >= 0.5) & (left[:, 4] == row[4]) if len(left) else np.zeros(0, bool)
            )
            if fits.any():
                kept += 1
                left = np.delete(left, int(np.argmax(fits)), axis=0)
    return 2 * kept / total if total else 1.0


def positives(references: Sequence[Array], answers: Sequence[Array], _: Any) -> float:
    """F1 of decisions, arrays of booleans."""
    reference, answer = (
        np.concatenate([r.ravel() for r in references]),
        np.concatenate([a.ravel() for a in answers]),
    )
    total = int(reference.sum() + answer.sum())
    return 2 * int((reference & answer).sum()) / total if total else 1.0


def masks(references: Sequence[Array], answers: Sequence[Array], _: Any) -> float:
    """Mean IoU of masks, arrays of booleans."""
    pairs = zip(references, answers, strict=True)
    return float(np.mean([(r & a).sum() / max(1, (r | a).sum()) for r, a in pairs]))


def equal(references: Sequence[Any], answers: Sequence[Any], _: Any) -> float:
    """Share of equal answers: texts, classes."""
    return float(np.mean([r == a for r, a in zip(references, answers, strict=True)]))


def within(limit: float) -> Callable[[Sequence[Any], Sequence[Any], Any], float]:
    """Return the share of points at most ``limit`` from the reference's."""

    def share(references: Sequence[Any], answers: Sequence[Any], _: Any) -> float:
        pairs = zip(references, answers, strict=True)
        return float(np.mean([np.linalg.norm(r[0] - a[0], axis=-1) <= limit for r, a in pairs]))

    return share


def neighbours(references: Sequence[Array], answers: Sequence[Array], _: Any) -> float:
    """Mean share of the three nearest samples, by cosine, that stay the nearest three."""

    def nearest(vectors: Sequence[Array]) -> Array:
        rows = np.stack([v.ravel() / max(float(np.linalg.norm(v)), 1e-9) for v in vectors])
        alike = rows @ rows.T
        np.fill_diagonal(alike, -np.inf)
        return np.asarray(np.argsort(-alike, axis=1)[:, :3])

    pairs = zip(nearest(references), nearest(answers), strict=True)
    return float(np.mean([len(set(r) & set(a)) / 3 for r, a in pairs]))


def pitch(references: Sequence[Array], answers: Sequence[Array], _: Any) -> float:
    """F1 of voiced frames (rows hertz, confidence) that are within 50 cents."""
    kept = total = 0
    for (hertz, sure), (other, also) in zip(references, answers, strict=True):
        voiced, called = sure >= 0.5, also >= 0.5
        cents = np.abs(1200 * np.log2(np.maximum(other, 1) / np.maximum(hertz, 1)))
        kept += int((voiced & called & (cents <= 50)).sum())
        total += int(voiced.sum() + called.sum())
    return 2 * kept / total if total else 1.0


def matches(references: Sequence[Any], answers: Sequence[Any], warps: Sequence[Any]) -> float:
    """Right matches between a picture and its warped copy, over the float network's.

    Answers are (points, descriptors).  Samples 2k and 2k + 1 are a pair; the warp maps 2k onto 2k + 1.
    """

    def right(pair: Sequence[Any], warp: Array) -> int:
        (points, one), (others, two) = pair
        if not len(points) or not len(others):
            return 0
        alike = one @ two.T
        best = alike.argmax(1)
        mutual = alike.argmax(0)[best] == np.arange(len(points))
        moved = np.c_[points, np.ones(len(points))] @ warp.T
        return int((mutual & (np.linalg.norm(moved[:, :2] - others[best], axis=1) <= 3)).sum())

    pairs = range(0, len(references) - 1, 2)
    before = sum(right(references[k : k + 2], warps[k]) for k in pairs)
    return min(1.0, sum(right(answers[k : k + 2], warps[k]) for k in pairs) / max(1, before))


def improvement(references: Sequence[Array], answers: Sequence[Array], scenes: Sequence[Any]) -> float:
    """Gain in SNR (dB) over the float network's; a scene is (noisy, clean) spectra."""

    def ratio(clean: Array, spectrum: Array) -> float:
        return float(10 * np.log10((np.abs(clean) ** 2).sum() / (np.abs(clean - spectrum) ** 2).sum()))

    def gain(gains: Sequence[Array]) -> float:
        rows = zip(gains, scenes, strict=True)
        return sum(ratio(clean, noisy * g) - ratio(clean, noisy) for g, (noisy, clean) in rows)

    return float(np.clip(gain(answers) / gain(references), 0, 1))
