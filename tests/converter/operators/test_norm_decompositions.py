"""Normalizations and reductions in forms that QNN has no operation for."""

from __future__ import annotations

import numpy as np
import pytest

import xdlc
from tests.support.onnx_models import RNG, build, check, floats, node


@pytest.mark.parametrize(("axis", "outputs"), [(-1, "y m s"), (1, "y m s"), (0, "y - s"), (2, "y m")])
def test_statistics_of_layer_normalization(models, axis, outputs):
    x = floats(2, 3, 4)
    weights = {"scale": floats(*x.shape[axis:]), "bias": floats(*x.shape[axis:])}
    nodes = [node("LayerNormalization", "x scale bias", outputs, axis=axis)]
    check(models, nodes, {"x": x}, weights, outputs=[name for name in outputs.split() if name != "-"])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_l1_normalization_of_zeros_is_zero(models, axis):
    x = floats(2, 3, 4)
    x[0, 1] = x[1, :, 2] = 0
    x[0, :, 3] = x[1, 0] = 0
    check(models, [node("LpNormalization", p=1, axis=axis)], {"x": x}, opset=22)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_lrn(models, size):
    x = floats(5, 5, 4, 3)  # ONNX's reference implementation takes the batch for the channels
    nodes = [node("LRN", size=size, alpha=0.3, beta=0.6, bias=1.5)]
    check(models, nodes, {"x": x}, reference=size % 2 == 0)


STATISTICS = {name: np.abs(floats(3)) + 0.5 for name in ("scale", "shift", "mean", "var")}


def test_batch_normalization_in_training_mode(models):
    outputs = ("y", "m", "v")
    nodes = [node("BatchNormalization", "x scale shift mean var", "y m v", training_mode=1, momentum=0.7)]
    check(models, nodes, {"x": floats(2, 3, 4, 5)}, STATISTICS, outputs=outputs, reference=True)


@pytest.mark.parametrize("opset", [18, 21])
def test_group_normalization(models, opset):
    count = 2 if opset < 21 else 6
    nodes = [node("GroupNormalization", "x s b", num_groups=2)]
    weights = {"s": floats(count), "b": floats(count)}
    check(models, nodes, {"x": floats(2, 6, 4, 5)}, weights, opset=opset)


@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("axes", [None, [1], [0, -1]])
def test_log_sum_exp_does_not_overflow(models, axes, keep):
    x = floats(2, 3, 4) * 100
    x[0, 0, 0], x[1, :, 1] = np.inf, -np.inf
    attributes = {"keepdims": keep} | ({} if axes is None else {"axes": axes})
    check(models, [node("ReduceLogSumExp", **attributes)], {"x": x}, reference=False)
    check(models, [node("ReduceLogSumExp", **attributes)], {"x": np.array([[3, 2], [4, 3]])}, reference=False)


@pytest.mark.parametrize("scale", [(1,), (2, 3), (4, 1, 3)])
def test_scale_and_bias_of_layer_normalization_broadcast(models, scale):
    weights = {"scale": floats(*scale), "bias": floats(1, 3)}
    check(models, [node("LayerNormalization", "x scale bias")], {"x": floats(4, 2, 3)}, weights)


def test_batch_normalization_of_rank_1(models):
    weights = {name: np.float32([0.5 + index]) for index, name in enumerate("sbmv")}
    check(models, [node("BatchNormalization", "x s b m v")], {"x": floats(5)}, weights, opset=8)


def test_batch_normalization_of_a_column(models):
    """onnxruntime 1.31 moves the node before the Transpose, where it has 5 channels."""
    weights = {name: RNG.uniform(0.5, 1, 5).astype(np.float32) for name in "sbmv"} | {"w": floats(5, 5)}
    nodes = [
        node("MatMul", "x w", "p"),
        node("Transpose", "p", "t", perm=[1, 0]),
        node("BatchNormalization", "t s b m v"),
    ]
    x = floats(1, 5)
    converted = xdlc.convert(models.save(build(nodes, {"x": x}, weights, ["y"], 8)))
    row = (x @ weights["w"] - weights["m"]) / np.sqrt(weights["v"] + 1e-5) * weights["s"] + weights["b"]
    np.testing.assert_allclose(xdlc.run(converted, {"x": x})["y"], row.T, rtol=1e-5, atol=1e-5)
