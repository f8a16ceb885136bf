"""Scatters, gathers, pads and slices in forms that QNN has no operation for."""

from __future__ import annotations

import numpy as np
import pytest

import xdlc
from tests.support.onnx_models import build, check, floats, node

BOUNDARIES = np.array([5, -3, np.iinfo(np.int64).min, np.iinfo(np.int64).max])


def test_least_of_extreme_integers(models):
    feeds = {"x": BOUNDARIES, "u": BOUNDARIES[::-1].copy()}
    check(models, [node("ScatterElements", "x i u", reduction="min")], feeds, {"i": np.arange(4)}, opset=18)


@pytest.mark.parametrize("batch", [0, 1])
def test_gather_nd_counts_from_the_end(models, batch):
    indices = np.array([[[0, -1]], [[-2, 1]]])
    nodes = [node("GatherND", "x i", batch_dims=batch)]
    check(models, nodes, {"x": floats(2, 3, 3)}, {"i": indices})


@pytest.mark.parametrize("pads", [[0, 1, 0, 2], [2, 0, 1, 0], [0, 7, 0, 9], [-1, 1, 0, 0]])
def test_pad_round(models, pads):
    weights = {"pads": np.array(pads)}
    nodes = [node("Pad", "x pads", mode="wrap")]
    check(models, nodes, {"x": floats(3, 4)}, weights, opset=19, reference=min(pads) >= 0)


def test_pad_of_integers_and_booleans(models):
    weights = {"pads": np.array([1, 2])}
    x = np.array([True, False])
    check(models, [node("Pad", "x pads fill")], {"x": x}, {**weights, "fill": np.array(True)})
    x = np.array([1, 1 << 50])
    check(models, [node("Pad", "x pads fill")], {"x": x}, {**weights, "fill": np.array(7)})
    weights["fill"] = np.array(1 << 40)
    check(models, [node("Pad", "x pads fill")], {"x": x}, weights, native=False)


def test_empty_slice_is_a_constant(models):
    nodes = [node("Slice", "x s e", "cut"), node("Concat", "x cut", axis=0)]
    check(models, nodes, {"x": floats(3, 4)}, {"s": np.array([2]), "e": np.array([1])})


@pytest.mark.parametrize("opset", [12, 17])
def test_mask_of_dropout_keeps_all(models, opset):
    check(models, [node("Dropout", "x", "y m")], {"x": floats(2, 3)}, opset=opset, outputs=("y", "m"))


def test_dropout_in_training_form_passes_on_what_has_no_mask(models):
    """onnxruntime removes such a node, and draws numbers if its mask is read."""
    nodes = [node("Abs", "x", "a"), node("Dropout", "a ratio mode", "d", seed=3), node("Neg", "d")]
    weights = {"ratio": np.float32(0.5), "mode": np.array(True)}
    check(models, nodes, {"x": floats(2, 3)}, weights)
    check(models, nodes, {"x": floats(2, 3), "mode": np.array(False)}, {"ratio": weights["ratio"]})
    keeping = [node("Dropout", "x ratio mode", "y m")]
    check(models, keeping, {"x": floats(2, 3)}, weights | {"ratio": np.float32(0)}, outputs=("y", "m"))
    nodes = [node("Dropout", "x ratio mode", "y m"), node("Not", "m", "n")]
    made = xdlc.convert(models.save(build(nodes, {"x": floats(2, 3)}, weights, ("y", "n"), 17)))
    assert any(op.type == "Dropout" for op in made.main.ops)


@pytest.mark.parametrize("slope", [(3, 1, 1), (2, 1)])
def test_input_of_prelu_broadcasts(models, slope):
    check(models, [node("PRelu", "x s")], {"x": floats(1, 3)}, {"s": floats(*slope)}, opset=9)


@pytest.mark.parametrize("sizes", [(0, 3, 0), (2, 0, 1), (0, 0, 3)])
def test_empty_parts_of_a_split_are_constants(models, sizes):
    nodes = [node("Split", "x s", "a b c", axis=0), node("Concat", "c b a", axis=0)]
    check(models, nodes, {"x": floats(3, 4)}, {"s": np.array(sizes)})
