"""Caffe2's operators of regions, boxes and keypoints against numpy formulas."""

import itertools

import numpy as np
import pytest

from tests.converter.caffe2.operators import LAST, run, some


def moved(rois, deltas, info, weights=(1, 1, 1, 1), scales=True, extra=1):
    """Return boxes of regions [image, x1, y1, x2, y2] moved by deltas, one by one."""
    boxes_after = np.zeros(deltas.shape)
    for row, (image, *corners) in enumerate(rois):
        height, width, scale = info[int(image)]
        x1, y1, x2, y2 = np.array(corners) / scale
        w, h = x2 - x1 + extra, y2 - y1 + extra
        for place in range(0, deltas.shape[1], 4):
            dx, dy, dw, dh = deltas[row, place : place + 4] / weights
            cx, cy = dx * w + x1 + w / 2, dy * h + y1 + h / 2
            pw, ph = (np.exp(min(d, np.log(1000 / 16))) * size for d, size in ((dw, w), (dh, h)))
            box = [cx - pw / 2, cy - ph / 2, cx + pw / 2 - extra, cy + ph / 2 - extra]
            limits = [int(width / scale + 0.5) - extra, int(height / scale + 0.5) - extra] * 2
            boxes_after[row, place : place + 4] = np.clip(box, 0, limits) * (scale if scales else 1)
    return boxes_after


def test_boxes_are_moved_by_deltas():
    rois = np.array([[0, 1, 2, 9, 8], [0, 0, 0, 4, 5], [1, 3, 3, 20, 30]], np.float32)
    info = np.array([[30, 21, 1.5], [40, 50, 2]], np.float32)
    deltas = some(3, 8)
    deltas[0, 2] = 9  # above the limit
    args = {"weights": [10.0, 10.0, 5.0, 5.0]}
    got = run("BBoxTransform", [rois, deltas, info], args, 2)
    np.testing.assert_allclose(got[0], moved(rois, deltas, info, (10, 10, 5, 5)), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(got[1], [2, 1])
    args = {"apply_scale": 0, "legacy_plus_one": 0, "correct_transform_coords": 1}
    got = run("BBoxTransform", [rois[:2, 1:].copy(), deltas[:2], info[:1]], args, 2)
    want = moved(rois[:2], deltas[:2], info[:1], scales=False, extra=0)
    np.testing.assert_allclose(got[0], want, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(got[1], [2])


def aligned(x, rois, size, scale, samples, shift):
    """Return the means of samples x samples bilinear samples of each part of regions."""
    pooled = np.zeros((len(rois), x.shape[1], size, size))
    for row, (image, *corners) in enumerate(rois):
        x1, y1, x2, y2 = np.array(corners) * scale - shift
        w, h = (max(length, 0 if shift else 1) for length in (x2 - x1, y2 - y1))
        for i, j, s, t in itertools.product(range(size), range(size), range(samples), range(samples)):
            y = max(0, y1 + h / size * (i + (s + 0.5) / samples))
            z = max(0, x1 + w / size * (j + (t + 0.5) / samples))
            a, b = min(int(y), x.shape[2] - 2), min(int(z), x.shape[3] - 2)
            fy, fz = min(y - a, 1), min(z - b, 1)
            part = x[int(image), :, a : a + 2, b : b + 2]
            pooled[row, :, i, j] += np.einsum("chw,h,w->c", part, [1 - fy, fy], [1 - fz, fz])
    return pooled / samples**2


@pytest.mark.parametrize("shift", [0, 0.5])
def test_regions_are_aligned(shift):
    x = some(2, 3, 6, 7)
    rois = np.array([[1, 2, 2, 9, 8], [0, 1, 1, 6, 10]], np.float32)
    args = {
        "pooled_h": 2,
        "pooled_w": 2,
        "spatial_scale": 0.5,
        "sampling_ratio": 2,
        "aligned": int(shift * 2),
    }
    (got,) = run("RoIAlign", [x.transpose(LAST).copy(), rois], {"order": "NHWC", **args})
    np.testing.assert_allclose(
        got.transpose(0, 3, 1, 2), aligned(x, rois, 2, 0.5, 2, shift), rtol=1e-4, atol=1e-5
    )
    (got,) = run("RoIAlign", [x[:1], rois[1:, 1:].copy()], args)
    np.testing.assert_allclose(got, aligned(x, rois[1:], 2, 0.5, 2, shift), rtol=1e-4, atol=1e-5)


def test_regions_are_pooled():
    x = some(2, 3, 6, 7)
    rois = np.array([[1, 2, 2, 5, 5]], np.float32)
    (got,) = run("RoIPool", [x, rois], {"pooled_h": 2, "pooled_w": 2})
    want = [[x[1, :, i : i + 2, j : j + 2].max((1, 2)) for j in (2, 4)] for i in (2, 4)]
    np.testing.assert_allclose(got[0], np.array(want).transpose(2, 0, 1))


def keypoints(maps, boxes):
    """Return [N, 4, K]: the peak of a quadratic form around each map's maximum."""
    size = maps.shape[-1]
    points = np.zeros((*maps.shape[:2], 4))
    for n, k in itertools.product(*map(range, maps.shape[:2])):
        f = maps[n, k].astype(float)
        y, x = np.unravel_index(f.argmax(), f.shape)
        v = np.pad(f, 1, mode="reflect")[y : y + 3, x : x + 3]
        b = -np.array([v[1, 2] - v[1, 0], v[2, 1] - v[0, 1]]) / 2
        c = (v[2, 2] - v[2, 0] - v[0, 2] + v[0, 0]) / 4
        a = np.array([[v[1, 0] - 2 * v[1, 1] + v[1, 2], c], [c, v[0, 1] - 2 * v[1, 1] + v[2, 1]]])
        d = np.zeros(2) if abs(np.linalg.det(a)) < 1e-4 else np.linalg.solve(a, b)
        d /= max(1, np.abs(d).max() / 1.5)
        start, reach = boxes[n, :2], np.maximum(boxes[n, 2:4] - boxes[n, :2], 1)
        place = start + (np.array([x, y]) + 0.5 + d) * reach / size
        points[n, k] = [*place, v[1, 1] - b @ d + d @ a @ d / 2, np.exp(f.max()) / np.exp(f).sum()]
    return points.transpose(0, 2, 1)


def test_keypoints_are_refined_between_elements():
    maps, boxes = some(3, 4, 5, 5), np.array([[1, 2, 9, 7.5], [0, 0, 0.5, 4], [3, 3, 30, 30]], np.float32)
    maps[0, 0, 0, 4] = maps[0, 1, 4, 0] = 5  # at corners
    maps[0, 2] = 1  # flat
    (got,) = run("HeatmapMaxKeypoint", [maps, boxes], {"should_output_softmax": 1})
    np.testing.assert_allclose(got, keypoints(maps, boxes), rtol=1e-3, atol=1e-4)
    (got,) = run("HeatmapMaxKeypoint", [maps, boxes], {})
    np.testing.assert_array_equal(got[:, 3], 0)
