"""Resize by all rules of ONNX, compared with onnxruntime or onnx's reference."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.onnx_models import check, floats, node

X = floats(1, 2, 5, 6)
TRANSFORMS = ["half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"]
REGION = np.array([0, 0, 0.2, 0.3, 1, 1, 1.2, 0.8], np.float32)


def resized(models, inputs, weights, x=X, *, reference=False, **attributes):
    nodes = [node("Resize", f"x {inputs}", **attributes)]
    return check(models, nodes, {"x": x}, weights, opset=19, reference=reference)


@pytest.mark.parametrize("scales", [(1, 1, 0.6, 0.7), (1, 1, 1.7, 2.3)])
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_scales(models, mode, transform, scales):
    attributes = {"mode": mode, "coordinate_transformation_mode": transform}
    resized(models, "- scales", {"scales": np.array(scales, np.float32)}, **attributes)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_scales_of_the_channels(models, mode, transform):
    attributes = {"mode": mode, "coordinate_transformation_mode": transform}
    scales = {"scales": np.array((1, 2, 0.6, 2.5), np.float32)}
    resized(models, "- scales", scales, reference=True, **attributes)


def test_computed_scales_with_aligned_corners(models):
    nodes = [node("Resize", "x - scales", mode="linear", coordinate_transformation_mode="align_corners")]
    feeds = {"x": floats(1, 1, 2, 4), "scales": np.array([1, 1, 1.7, 0.6], np.float32)}
    check(models, nodes, feeds, native=False)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_region_and_what_lies_beyond(models, mode):
    attributes = {
        "mode": mode,
        "coordinate_transformation_mode": "tf_crop_and_resize",
        "extrapolation_value": 9.0,
    }
    resized(models, "roi - sizes", {"roi": REGION, "sizes": np.array([1, 2, 3, 4])}, **attributes)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
@pytest.mark.parametrize("axes", [[2, 3], [3, 2]])
def test_kept_aspect_ratio(models, policy, axes):
    attributes = {"axes": axes, "keep_aspect_ratio_policy": policy, "mode": "linear"}
    resized(models, "- - sizes", {"sizes": np.array([7, 8])}, **attributes)


def test_one_axis_and_integers(models):
    scales = {"scales": np.array([1.5], np.float32)}
    resized(models, "- scales", scales, floats(6), reference=True, mode="linear")
    resized(models, "- scales", scales, np.arange(6) + (1 << 40), reference=True, mode="nearest")
