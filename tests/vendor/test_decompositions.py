"""Operators written as several QNN operations: HTP's emulation is right."""

import numpy as np
import pytest

import xdlc
from tests.support.corpus_models import relative_error
from tests.support.htp_models import needs_htp
from tests.support.onnx_models import build, expected, floats, node

pytestmark = [pytest.mark.vendor, needs_htp]
TOLERANCE = 1e-2  # of half precision, in the relative L2 norm

IMAGE = floats(1, 4, 9, 8)
CASES = {
    "tan": ([node("Tan")], floats(2, 5) / 2, {}, 17),
    "cosh": ([node("Cosh")], floats(2, 5), {}, 17),
    "trilu": ([node("Trilu")], floats(2, 4, 5), {}, 17),
    "one_hot": (
        [node("OneHot", "x d v")],
        np.array([0, -1, 4, -7]),
        {"d": 5, "v": np.array([0, 1], "f")},
        17,
    ),
    "embedding_of_bytes": (
        [node("Gather", "t x", "r"), node("DequantizeLinear", "r s", "f"), node("Relu", "f")],
        np.array([0, 2, 5], np.int32),
        {"t": np.arange(-127, 125, 6, np.int8).reshape(6, 7), "s": np.array(0.25, "f")},
        21,
    ),
    "hardmax": ([node("Hardmax")], floats(3, 7), {}, 17),
    "grid_sample": ([node("GridSample", "x g")], IMAGE, {"g": floats(1, 4, 5, 2) / 2}, 20),
    "einsum": ([node("Einsum", "x w", equation="nchw,kc->nkhw")], IMAGE, {"w": floats(3, 4)}, 17),
    "reverse_sequence": ([node("ReverseSequence", "x l")], floats(4, 2, 3), {"l": np.array([4, 2])}, 17),
    "rms_norm": ([node("RMSNormalization", "x s")], floats(2, 3, 8), {"s": floats(8)}, 23),
    "dilated_max_pool": ([node("MaxPool", kernel_shape=[2, 2], dilations=[2, 2])], IMAGE, {}, 17),
    "dilated_average_pool": ([node("AveragePool", kernel_shape=[2, 2], dilations=[2, 2])], IMAGE, {}, 19),
    "lp_pool": ([node("LpPool", kernel_shape=[2, 2], p=3)], IMAGE, {}, 18),
    "resize": (
        [node("Resize", "x - - s", mode="linear", antialias=1)],
        IMAGE,
        {"s": np.array([1, 4, 5, 4])},
        19,
    ),
    "l1_norm": ([node("LpNormalization", p=1)], floats(3, 7), {}, 17),
    "log_sum_exp": ([node("ReduceLogSumExp", axes=[1])], floats(3, 7), {}, 17),
    "stft": ([node("STFT", "x s - l")], floats(1, 64, 1), {"s": np.array(8), "l": np.array(16)}, 17),
    "col2im": (
        [node("Col2Im", "x i k")],
        floats(1, 15, 5),
        {"i": np.array([5, 5]), "k": np.array([1, 5])},
        18,
    ),
    "lstm_step": (  # of 8 units: from 16 on, its activations are coarser than half precision
        [node("LSTM", "x w r b", "y", hidden_size=8)],
        floats(1, 2, 8),
        {"w": floats(1, 32, 8) / 2, "r": floats(1, 32, 8) / 2, "b": floats(1, 64) / 2},
        17,
    ),
    "lstm": (
        [node("LSTM", "x w r b", "y", hidden_size=8, direction="reverse")],
        floats(3, 2, 8),
        {"w": floats(1, 32, 8) / 2, "r": floats(1, 32, 8) / 2, "b": floats(1, 64) / 2},
        17,
    ),
    "roi_align": (
        [node("RoiAlign", "x r b", output_height=3, output_width=2, sampling_ratio=2)],
        IMAGE,
        {"r": np.array([[0, 0, 7, 8], [1, 2, 4, 5]], "f"), "b": np.array([0, 0])},
        16,
    ),
    "gru": (
        [node("GRU", "x w r b", "y", hidden_size=4)],
        floats(3, 2, 5),
        {"w": floats(1, 12, 5) / 2, "r": floats(1, 12, 4) / 2, "b": floats(1, 24) / 2},
        17,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_htp_computes_the_same(models, name):
    nodes, x, weights, opset = CASES[name]
    model = build(nodes, {"x": x}, weights, ("y",), opset)
    (wanted,) = expected(model, {"x": x}, reference=False)
    converted = xdlc.convert(models.save(model))
    found = xdlc.run(converted, {"x": x}, runtime="htp", soc="sm8650")["y"]
    assert found.shape == wanted.shape
    assert relative_error(found, wanted) <= TOLERANCE
