"""Caffe layers of elements, channels and axes, compared with numpy formulas."""

from __future__ import annotations

import numpy as np
import pytest

from tests.converter.caffe.nets import convert, data, layer, run
from tests.support.formulas import sigmoid, softmax
from xdlc.errors import XdlcError

RANDOM = np.random.default_rng(17)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape).astype(np.float32)


def check(folder, text: str, inputs, weights, wanted) -> None:
    """Compare every output of a net with what formulas give."""
    found = run(folder, text, inputs, weights)
    assert set(found) == set(wanted)
    for name, array in wanted.items():
        assert found[name].shape in (np.shape(array), (1,) if not np.shape(array) else ()), name
        np.testing.assert_allclose(found[name].reshape(np.shape(array)), array, 2e-5, 2e-5, err_msg=name)


FUNCTIONS = [
    ("AbsVal", "", np.abs),
    ("BNLL", "", lambda x: np.logaddexp(0, x)),
    ("Clip", "clip_param { min: -0.5 max: 0.75 }", lambda x: np.clip(x, -0.5, 0.75)),
    ("Dropout", "dropout_param { dropout_ratio: 0.9 }", lambda x: x),
    ("Dropout", "dropout_param { dropout_ratio: 0.75 scale_train: false }", lambda x: x * 0.25),
    ("ELU", "elu_param { alpha: 0.3 }", lambda x: np.where(x > 0, x, 0.3 * np.expm1(x))),
    ("Exp", "exp_param { base: 2 scale: -0.5 shift: 1 }", lambda x: 2 ** (1 - 0.5 * x)),
    ("Exp", "exp_param { shift: 0.5 }", lambda x: np.exp(x + 0.5)),
    ("HardSigmoid", "hard_sigmoid_param { alpha: 0.5 }", lambda x: np.clip(0.5 * x + 0.5, 0, 1)),
    ("HardSigmoid", "hard_sigmoid_param { beta: 0 }", lambda x: np.clip(0.2 * x, 0, 1)),
    ("HardSigmoid", "hard_sigmoid_param { alpha: -1 beta: -0.5 }", lambda x: np.clip(-x - 0.5, 0, 1)),
    ("HardSwish", "", lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    ("Log", "log_param { base: 10 scale: 0.5 shift: 9 }", lambda x: np.log10(9 + 0.5 * x)),
    ("Power", "power_param { power: 0 shift: 3 }", np.ones_like),
    ("Power", "power_param { power: 3 scale: -2 shift: 0.25 }", lambda x: (0.25 - 2 * x) ** 3),
    ("Power", "power_param { power: 2 scale: 0.5 }", lambda x: 0.25 * x * x),
    ("Power", "power_param { power: 0.5 scale: 0 shift: 9 }", lambda x: np.full_like(x, 3)),
    ("Power", "power_param { power: -2 }", lambda x: x**-2.0),
    ("ReLU", "relu_param { negative_slope: 1.5 }", lambda x: np.where(x > 0, x, 1.5 * x)),
    ("ReLU6", "", lambda x: np.clip(x, 0, 6)),
    ("ReLU6", "relu6_param { negative_slope: 0.1 }", lambda x: np.where(x > 0, np.minimum(x, 6), 0.1 * x)),
    ("Sigmoid", "", sigmoid),
    ("Swish", "swish_param { beta: 1.7 }", lambda x: x * sigmoid(1.7 * x)),
    ("TanH", "", np.tanh),
    ("Threshold", "threshold_param { threshold: 0.25 }", lambda x: (x > 0.25) * 1.0),
]


def test_functions_of_elements(tmp_path):
    x = 3 * normal(2, 3, 4, 5)
    x[0, 0, 0, :3] = 90, -90, 0.25
    x[0, 0, 0, :2] = (12, -12)
    text = data(*x.shape)
    wanted = {}
    for number, (type, params, formula) in enumerate(FUNCTIONS):
        text += layer(type, params, top=f"y{number}")
        wanted[f"y{number}"] = formula(x)
    check(tmp_path, text, {"data": x}, None, wanted)


SUMS = [
    ("eltwise_param { operation: SUM coeff: 2 coeff: -1 coeff: 0.5 }", lambda a, b, c: 2 * a - b + 0.5 * c),
    ("", lambda a, b, c: a + b + c),
    ("eltwise_param { operation: 2 }", lambda a, b, c: np.maximum(a, np.maximum(b, c))),
    (
        "eltwise_param { operation: MAX coeff: 2 coeff: 2 coeff: 2 }",
        lambda a, b, c: np.maximum(a, np.maximum(b, c)),
    ),
    ("eltwise_param { operation: PROD }", lambda a, b, c: a * b * c),
]


def test_functions_of_several_bottoms(tmp_path):
    inputs = {name: normal(2, 3, 4, 5) for name in "abc"} | {"s": normal(2, 3, 1, 1)}
    text = "".join(data(*array.shape, name=name) for name, array in inputs.items())
    expected = {}
    for number, (params, formula) in enumerate(SUMS):
        text += layer("Eltwise", params, "a b c", f"y{number}")
        expected[f"y{number}"] = formula(*(inputs[name] for name in "abc"))
    text += layer("Axpy", "", "s a b", "axpy")
    expected["axpy"] = inputs["s"] * inputs["a"] + inputs["b"]
    check(tmp_path, text, inputs, None, expected)


X = normal(2, 3, 4, 5)
V, W, Z = normal(3), np.abs(normal(3)), normal(3)
AFFINE = [
    ("Scale", "scale_param { bias_term: true }", [V, Z], X * V[:, None, None] + Z[:, None, None]),
    ("Scale", "scale_param { num_axes: 0 }", [np.float32(2).reshape(())], 2 * X),
    ("Scale", "scale_param { axis: 0 num_axes: 2 }", [X[:, :, 0, 0]], X * X[:, :, :1, :1]),
    ("Scale", "scale_param { axis: -2 num_axes: -1 }", [X[0, 0]], X * X[0, 0]),
    ("Bias", "bias_param { axis: 2 num_axes: 2 }", [X[0, 0]], X + X[0, 0]),
    ("Bias", "", [V.reshape(1, 1, 1, 3)], X + V[:, None, None]),
    ("PReLU", "", [V], np.where(X > 0, X, X * V[:, None, None])),
    ("PReLU", "prelu_param { channel_shared: true }", [np.float32([1.5])], np.where(X > 0, X, 1.5 * X)),
    (
        "BatchNorm",
        "batch_norm_param { eps: 0.01 moving_average_fraction: 0.9 }",
        [4 * V, 4 * W, np.float32([4])],
        (X - V[:, None, None]) / np.sqrt(W + 0.01)[:, None, None],
    ),
    ("BatchNorm", "", [V, W, np.float32([0])], X / np.sqrt(1e-5)),
    (
        "BatchNorm",
        "batch_norm_param { use_global_stats: false }",
        [V, W, np.float32([1])],
        (X - X.mean((0, 2, 3), keepdims=True)) / np.sqrt(X.var((0, 2, 3), keepdims=True) + 1e-5),
    ),
    (
        "BN",
        "bn_param { frozen: true slope_filler { value: 1 } }",
        [each.reshape(1, 3, 1, 1) for each in (V, Z, V + 1, W)],
        (X - (V + 1)[:, None, None]) * (V / np.sqrt(W + 1e-5))[:, None, None] + Z[:, None, None],
    ),
    ("BN", "bn_param { bn_mode: INFERENCE }", [V, Z], X * V[:, None, None] + Z[:, None, None]),
    (
        "BN",
        "bn_param { bn_mode: LEARN }",
        [V, Z],
        (X - X.mean((0, 2, 3), keepdims=True)) / X.std((0, 2, 3), keepdims=True) * V[:, None, None]
        + Z[:, None, None],
    ),
    (
        "Normalize",
        "norm_param { eps: 0.5 channel_shared: false }",
        [V],
        X / np.sqrt((X * X).sum((1, 2, 3), keepdims=True) + 0.5) * V[:, None, None],
    ),
    (
        "Normalize",
        "norm_param { across_spatial: false channel_shared: false }",
        [V],
        X / np.sqrt((X * X).sum(1, keepdims=True)) * V[:, None, None],
    ),
    (
        "Normalize",
        "norm_param { across_spatial: false channel_shared: true eps: 0.5 }",
        [np.float32(3).reshape(())],
        3 * X / np.sqrt((X * X).sum(1, keepdims=True) + 0.5),
    ),
]


def test_layers_with_numbers_per_channel(tmp_path):
    text, weights, expected = data(*X.shape), {}, {}
    for number, (type, params, blobs, result) in enumerate(AFFINE):
        text += layer(type, params, top=f"y{number}")
        weights[f"y{number}"] = blobs
        expected[f"y{number}"] = result
    check(tmp_path, text, {"data": X}, weights, expected)


def deviated(x, axes, epsilon=1e-9):
    return (x - x.mean(axes, keepdims=True)) / (x.std(axes, keepdims=True) + epsilon)


def within(x, size, alpha, beta):
    wide = np.pad(x * x, [(0, 0), (0, 0), (size // 2,) * 2, (size // 2,) * 2])
    total = sum(wide[:, :, i : i + x.shape[2], j : j + x.shape[3]] for i in range(size) for j in range(size))
    return x * (1 + alpha / size**2 * total) ** -beta


def across(x, size, alpha, beta, k):
    wide = np.pad(x * x, [(0, 0), (size // 2,) * 2, (0, 0), (0, 0)])
    total = sum(wide[:, i : i + x.shape[1]] for i in range(size))
    return x * (k + alpha / size * total) ** -beta


AXES = [
    ("MVN", "", deviated(X, (2, 3))),
    ("MVN", "mvn_param { across_channels: true eps: 0.5 }", deviated(X, (1, 2, 3), 0.5)),
    ("MVN", "mvn_param { eps: 0.5 }", deviated(X, (2, 3), 0.5)),
    ("MVN", "mvn_param { normalize_variance: false }", X - X.mean((2, 3), keepdims=True)),
    ("LRN", "lrn_param { local_size: 3 alpha: 2 beta: 0.6 k: 1.5 }", across(X, 3, 2, 0.6, 1.5)),
    ("LRN", "lrn_param { local_size: 7 norm_region: 1 beta: 0.5 k: 9 }", within(X, 7, 1, 0.5)),
    ("LRN", "lrn_param { local_size: 1 norm_region: WITHIN_CHANNEL }", within(X, 1, 1, 0.75)),
    ("Softmax", "", softmax(X, 1)),
    ("Softmax", "softmax_param { axis: -2 engine: CUDNN }", softmax(X, 2)),
    ("Softmax", "softmax_param { axis: 0 }", softmax(X, 0)),
    ("Reduction", "", X.sum()),
    ("Reduction", "reduction_param { operation: MEAN axis: 2 coeff: -3 }", -3 * X.mean((2, 3))),
    ("Reduction", "reduction_param { operation: 3 axis: 1 coeff: 0.5 }", 0.5 * (X * X).sum((1, 2, 3))),
    ("Reduction", "reduction_param { operation: ASUM axis: -1 }", np.abs(X).sum(3)),
]


def test_layers_along_axes(tmp_path):
    text, wanted = data(*X.shape), {}
    for number, (type, params, result) in enumerate(AXES):
        text += layer(type, params, top=f"y{number}")
        wanted[f"y{number}"] = result
    check(tmp_path, text, {"data": X}, None, wanted)


def test_layers_of_other_ranks(tmp_path):
    row, cube, line, scalar = normal(4, 3), normal(2, 3, 2, 2, 3), normal(5), np.float32([2.5])
    text = data(4, 3, name="row") + data(2, 3, 2, 2, 3, name="cube") + data(5, name="line")
    cases = [
        ("BatchNorm", "row", [V, W, np.float32([1])], (row - V) / np.sqrt(W + 1e-5)),
        ("BatchNorm", "line", [scalar, scalar, np.float32([1])], (line - 2.5) / np.sqrt(2.5 + 1e-5)),
        (
            "BatchNorm",
            "cube",
            [V, W, np.float32([1])],
            (cube - V.reshape(3, 1, 1, 1)) / np.sqrt(W + 1e-5).reshape(3, 1, 1, 1),
        ),
        ("PReLU", "row", [V], np.where(row > 0, row, row * V)),
        ("PReLU", "cube", [V], np.where(cube > 0, cube, cube * V.reshape(3, 1, 1, 1))),
        ("Scale", "cube", [V], cube * V.reshape(3, 1, 1, 1)),
        ("Softmax", "cube", [], softmax(cube, 1)),
        ("Softmax", "row", [], softmax(row, 1)),
        ("MVN", "row", [], np.zeros((4, 3, 1, 1))),
        ("Sigmoid", "line", [], sigmoid(line)),
        ("Normalize", "row", [V], V * row / np.sqrt((row * row).sum(1, keepdims=True) + 1e-4)),
    ]
    weights, expected = {}, {}
    for number, (type, bottom, blobs, result) in enumerate(cases):
        params = "norm_param { across_spatial: false channel_shared: false eps: 1e-4 }"
        text += layer(type, params if type == "Normalize" else "", bottom, f"y{number}")
        weights[f"y{number}"] = blobs
        expected[f"y{number}"] = result
    inputs = {"row": row, "cube": cube, "line": line}
    check(tmp_path, text, inputs, {name: blobs for name, blobs in weights.items() if blobs}, expected)


def test_factors_that_are_a_second_bottom(tmp_path):
    text = data(*X.shape) + data(3, name="v")
    text += layer("Scale", "scale_param { bias_term: true }", "data v", "y0")
    text += layer("Bias", "bias_param { axis: 1 }", "data v", "y1")
    wanted = {"y0": X * V[:, None, None] + Z[:, None, None], "y1": X + V[:, None, None]}
    check(tmp_path, text, {"data": X, "v": V}, {"y0": [Z]}, wanted)


@pytest.mark.parametrize(
    ("type", "params"),
    [
        ("Exp", "exp_param { base: -2 }"),
        ("Log", "log_param { base: 1 }"),
        ("Clip", "clip_param { min: 0 }"),
        ("Dropout", "dropout_param { sample_weights_test: true }"),
        ("LRN", "lrn_param { local_size: 4 }"),
        ("Reduction", "reduction_param { axis: 4 }"),
        ("Reduction", "reduction_param { operation: PROD }"),
        ("Softmax", "softmax_param { axis: 4 }"),
        ("Softmax", "softmax_param { axis: 1.5 }"),
        ("ReLU", "relu_param { slope: 1 }"),
        ("Scale", "scale_param { num_axes: 4 }"),
        ("PReLU", ""),
    ],
)
def test_what_contradicts_itself_is_refused_with_its_line(tmp_path, type, params):
    text = data(2, 3, 4, 5) + layer(type, params)
    with pytest.raises(XdlcError, match=rf"layer 'y' \({type}, line 2\)"):
        convert(tmp_path, text)


@pytest.mark.parametrize(
    "params", ["eltwise_param { coeff: 1 }", "eltwise_param { operation: PROD coeff: 1 coeff: 2 }"]
)
def test_coefficients_that_do_not_fit_are_refused(tmp_path, params):
    with pytest.raises(XdlcError, match=r"layer 'y' \(Eltwise, line 2\)"):
        convert(tmp_path, data(2, 3) + layer("Eltwise", params, "data data"))
