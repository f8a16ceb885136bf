"""A fault planted in the one home of a rule shows in all frameworks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.converter.functions.resizes import keras, onnx, pytorch, tensorflow, tflite
from xdlc.opdefs import sampling

COEFFICIENTS = {"CUBIC": -0.75, "KEYS_CUBIC": -0.5}
CUBIC = {
    "onnx": ("CUBIC", onnx, ("cubic", "half_pixel"), {}),
    "onnx, by tables": ("CUBIC", onnx, ("cubic", "half_pixel"), {"exclude_outside": 1}),
    "tensorflow, old": ("CUBIC", tensorflow, ("ResizeBicubic",), {}),
    "tensorflow": ("KEYS_CUBIC", tensorflow, ("ResizeBicubic",), {"half_pixel_centers": True}),
    "tflite": ("KEYS_CUBIC", tflite, ("ResizeBicubic",), {"half_pixel_centers": True}),
    "keras": ("KEYS_CUBIC", keras, ("bicubic",), {}),
    "pytorch": ("CUBIC", pytorch, ("upsample_bicubic2d", False), {}),
    "pytorch, smooth": ("KEYS_CUBIC", pytorch, ("_upsample_bicubic2d_aa", False), {}),
}


@pytest.mark.parametrize("source", CUBIC)
def test_the_cubic_kernel(tmp_path, monkeypatch, source):
    name, function, arguments, options = CUBIC[source]
    before = function(tmp_path, *arguments, **options)
    monkeypatch.setattr(sampling, name, COEFFICIENTS[name] + 0.1)
    assert np.abs(function(tmp_path, *arguments, **options) - before).max() > 1e-3
