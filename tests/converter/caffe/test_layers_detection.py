"""Boxes, detections and regions, box by box against formulas in numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.converter.caffe import nets
from xdlc.errors import XdlcError

RANDOM = np.random.default_rng(17)
LOWEST = -3e38


def overlap(a: np.ndarray, b: np.ndarray, last: float = 0.0) -> float:
    """Return the intersection over union; ``last`` pixels are added to sides."""
    if (a[2:] < a[:2]).any() or (b[2:] < b[:2]).any():
        return 0.0
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]) + last
    if min(sides) <= 0:
        return 0.0
    areas = [np.prod(box[2:] - box[:2] + last) for box in (a, b)]
    return float(np.prod(sides) / (sum(areas) - np.prod(sides)))


def suppressed(
    boxes: np.ndarray, order: list[int], bar: float, eta: float = 1.0, last: float = 0.0
) -> list[int]:
    kept: list[int] = []
    for index in order:
        if all(overlap(boxes[index], boxes[other], last) <= bar for other in kept):
            kept.append(index)
            if eta < 1 and bar > 0.5:
                bar *= eta
    return kept


def detections(
    loc: np.ndarray,
    conf: np.ndarray,
    prior: np.ndarray,
    classes: int,
    code: str,
    *,
    shared: bool = True,
    background: int = 0,
    encoded: bool = False,
    top: int = -1,
    keep: int = -1,
    bar: float = 0.3,
    eta: float = 1.0,
    least: float = LOWEST,
) -> np.ndarray:
    """Return the rows of SSD's DetectionOutput."""
    images, count, detected = len(loc), prior.shape[2] // 4, []
    loc = loc.reshape(images, count, 1 if shared else classes, 4)
    conf, (prior, factors) = conf.reshape(images, count, classes), prior.reshape(2, count, 4)
    size = prior[:, 2:] - prior[:, :2]
    for image in range(images):
        rows = []
        for label in (label for label in range(classes) if label != background):
            move = loc[image, :, 0 if shared else label] * (1 if encoded else factors)
            if code == "CENTER_SIZE":
                middle = move[:, :2] * size + (prior[:, :2] + prior[:, 2:]) / 2
                reach = np.exp(move[:, 2:]) * size / 2
                boxes = np.hstack([middle - reach, middle + reach])
            else:
                boxes = prior + move * (np.tile(size, 2) if code == "CORNER_SIZE" else 1)
            scores = conf[image, :, label]
            order = [int(at) for at in np.argsort(-scores, kind="stable") if scores[at] > least]
            kept = suppressed(boxes, order if top < 0 else order[:top], bar, eta)
            rows += [[image, label, scores[at], *boxes[at]] for at in kept]
        best = sorted(range(len(rows)), key=lambda at: -rows[at][2])[: keep if keep >= 0 else None]
        detected += [rows[at] for at in sorted(best)]
    return np.asarray(detected or [[image, *[-1] * 6] for image in range(images)])


CASES = {
    "corner": ("CORNER", {}),
    "corner size": ("CORNER_SIZE", {"shared": False, "background": -1}),
    "center": ("CENTER_SIZE", {"encoded": True, "top": 5, "bar": 0.45, "least": 0.2}),
    "best of all": ("CENTER_SIZE", {"shared": False, "keep": 4, "background": 1}),
    "adaptive": ("CORNER", {"eta": 0.7, "bar": 0.75, "keep": 30}),
    "nothing": ("CENTER_SIZE", {"least": 2.0, "keep": 3}),
}
FIELDS = {
    "shared": "share_location",
    "background": "background_label_id",
    "encoded": "variance_encoded_in_target",
    "keep": "keep_top_k",
    "least": "confidence_threshold",
}


@pytest.mark.parametrize("case", CASES)
def test_detection_output(case: str, tmp_path: Path) -> None:
    code, options = CASES[case]
    images, count, classes = 2, 7, 3
    sets = 1 if options.get("shared", True) else classes
    low = RANDOM.uniform(0, 0.5, (count, 2))
    boxes = np.hstack([low, low + RANDOM.uniform(0.2, 0.5, (count, 2))])
    prior = np.stack([boxes, RANDOM.uniform(0.1, 0.9, (count, 4))])
    inputs = {
        "loc": RANDOM.normal(0, 0.4, (images, count * sets * 4)).astype(np.float32),
        "conf": RANDOM.uniform(0, 1, (images, count * classes)).astype(np.float32),
        "prior": prior.reshape(1, 2, -1).astype(np.float32),
    }
    text = "".join(nets.data(*array.shape, name=name) for name, array in inputs.items())
    nms = " ".join(
        f"{field}: {options[name]}"
        for name, field in (("top", "top_k"), ("bar", "nms_threshold"), ("eta", "eta"))
        if name in options
    )
    fields = " ".join(f"{FIELDS[name]}: {value}" for name, value in options.items() if name in FIELDS)
    own = f"num_classes: {classes} code_type: {code} {fields} nms_param {{ {nms} }}"
    text += nets.layer("DetectionOutput", f"detection_output_param {{ {own} }}", " ".join(inputs))
    got = nets.run(tmp_path, text, inputs)["y"]
    expected = detections(*inputs.values(), classes, code, **options)
    most = (classes - (options.get("background", 0) >= 0)) * min(count, options.get("top", count))
    assert got.shape == (1, 1, images * options.get("keep", most), 7)
    rows = got.reshape(-1, 7)
    np.testing.assert_allclose(rows[: len(expected)], expected, rtol=1e-5, atol=1e-5)
    assert not rows[len(expected) :].any()


def test_prior_box(tmp_path: Path) -> None:
    own = "min_size: 16.7 min_size: 30 max_size: 40 max_size: 50 aspect_ratio: 2 aspect_ratio: 2"
    own += " step: 12 img_size: 50"
    text = nets.data(1, 2, 2, 3) + nets.layer("PriorBox", f"prior_box_param {{ {own} }}", "data data", "p")
    text += nets.data(1, 2, 192, name="x") + nets.layer("Concat", "", "x p")
    got = nets.run(tmp_path, text, {"data": np.zeros((1, 2, 2, 3)), "x": np.zeros((1, 2, 192))})["y"]
    got = got[0, 2:]
    expected = []
    for y in (6, 18):
        for x in (6, 18, 30):
            for small, large in ((16, 40), (30, 50)):
                side = np.sqrt(small * large)
                long, short = small * np.sqrt(2), small / np.sqrt(2)
                sides = ((small, small), (side, side), (long, short), (short, long))
                for width, height in sides:
                    expected += [x - width / 2, y - height / 2, x + width / 2, y + height / 2]
    np.testing.assert_allclose(got[0], np.asarray(expected) / 50, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got[1], 0.1, rtol=1e-6)


def proposals(
    scores: np.ndarray, moves: np.ndarray, info: np.ndarray, least: float, after: int, bar: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return regions and scores of py-faster-rcnn's proposal layer with two anchors."""
    count, rows, columns = scores.shape[1] // 2, *scores.shape[2:]
    candidates = []
    for y in range(rows):
        for x in range(columns):
            for anchor, side in enumerate((32, 64)):
                dx, dy, dw, dh = moves[0, 4 * anchor : 4 * anchor + 4, y, x]
                center = np.array([x * 16 + 8, y * 16 + 8]) + np.array([dx, dy]) * side
                reach = np.exp([dw, dh]) * side / 2
                box = np.clip(np.hstack([center - reach, center + reach]), 0, np.tile(info[0, [1, 0]], 2) - 1)
                if min(box[2:] - box[:2] + 1) >= least * info[0, 2]:
                    candidates.append([scores[0, count + anchor, y, x], *box])
    table = np.asarray(sorted(candidates, key=lambda row: -row[0]))
    kept = suppressed(table[:, 1:], list(range(len(table))), bar, last=1.0)[:after]
    out, best = np.zeros((after, 5)), np.zeros(after)
    out[: len(kept), 1:], best[: len(kept)] = table[kept, 1:], table[kept, 0]
    return out, best


@pytest.mark.parametrize("python", [False, True])
def test_proposal(python: bool, tmp_path: Path) -> None:
    inputs = {
        "scores": RANDOM.uniform(0, 1, (1, 4, 3, 4)).astype(np.float32),
        "moves": RANDOM.normal(0, 0.3, (1, 8, 3, 4)).astype(np.float32),
        "info": np.array([[60, 90, 1.5]], np.float32),
    }
    text = "".join(nets.data(*array.shape, name=name) for name, array in inputs.items())
    if python:
        own = "'feat_stride': 16\\n'scales': !!python/tuple [2, 4]\\n'ratios': [1]"
        param = f'python_param {{ module: "rpn.proposal_layer" layer: "ProposalLayer" param_str: "{own}" }}'
        least, after, bar = 16, 300, 0.7
    else:
        param = "proposal_param { ratio: 1 scale: 2 scale: 4 min_size: 20 post_nms_topn: 9 nms_thresh: 0.5 }"
        least, after, bar = 20, 9, 0.5
    text += nets.layer("Python" if python else "Proposal", param, " ".join(inputs), "rois best")
    got = nets.run(tmp_path, text, inputs)
    rois, best = proposals(*inputs.values(), least, after, bar)
    np.testing.assert_allclose(got["rois"], rois, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(got["best"], best[:, None] if python else best, rtol=1e-5)


@pytest.mark.parametrize(
    "text",
    ["feat_stride 16", "'feat_stride': x", "'feat_stride': !!python/object:os.system 1", "'a': 1", "[" * 50],
)
def test_param_str_is_numbers(text: str, tmp_path: Path) -> None:
    param = f'python_param {{ module: "rpn.proposal_layer" layer: "ProposalLayer" param_str: "{text}" }}'
    net = nets.data(1, 18, 3, 4, name="a") + nets.data(1, 36, 3, 4, name="b") + nets.data(1, 3, name="c")
    with pytest.raises(XdlcError, match="param_str"):
        nets.convert(tmp_path, net + nets.layer("Python", param, "a b c"))


def test_position_sensitive_regions(tmp_path: Path) -> None:
    x = RANDOM.normal(0, 1, (2, 18, 7, 6)).astype(np.float32)
    regions = [[1, 3.5, 2.5, 40, 33], [0, 0, 0, 60, 60], [1, 90, 90, 95, 99], [0, 10, 12, 10, 12]]
    rois = np.array(regions, np.float32)
    text = nets.data(*x.shape) + nets.data(4, 5, name="rois")
    own = "psroi_pooling_param { spatial_scale: 0.125 output_dim: 2 group_size: 3 }"
    got = nets.run(tmp_path, text + nets.layer("PSROIPooling", own, "data rois"), {"data": x, "rois": rois})[
        "y"
    ]
    expected = np.zeros((4, 2, 3, 3))
    for r, (image, *corners) in enumerate(rois):
        x1, y1, x2, y2 = np.floor(np.add(corners, [0.5, 0.5, 1.5, 1.5])) * 0.125
        for i, j in np.ndindex(3, 3):
            steps = max(y2 - y1, 0.1) / 3, max(x2 - x1, 0.1) / 3
            axes = ((i, steps[0], y1, 7), (j, steps[1], x1, 6))
            rows, columns = (
                slice(
                    int(np.clip(np.floor(at * step + first), 0, edge)),
                    int(np.clip(np.ceil((at + 1) * step + first), 0, edge)),
                )
                for at, step, first, edge in axes
            )
            for c in range(2):
                part = x[int(image), (c * 3 + i) * 3 + j, rows, columns]
                expected[r, c, i, j] = part.mean() if part.size else 0
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_region_pooling(tmp_path: Path) -> None:
    x = RANDOM.normal(0, 1, (2, 3, 7, 6)).astype(np.float32)
    rois = np.array([[1, 3, 2, 20, 25], [0, 0, 0, 23, 27], [1, 8, 8, 8, 8], [0, 90, 90, 95, 99]], np.float32)
    text = nets.data(*x.shape) + nets.data(4, 5, name="rois")
    own = "roi_pooling_param { spatial_scale: 0.25 pooled_h: 2 pooled_w: 3 }"
    inputs = {"data": x, "rois": rois}
    got = nets.run(tmp_path, text + nets.layer("ROIPooling", own, "data rois"), inputs)["y"]
    expected = np.zeros((4, 3, 2, 3))
    for r, (image, *corners) in enumerate(rois):
        x1, y1, x2, y2 = (int(np.floor(each * 0.25 + 0.5)) for each in corners)
        for i, j in np.ndindex(2, 3):
            spans = ((i, max(y2 - y1 + 1, 1) / 2, y1, 7), (j, max(x2 - x1 + 1, 1) / 3, x1, 6))
            rows, columns = (
                slice(
                    min(max(int(np.floor(at * step)) + first, 0), edge),
                    min(max(int(np.ceil((at + 1) * step)) + first, 0), edge),
                )
                for at, step, first, edge in spans
            )
            part = x[int(image), :, rows, columns].reshape(3, -1)
            expected[r, :, i, j] = part.max(1) if part.size else 0
    np.testing.assert_allclose(got, expected, rtol=1e-6)
