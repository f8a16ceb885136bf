"""Operators that QNN lacks or has under another name, compared by their results."""

from __future__ import annotations

import numpy as np
import pytest

import xdlc
from tests.support.onnx_models import RNG, build, check, expected, floats, node
from xdlc.errors import ModelError


def test_is_nan_and_is_inf(models):
    feeds = {"x": np.array([1, np.nan, np.inf, -np.inf, 0], np.float32)}
    check(models, [node("IsNaN")], feeds)
    for negative in (0, 1):
        check(models, [node("IsInf", detect_negative=negative)], feeds)


@pytest.mark.parametrize("k", [None, -9, -1, 0, 2, 9])
@pytest.mark.parametrize("upper", [0, 1])
def test_trilu_cuts_infinities_off(models, k, upper):
    x = np.where(RNG.random((2, 4, 5)) > 0.7, np.inf, 1).astype(np.float32)
    weights = {} if k is None else {"k": np.int64(k)}
    check(models, [node("Trilu", "x" if k is None else "x k", upper=upper)], {"x": x}, weights)


def test_trilu_of_64_bit_integers(models):
    x = (np.arange(12) + (1 << 60)).reshape(3, 4)
    check(models, [node("Trilu")], {"x": x})


@pytest.mark.parametrize("attributes", [{}, {"k": 1}, {"k": -2, "dtype": 7}])
def test_eye_like(models, attributes):
    check(models, [node("EyeLike", **attributes)], {"x": floats(4, 5)})


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("values", [np.array([2, 5], np.float32), np.array([0, 7], np.int64)])
def test_one_hot_counts_from_the_end_once(models, axis, values):
    feeds = {"x": np.array([[0, -1, 4], [5, -5, -7]])}
    weights = {"depth": np.int64(5), "values": values}
    check(
        models,
        [node("OneHot", "x depth values", axis=axis)],
        feeds,
        weights,
        reference=values.dtype == np.int64,
    )


def test_one_hot_of_values_beyond_a_parameter_is_kept_for_the_host(models):
    weights = {"depth": np.int64(3), "values": np.array([0, 1 << 40])}
    check(models, [node("OneHot", "x depth values")], {"x": np.array([0, 2])}, weights, native=False)


@pytest.mark.parametrize(("opset", "axis"), [(17, 0), (17, 1), (17, -1), (11, 1)])
def test_hardmax(models, opset, axis):
    check(models, [node("Hardmax", axis=axis)], {"x": floats(3, 4, 5)}, opset=opset)


def test_cubic_grid_sample_is_kept_for_the_host(models):
    feeds = {"x": floats(1, 2, 5, 6), "g": floats(1, 4, 7, 2)}
    check(models, [node("GridSample", "x g", mode="cubic")], feeds, opset=20, native=False)


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (2, 3, 4, 5, 6), (2, 3, 1, 5)])
def test_affine_grid(models, size, align):
    theta = floats(2, len(size) - 2, len(size) - 1)
    nodes = [node("AffineGrid", "x size", align_corners=align)]
    if not (align and 1 in size[2:]):
        check(models, nodes, {"x": theta}, {"size": np.array(size)}, opset=20)


EQUATIONS = {
    "ij->ji": [(3, 4)],
    "ij->": [(3, 4)],
    "abc->ca": [(2, 3, 4)],
    "ii->i": [(4, 4)],
    "iij->ij": [(3, 3, 2)],
    "...ii->...i": [(2, 3, 4, 4)],
    "i,i": [(5,), (5,)],
    "i,j->ij": [(3,), (4,)],
    "bij, bjk -> bik": [(2, 3, 4), (2, 4, 5)],
    "bhid,bhjd->bhij": [(1, 2, 3, 4), (1, 2, 5, 4)],
    "bhwc,hkc->bhwk": [(2, 3, 4, 5), (3, 6, 5)],
    "...ij,...jk->...ik": [(2, 1, 3, 4), (2, 5, 4, 6)],
    "ab,bc,cd->ad": [(2, 3), (3, 4), (4, 5)],
    "ijk,ijk->ik": [(2, 3, 4), (2, 3, 4)],
    "nchw,nc->nhw": [(2, 3, 4, 5), (2, 3)],
    "ba,ca": [(2, 3), (4, 3)],
}


@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum(models, equation):
    shapes = EQUATIONS[equation]
    names = [f"x{index}" for index in range(len(shapes))]
    feeds = {name: floats(*shape) for name, shape in zip(names, shapes, strict=True)}
    check(models, [node("Einsum", " ".join(names), equation=equation)], feeds)


def test_einsum_of_64_bit_integers(models):
    feeds = {"a": np.arange(6).reshape(2, 3) + (1 << 40), "b": np.arange(12).reshape(3, 4)}
    check(models, [node("Einsum", "a b", equation="ij,jk->ik")], feeds)


@pytest.mark.parametrize("axis", [None, 0, -1])
def test_compress(models, axis):
    attributes = {} if axis is None else {"axis": axis}
    weights = {"c": np.array([True, False, True])}
    check(models, [node("Compress", "x c", **attributes)], {"x": floats(3, 4)}, weights)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_cumulative_product(models, exclusive, reverse, dtype):
    x = (floats(3, 5) * 3).astype(dtype)
    nodes = [node("CumProd", "x axis", exclusive=exclusive, reverse=reverse)]
    check(models, nodes, {"x": x}, {"axis": np.int64(1)}, opset=26, reference=True)


@pytest.mark.parametrize(("mode", "start"), [("linear", (1, 3)), ("circular", (5, 3)), ("linear", None)])
def test_tensor_scatter(models, mode, start):
    feeds = {"p": floats(2, 3, 6, 4), "u": floats(2, 3, 2, 4)}
    weights = {} if start is None else {"w": np.array(start)}
    nodes = [node("TensorScatter", "p u" + (" w" if start else ""), mode=mode)]
    check(models, nodes, feeds, weights, opset=24)


def test_attention_is_written_out(models):
    feeds = {name: floats(1, 2, 5, 8) for name in "qkv"}
    check(models, [node("Attention", "q k v", is_causal=1)], feeds, opset=24)


def test_mean_variance_normalization_knows_its_default_axes(models):
    check(models, [node("MeanVarianceNormalization")], {"x": floats(2, 3, 4, 5)})


@pytest.mark.parametrize("shape", [(2, 4, 5, 6), (1, 4, 7)])
def test_dilated_transposed_convolution(models, shape):
    axes = len(shape) - 2
    weights = {"w": floats(4, 3, *(3, 2)[:axes])}
    attributes = {"dilations": [2, 3][:axes], "strides": [2, 1][:axes]}
    check(models, [node("ConvTranspose", "x w", **attributes)], {"x": floats(*shape)}, weights)


REGIONS = np.array([[0, 0, 9, 9], [0, 5, 4, 9], [5, 5, 9.5, 9], [2, 2, 2.3, 2.4]], np.float32)


@pytest.mark.parametrize("scale", [1.0, 0.5])
@pytest.mark.parametrize("samples", [0, 2])
@pytest.mark.parametrize("mode", ["half_pixel", "output_half_pixel"])
def test_roi_align(models, mode, samples, scale):
    attributes = {
        "output_height": 3,
        "output_width": 2,
        "sampling_ratio": samples,
        "spatial_scale": scale,
        "coordinate_transformation_mode": mode,
    }
    feeds = {"x": floats(2, 3, 10, 10), "r": REGIONS / np.float32(scale)}
    check(models, [node("RoiAlign", "x r b", **attributes)], feeds, {"b": np.array([0, 1, 0, 1])})


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("window", [None, "known", "computed"])
def test_stft(models, window, onesided):
    feeds, weights = {"x": floats(2, 64, 1)}, {"s": np.array(7), "l": np.array(16)}
    if window is not None:
        (weights if window == "known" else feeds)["w"] = np.hanning(16).astype(np.float32)
    nodes = [node("STFT", f"x s {'w' if window else '-'} l", onesided=onesided)]
    check(models, nodes, feeds, weights, rtol=1e-4, atol=1e-4)


COLUMNS = [
    ((1, 15, 5), (5, 5), (1, 5), {}),
    ((1, 12, 4), (5, 5), (2, 3), {"strides": [2, 2]}),
    ((2, 12, 20), (6, 4), (3, 2), {"pads": [0, 1, 1, 0]}),
    ((2, 12, 15), (6, 7), (2, 3), {"dilations": [1, 2]}),
    ((2, 16, 8), (3, 3, 3), (2, 2, 2), {}),
]


@pytest.mark.parametrize(("shape", "image", "block", "attributes"), COLUMNS)
def test_col2im(models, shape, image, block, attributes):
    weights = {"i": np.array(image), "b": np.array(block)}
    check(models, [node("Col2Im", "x i b", **attributes)], {"x": floats(*shape)}, weights, opset=18)


def test_clip_of_doubles_is_exact(models):
    weights = {"low": np.float64(-0.1), "high": np.float64(0.3)}
    check(models, [node("Clip", "x low high")], {"x": np.linspace(-1, 1, 7)}, weights, rtol=0, atol=0)


def test_cast_to_half_and_back_rounds(models):
    nodes = [node("Cast", "x", "h", to=10), node("Relu", "h", "r"), node("CastLike", "r x")]
    check(models, nodes, {"x": np.array([0.1, 3.14159, -1], np.float32)}, reference=True, rtol=0, atol=0)


@pytest.mark.parametrize(
    "node",
    [
        node("Affine", alpha=2.0, beta=0.5),
        node("Scale", scale=2.0),
        node("ScaledTanh", alpha=2.0, beta=0.5),
        node("ParametricSoftplus", alpha=2.0, beta=0.5),
        node("ImageScaler", scale=2.0, bias=[1.0, 2.0, 3.0]),
        node("Crop", border=[1, 2, 1, 0]),
        node("Crop", border=[1, 2, 1, 0], scale=[2, 3]),
        node("DynamicSlice", "x s e a"),
    ],
)
def test_operators_that_onnx_removed(models, node):
    weights = {"s": np.array([1]), "e": np.array([-1]), "a": np.array([2])}
    check(
        models,
        [node],
        {"x": floats(1, 3, 6, 6)},
        weights if node.op_type == "DynamicSlice" else None,
        opset=7,
    )


X = np.array([-np.inf, -3, -1, -0.1, 0, 0.1, 1, 3, np.inf], np.float32)


@pytest.mark.parametrize("alpha", [-0.3, -4.0, 0.01, 1e6])
def test_celu_of_any_alpha(models, alpha):
    check(models, [node("Celu", alpha=alpha)], {"x": X})


@pytest.mark.parametrize("lambd", [-0.3, 0.0, 1e6])
@pytest.mark.parametrize("bias", [-2.0, 0.1])
def test_shrink_of_limits_that_cross(models, lambd, bias):
    check(models, [node("Shrink", lambd=lambd, bias=bias)], {"x": X[1:-1]})


@pytest.mark.parametrize("type", ["Sum", "Mean", "Max", "Min"])
def test_inputs_that_repeat_very_often(models, type):
    names = " ".join(["x", "z"] * 4_000 + ["x"] * 2_000)
    found = check(models, [node(type, names)], {"x": X[1:-1], "z": X[:0:-1][1:]}, rtol=1e-4)
    assert len(found.main.ops) < 6


@pytest.mark.parametrize(
    ("type", "names", "attributes"),
    [
        ("TopK", "x k", {"sorted": 2}),
        ("ReduceSum", "x", {"noop_with_empty_axes": -1}),
        ("ReduceMax", "x", {"keepdims": 3}),
        ("CumSum", "x k", {"reverse": 2}),
        ("Gemm", "x x", {"transB": 2}),
        ("ArgMax", "x", {"select_last_index": -1}),
        ("RotaryEmbedding", "q c c", {"interleaved": 2, "num_heads": 2}),
        ("Attention", "q q q", {"softcap": -1.0, "q_num_heads": 2, "kv_num_heads": 2}),
        ("Attention", "q q q", {"is_causal": 2, "q_num_heads": 2, "kv_num_heads": 2}),
    ],
)
def test_flags_are_0_or_1(models, type, names, attributes):
    feeds = {"x": floats(3, 3)} if names[0] == "x" else {"q": floats(1, 4, 8)}
    weights = {"k": np.array([1]), "c": floats(1, 4, 2)}
    outputs = "y i" if type == "TopK" else "y"
    model = build([node(type, names, outputs, **attributes)], feeds, weights, ["y"], 23)
    with pytest.raises(ModelError, match=next(iter(attributes))):
        xdlc.convert(models.save(model))


def test_conv_transpose_to_a_shape_of_all_axes(models):
    x, weights = floats(1, 1, 3, 3), {"w": floats(1, 3, 3, 3)}
    made = node("ConvTranspose", "x w", strides=[3, 2], kernel_shape=[3, 3], output_shape=[1, 3, 10, 8])
    model = build([made], {"x": x}, weights, ["y"], 17)
    model.graph.input[0].type.tensor_type.ClearField("shape")  # ONNX's inference refuses it for known ranks
    (reference,) = expected(model, {"x": x}, reference=False)
    result = xdlc.run(xdlc.convert(models.save(model), {"x": x.shape}), {"x": x})["y"]
    np.testing.assert_allclose(result, reference, rtol=1e-5, atol=1e-5)


def test_a_rotation_of_no_positions(models):
    weights = {"c": floats(50, 4), "s": floats(50, 4), "i": np.zeros((2, 0), np.int64)}
    check(models, [node("RotaryEmbedding", "x c s i")], {"x": floats(2, 3, 0, 8)}, weights, opset=23)


@pytest.mark.parametrize("dtype", [np.float64, np.int32])
@pytest.mark.parametrize("type", ["Conv", "ConvTranspose", "MatMul", "Gemm", "PRelu", "Einsum"])
def test_operands_of_other_types_are_refused(models, type, dtype):
    shapes = {"Conv": ((1, 2, 4, 4), (2, 2, 1, 1)), "PRelu": ((2, 3), (3,))}
    x, w = shapes.get(type.removesuffix("Transpose"), ((2, 3), (3, 4)))
    attributes = {"equation": "ij,jk->ik"} if type == "Einsum" else {}
    feeds, weights = {"x": floats(*x)}, {"w": floats(*w).astype(dtype)}
    model = build([node(type, "x w", **attributes)], feeds, weights, ["y"], 17)
    with pytest.raises(ModelError, match="must have one type"):
        xdlc.convert(models.save(model))
