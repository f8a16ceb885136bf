"""Operators of StableHLO in TFLite files, compared with numpy."""

import numpy as np
import pytest

import xdlc
from tests.converter.tflite.models import TinyModel
from xdlc.errors import UnsupportedOp

X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
Y = np.random.default_rng(1).normal(size=(2, 3, 4)).astype(np.float32)


def _run(tmp_path, type, values, shape, dtype=np.float32, constants=(), **options):
    """Return the result of an operator; inputs in ``constants`` are stored."""
    builder = TinyModel()
    inputs = [
        builder.tensor(f"x{index}", value.shape, value.dtype, value if index in constants else None)
        for index, value in enumerate(values)
    ]
    y = builder.tensor("y", shape, dtype)
    builder.op(type, inputs, [y], **options)
    builder.graph.inputs = [index for index in inputs if index not in constants]
    builder.graph.outputs = [y]
    body = options.get("body_subgraph_index")
    if body is not None:
        builder.begin()
        a, b, c = (builder.tensor(name, (), values[0].dtype) for name in "abc")
        builder.op("STABLEHLO_MAXIMUM", [a, b], [c])
        builder.graph.inputs, builder.graph.outputs = [a, b], [c]
    model = xdlc.convert(builder.write(tmp_path / "m.tflite"))
    feeds = {f"x{index}": value for index, value in enumerate(values) if index not in constants}
    return xdlc.run(model, feeds)["y"]


ELEMENTWISE = {
    "LOGISTIC": lambda x: 1 / (1 + np.exp(-x)),
    "ADD": np.add,
    "DIVIDE": np.divide,
    "MULTIPLY": np.multiply,
    "MAXIMUM": np.maximum,
    "MINIMUM": np.minimum,
    "ABS": np.abs,
    "COSINE": np.cos,
    "EXPONENTIAL": np.exp,
    "FLOOR": np.floor,
    "NEGATE": np.negative,
    "SUBTRACT": np.subtract,
    "TANH": np.tanh,
    "CBRT": np.cbrt,
    "REMAINDER": np.fmod,
    "CLAMP": lambda low, x, high: np.minimum(np.maximum(x, low), high),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_operators(tmp_path, name):
    function = ELEMENTWISE[name]
    count = {"CLAMP": 3}.get(name) or getattr(function, "nin", 1)
    values = [X, Y, np.abs(X)][:count]
    got = _run(tmp_path, f"STABLEHLO_{name}", values, X.shape)
    np.testing.assert_allclose(got, function(*values), rtol=1e-4, atol=1e-5)


def test_operators_on_positive_values(tmp_path):
    values = [np.abs(X) + 0.5, Y]
    for name, function, count in (
        ("LOG", np.log, 1),
        ("RSQRT", lambda x: 1 / np.sqrt(x), 1),
        ("POWER", np.power, 2),
    ):
        got = _run(tmp_path, f"STABLEHLO_{name}", values[:count], X.shape)
        np.testing.assert_allclose(got, function(*values[:count]), rtol=1e-4)


@pytest.mark.parametrize(
    ("direction", "function"),
    list(enumerate([np.equal, np.not_equal, np.greater_equal, np.greater, np.less_equal, np.less])),
)
def test_comparisons(tmp_path, direction, function):
    values = [np.round(X), np.round(Y)]
    options = {"comparison_direction": direction} if direction else {"compare_type": 1}
    got = _run(tmp_path, "STABLEHLO_COMPARE", values, X.shape, bool, **options)
    np.testing.assert_array_equal(got, function(*values))


def test_choices_and_bits(tmp_path):
    chosen = _run(tmp_path, "STABLEHLO_SELECT", [X > 0, X, Y], X.shape)
    np.testing.assert_array_equal(chosen, np.where(X > 0, X, Y))
    for name, function in (("AND", np.logical_and), ("OR", np.logical_or)):
        got = _run(tmp_path, f"STABLEHLO_{name}", [X > 0, Y > 0], X.shape, bool)
        np.testing.assert_array_equal(got, function(X > 0, Y > 0))
    got = _run(tmp_path, "STABLEHLO_CONVERT", [X * 10], X.shape, np.int32)
    np.testing.assert_array_equal(got, (X * 10).astype(np.int32))


def test_shapes(tmp_path):
    got = _run(tmp_path, "STABLEHLO_RESHAPE", [X], (6, 4))
    np.testing.assert_array_equal(got, X.reshape(6, 4))
    got = _run(tmp_path, "STABLEHLO_TRANSPOSE", [X], (4, 2, 3), permutation=[2, 0, 1])
    np.testing.assert_array_equal(got, X.transpose(2, 0, 1))
    got = _run(tmp_path, "STABLEHLO_CONCATENATE", [X, Y], (2, 6, 4), dimension=1)
    np.testing.assert_array_equal(got, np.concatenate([X, Y], 1))
    got = _run(tmp_path, "STABLEHLO_BROADCAST_IN_DIM", [X[0]], (4, 2, 3), broadcast_dimensions=[2, 0])
    np.testing.assert_array_equal(got, np.broadcast_to(X[0].T[:, None], (4, 2, 3)))
    got = _run(tmp_path, "STABLEHLO_SLICE", [X], (1, 2, 2), start_indices=[1, 0, 1], limit_indices=[2, 3, 4],
               strides=[1, 2, 2])  # fmt: skip
    np.testing.assert_array_equal(got, X[1:2, 0:3:2, 1:4:2])
    pads = {"edge_padding_low": [0, 1, -1], "edge_padding_high": [0, 2, 0], "interior_padding": [0, 0, 1]}
    got = _run(tmp_path, "STABLEHLO_PAD", [X, np.float32(7)], (2, 6, 6), constants=[1], **pads)
    wanted = np.full((2, 6, 7), 7, np.float32)
    wanted[:, 1:4, ::2] = X
    np.testing.assert_array_equal(got, wanted[:, :, 1:])


def test_numbers_along_an_axis(tmp_path):
    made = TinyModel()
    x, i, y = (made.tensor(name, [2, 3]) for name in "xiy")
    made.op("STABLEHLO_IOTA", [], [i], iota_dimension=1)
    made.op("ADD", [x, i], [y])
    model = xdlc.convert(made.write(tmp_path / "m.tflite", [x], [y]))
    got = xdlc.run(model, {"x": np.zeros((2, 3), np.float32)})["y"]
    np.testing.assert_array_equal(got, [[0, 1, 2]] * 2)


def test_slices_at_computed_places_stay_inside(tmp_path):
    starts = [np.asarray(start, np.int32) for start in (0, 9, -4)]
    got = _run(tmp_path, "STABLEHLO_DYNAMIC_SLICE", [X, *starts], (2, 2, 2), slice_sizes=[2, 2, 2])
    np.testing.assert_array_equal(got, X[:, 1:, :2])
    update = np.ones((1, 2, 2), np.float32)
    got = _run(tmp_path, "STABLEHLO_DYNAMIC_UPDATE_SLICE", [X, update, *starts], X.shape)
    wanted = X.copy()
    wanted[:1, 1:, :2] = 1
    np.testing.assert_array_equal(got, wanted)


def test_general_products(tmp_path):
    weight = np.random.default_rng(2).normal(size=(5, 4, 2)).astype(np.float32)
    options = {
        "lhs_batching_dimensions": [0],
        "rhs_batching_dimensions": [2],
        "lhs_contracting_dimensions": [2],
        "rhs_contracting_dimensions": [1],
    }
    got = _run(tmp_path, "STABLEHLO_DOT_GENERAL", [X, weight], (2, 3, 5), constants=[1], **options)
    np.testing.assert_allclose(got, np.einsum("abc,dca->abd", X, weight), rtol=1e-4, atol=1e-5)


def test_a_convolution_of_channel_first_values(tmp_path):
    x = np.random.default_rng(3).normal(size=(1, 2, 4, 4)).astype(np.float32)
    weight = np.random.default_rng(4).normal(size=(3, 2, 2, 2)).astype(np.float32)  # O, I, H, W
    options = {
        "window_strides": [1, 1],
        "padding": [0, 1, 0, 1],
        "input_feature_dimension": 1,
        "input_spatial_dimensions": [2, 3],
        "kernel_input_feature_dimension": 1,
        "kernel_spatial_dimensions": [2, 3],
        "output_feature_dimension": 1,
        "output_spatial_dimensions": [2, 3],
        "feature_group_count": 1,
        "batch_group_count": 1,
    }
    got = _run(tmp_path, "STABLEHLO_CONVOLUTION", [x, weight], (1, 3, 4, 4), constants=[1], **options)
    padded = np.pad(x, [(0, 0), (0, 0), (0, 1), (0, 1)])
    shifted = np.stack([padded[:, :, r : r + 4, c : c + 4] for r in range(2) for c in range(2)], -1)
    wanted = np.einsum("nihwk,oik->nohw", shifted, weight.reshape(3, 2, 4))
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_reductions(tmp_path):
    options = {"dimensions": [0, 2], "body_subgraph_index": 1}
    for start in (-np.inf, 0.5):
        values = [X, np.float32(start)]
        got = _run(tmp_path, "STABLEHLO_REDUCE", values, (3,), constants=[1], **options)
        np.testing.assert_allclose(got, np.maximum(X.max((0, 2)), start), rtol=1e-6)


def test_reductions_of_windows(tmp_path):
    options = {
        "window_dimensions": [1, 2, 2],
        "window_strides": [1, 1, 2],
        "padding": [0, 0, 1, 0, 0, 0],
        "body_subgraph_index": 1,
    }
    values = [X, np.float32(-np.inf)]
    got = _run(tmp_path, "STABLEHLO_REDUCE_WINDOW", values, (2, 3, 2), constants=[1], **options)
    above = np.pad(X, [(0, 0), (1, 0), (0, 0)], constant_values=-np.inf)[:, :-1]
    wanted = np.maximum(X, above).reshape(2, 3, 2, 2).max(-1)
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


@pytest.mark.parametrize("name", ["SORT", "SCATTER", "CUSTOM_CALL", "RNG_BIT_GENERATOR"])
def test_others_are_refused(tmp_path, name):
    with pytest.raises(UnsupportedOp):
        _run(tmp_path, f"STABLEHLO_{name}", [X], X.shape)


@pytest.mark.parametrize("name", ["REDUCE", "REDUCE_WINDOW"])
def test_reductions_of_several_values_are_not_supported(tmp_path, name):
    values = [X, X, np.float32(0), np.float32(0)]
    with pytest.raises(UnsupportedOp, match="2 values at once"):
        _run(tmp_path, f"STABLEHLO_{name}", values, (3,), constants=[2, 3], body_subgraph_index=1)
