"""Rules of sampling that frameworks share, against formulas in numpy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.converter.functions.resizes import IMAGE, SIZE, keras, onnx, pytorch, tensorflow, tflite

CENTERS, CORNERS = {"half_pixel_centers": True}, {"align_corners": True}
RULES = {
    ("linear", "half_pixel"): [
        (onnx, ("linear", "half_pixel"), {}),
        (tensorflow, ("ResizeBilinear",), CENTERS),
        (tflite, ("RESIZE_BILINEAR",), CENTERS),
        (keras, ("bilinear",), {}),
        (pytorch, ("upsample_bilinear2d", False), {}),
        (pytorch, ("_upsample_bilinear2d_aa", False), {}),
    ],
    ("linear", "align_corners"): [
        (onnx, ("linear", "align_corners"), {}),
        (tensorflow, ("ResizeBilinear",), CORNERS),
        (tflite, ("RESIZE_BILINEAR",), CORNERS),
        (pytorch, ("upsample_bilinear2d", True), {}),
    ],
    ("linear", "asymmetric"): [
        (onnx, ("linear", "asymmetric"), {}),
        (tensorflow, ("ResizeBilinear",), {}),
        (tflite, ("RESIZE_BILINEAR",), {}),
    ],
    ("nearest", "half_pixel"): [
        (onnx, ("nearest", "half_pixel"), {"nearest_mode": "round_prefer_ceil"}),
        (tensorflow, ("ResizeNearestNeighbor",), CENTERS),
        (tflite, ("RESIZE_NEAREST_NEIGHBOR",), CENTERS),
        (keras, ("nearest",), {}),
        (pytorch, ("_upsample_nearest_exact2d",), {}),
    ],
    ("nearest", "align_corners"): [
        (onnx, ("nearest", "align_corners"), {"nearest_mode": "round_prefer_ceil"}),
        (tensorflow, ("ResizeNearestNeighbor",), CORNERS),
        (tflite, ("RESIZE_NEAREST_NEIGHBOR",), CORNERS),
    ],
    ("nearest", "asymmetric"): [
        (onnx, ("nearest", "asymmetric"), {"nearest_mode": "floor"}),
        (tensorflow, ("ResizeNearestNeighbor",), {}),
        (tflite, ("RESIZE_NEAREST_NEIGHBOR",), {}),
        (pytorch, ("upsample_nearest2d",), {}),
    ],
}


def expected(mode, transform):
    """Return the resized image, element by element."""
    x = IMAGE
    for axis, m in enumerate(SIZE, 1):
        n, out = x.shape[axis], np.arange(m)
        places = {
            "half_pixel": (out + 0.5) * n / m - 0.5,
            "align_corners": out * (n - 1) / (m - 1),
            "asymmetric": out * n / m,
        }[transform]
        if mode == "nearest":
            rounded = np.floor(places + (0 if transform == "asymmetric" else 0.5) + 1e-9)
            x = x.take(np.clip(rounded, 0, n - 1).astype(int), axis)
        else:
            places = np.clip(places, 0, n - 1)
            low = np.floor(places).astype(int)
            share = (places - low).reshape([-1 if at == axis else 1 for at in range(4)])
            x = x.take(low, axis) * (1 - share) + x.take(np.minimum(low + 1, n - 1), axis) * share
    return x


@pytest.mark.parametrize("rule", RULES, ids=" ".join)
def test_frameworks_sample_alike(tmp_path, rule):
    for function, arguments, options in RULES[rule]:
        result = function(tmp_path, *arguments, **options)
        np.testing.assert_allclose(result, expected(*rule), atol=1e-5, err_msg=function.__name__)
