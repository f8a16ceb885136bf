"""Operators of StableHLO in TFLite files, compared with numpy."""

import numpy as np
import pytest

import xdlc
from tests.converter.tflite.models import TinyModel, check, converted
from xdlc.errors import UnsupportedOp

RANDOM = np.random.default_rng(0)
X, Y = (RANDOM.normal(size=(2, 3, 4)).astype(np.float32) for _ in range(2))
POSITIVE = np.abs(X) + 0.5
STARTS = [np.asarray(start, np.int32) for start in (0, 9, -4)]
UPDATED = X.copy()
UPDATED[:1, 1:, :2] = 1
PADDED = np.full((2, 6, 7), 7, np.float32)
PADDED[:, 1:4, ::2] = X
WEIGHT = RANDOM.normal(size=(5, 4, 2)).astype(np.float32)


@pytest.mark.parametrize(
    ("want", "name", "given", "options"),
    [
        (1 / (1 + np.exp(-X)), "LOGISTIC", [X], {}),
        (X + Y, "ADD", [X, Y], {}),
        (X / Y, "DIVIDE", [X, Y], {}),
        (X * Y, "MULTIPLY", [X, Y], {}),
        (np.maximum(X, Y), "MAXIMUM", [X, Y], {}),
        (np.minimum(X, Y), "MINIMUM", [X, Y], {}),
        (np.abs(X), "ABS", [X], {}),
        (np.cos(X), "COSINE", [X], {}),
        (np.exp(X), "EXPONENTIAL", [X], {}),
        (np.floor(X), "FLOOR", [X], {}),
        (-X, "NEGATE", [X], {}),
        (X - Y, "SUBTRACT", [X, Y], {}),
        (np.tanh(X), "TANH", [X], {}),
        (np.cbrt(X), "CBRT", [X], {}),
        (np.fmod(X, Y), "REMAINDER", [X, Y], {}),
        (np.minimum(np.maximum(Y, X), POSITIVE), "CLAMP", [X, Y, POSITIVE], {}),
        (np.log(POSITIVE), "LOG", [POSITIVE], {}),
        (1 / np.sqrt(POSITIVE), "RSQRT", [POSITIVE], {}),
        (POSITIVE**Y, "POWER", [POSITIVE, Y], {}),
        (np.where(X > 0, X, Y), "SELECT", [X > 0, X, Y], {}),
        ((X > 0) & (Y > 0), "AND", [X > 0, Y > 0], {}),
        ((X > 0) | (Y > 0), "OR", [X > 0, Y > 0], {}),
        ((X * 10).astype(np.int32), "CONVERT", [X * 10], {}),
        (X.reshape(6, 4), "RESHAPE", [X], {}),
        (X.transpose(2, 0, 1), "TRANSPOSE", [X], {"permutation": [2, 0, 1]}),
        (np.concatenate([X, Y], 1), "CONCATENATE", [X, Y], {"dimension": 1}),
        (np.broadcast_to(X[0].T[:, None], (4, 2, 3)), "BROADCAST_IN_DIM", [X[0]],
         {"broadcast_dimensions": [2, 0]}),
        (X[1:2, 0:3:2, 1:4:2], "SLICE", [X],
         {"start_indices": [1, 0, 1], "limit_indices": [2, 3, 4], "strides": [1, 2, 2]}),
        (X[:, 1:, :2], "DYNAMIC_SLICE", [X, *STARTS], {"slice_sizes": [2, 2, 2]}),
        (UPDATED, "DYNAMIC_UPDATE_SLICE", [X, np.ones((1, 2, 2), np.float32), *STARTS], {}),
        *(
            (function(np.round(X), np.round(Y)), "COMPARE", [np.round(X), np.round(Y)],
             {"comparison_direction": direction} if direction else {"compare_type": 1})
            for direction, function in enumerate(
                [np.equal, np.not_equal, np.greater_equal, np.greater, np.less_equal, np.less]
            )
        ),
    ],
)  # fmt: skip
def test_an_operator(tmp_path, want, name, given, options):
    check(tmp_path, want, f"STABLEHLO_{name}", given, (), 1e-4, **options)


def maximum(builder):
    """Add a sub-graph that is the larger of two numbers."""
    builder.begin()
    a, b, c = (builder.tensor(name) for name in "abc")
    builder.op("STABLEHLO_MAXIMUM", [a, b], [c])
    builder.graph.inputs, builder.graph.outputs = [a, b], [c]


ABOVE = np.pad(X, [(0, 0), (1, 0), (0, 0)], constant_values=-np.inf)[:, :-1]


@pytest.mark.parametrize(
    ("want", "name", "given", "options"),
    [
        (PADDED[:, :, 1:], "PAD", [X, np.float32(7)],
         {"edge_padding_low": [0, 1, -1], "edge_padding_high": [0, 2, 0], "interior_padding": [0, 0, 1]}),
        (np.einsum("abc,dca->abd", X, WEIGHT), "DOT_GENERAL", [X, WEIGHT],
         {"lhs_batching_dimensions": [0], "rhs_batching_dimensions": [2],
          "lhs_contracting_dimensions": [2], "rhs_contracting_dimensions": [1]}),
        *(
            (np.maximum(X.max((0, 2)), start), "REDUCE", [X, np.float32(start)],
             {"dimensions": [0, 2], "body_subgraph_index": 1})
            for start in (-np.inf, 0.5)
        ),
        (np.maximum(X, ABOVE).reshape(2, 3, 2, 2).max(-1), "REDUCE_WINDOW", [X, np.float32(-np.inf)],
         {"window_dimensions": [1, 2, 2], "window_strides": [1, 1, 2], "padding": [0, 0, 1, 0, 0, 0],
          "body_subgraph_index": 1}),
    ],
)  # fmt: skip
def test_an_operator_with_a_constant(tmp_path, want, name, given, options):
    check(tmp_path, want, f"STABLEHLO_{name}", given, [1], 1e-4, bodies=maximum, **options)


def test_numbers_along_an_axis(tmp_path):
    made = TinyModel()
    x, i, y = (made.tensor(name, [2, 3]) for name in "xiy")
    made.op("STABLEHLO_IOTA", [], [i], iota_dimension=1)
    made.op("ADD", [x, i], [y])
    model = xdlc.convert(made.write(tmp_path / "m.tflite", [x], [y]))
    got = xdlc.run(model, {"x": np.zeros((2, 3), np.float32)})["y"]
    np.testing.assert_array_equal(got, [[0, 1, 2]] * 2)


@pytest.mark.parametrize("groups", [0, 1])
def test_a_convolution_of_channel_first_values(tmp_path, groups):
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
        "batch_group_count": groups,
    }
    padded = np.pad(x, [(0, 0), (0, 0), (0, 1), (0, 1)])
    shifted = np.stack([padded[:, :, r : r + 4, c : c + 4] for r in range(2) for c in range(2)], -1)
    wanted = np.einsum("nihwk,oik->nohw", shifted, weight.reshape(3, 2, 4))
    check(tmp_path, wanted, "STABLEHLO_CONVOLUTION", [x, weight], [1], 1e-4, **options)


@pytest.mark.parametrize("name", ["SORT", "SCATTER", "CUSTOM_CALL", "RNG_BIT_GENERATOR"])
def test_others_are_refused(tmp_path, name):
    with pytest.raises(UnsupportedOp):
        converted(tmp_path, f"STABLEHLO_{name}", [X], [(X.shape,)])


@pytest.mark.parametrize("name", ["REDUCE", "REDUCE_WINDOW"])
def test_reductions_of_several_values_are_not_supported(tmp_path, name):
    values, options = [X, X, np.float32(0), np.float32(0)], {"body_subgraph_index": 1}
    with pytest.raises(UnsupportedOp, match="2 values at once"):
        converted(tmp_path, f"STABLEHLO_{name}", values, [((3,),)], [2, 3], maximum, **options)
