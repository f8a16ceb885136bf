"""Convolutions, pools, image sizes, normalizations, quantization, transforms."""

from __future__ import annotations

import numpy as np
import pytest

import xdlc
from tests.converter.tensorflow.tf_models import Graph, evaluate
from xdlc.errors import UnsupportedOp

RNG = np.random.default_rng(0)


def normal(*size):
    return RNG.normal(size=size).astype(np.float32)


def convolved(x, weight, strides, pads):
    """Return a convolution of [N, H, W, C] with [h, w, C, O], element by element."""
    x = np.pad(x, [(0, 0), *pads, (0, 0)])
    height, width = weight.shape[:2]
    rows, columns = ((x.shape[i + 1] - weight.shape[i]) // strides[i] + 1 for i in range(2))
    out = np.zeros((x.shape[0], rows, columns, weight.shape[3]), np.float32)
    for row in range(rows):
        for column in range(columns):
            y, z = row * strides[0], column * strides[1]
            out[:, row, column] = np.tensordot(x[:, y : y + height, z : z + width], weight, 3)
    return out


@pytest.mark.parametrize(
    ("padding", "pads"),
    [("SAME", [(0, 1), (1, 1)]), ("VALID", [(0, 0), (0, 0)]), ("EXPLICIT", [(2, 0), (0, 1)])],
)
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_padding_and_data_format_of_a_convolution(padding, pads, layout):
    x, weight = (
        RNG.normal(size=(2, 6, 7, 3)).astype(np.float32),
        RNG.normal(size=(3, 3, 3, 4)).astype(np.float32),
    )
    expected = convolved(x, weight, (2, 2), pads)
    strides, explicit = [1, 2, 2, 1], [0, 0, *pads[0], *pads[1], 0, 0]
    if layout == "NCHW":
        x, strides, explicit = x.transpose(0, 3, 1, 2), [1, 1, 2, 2], [0, 0, 0, 0, *pads[0], *pads[1]]
    given = {"explicit_paddings": explicit} if padding == "EXPLICIT" else {}
    found = evaluate(
        "Conv2D", x, weight, constant=(1,), strides=strides, padding=padding, data_format=layout, **given
    )
    found = found.transpose(0, 2, 3, 1) if layout == "NCHW" else found
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(("padding", "size"), [("SAME", 7), ("SAME", 8), ("VALID", 9), ("VALID", 10)])
def test_a_transposed_convolution_is_the_gradient_of_the_convolution_of_its_size(padding, size):
    x, weight = (
        RNG.normal(size=(1, 4, 4, 2)).astype(np.float32),
        RNG.normal(size=(3, 3, 1, 2)).astype(np.float32),
    )
    sizes = np.asarray([1, size, size, 1], np.int32)
    result = evaluate(
        "Conv2DBackpropInput", sizes, weight, x, constant=(0, 1), strides=[1, 2, 2, 1], padding=padding
    )
    total = max(3 * 2 + 3 - size, 0) if padding == "SAME" else 0
    image = RNG.normal(size=(1, size, size, 1)).astype(np.float32)
    forward = convolved(image, weight, (2, 2), [(total // 2, total - total // 2)] * 2)
    np.testing.assert_allclose((forward * x).sum(), (result * image).sum(), rtol=1e-4)


def test_a_mean_leaves_the_padding_out():
    x = np.ones((1, 3, 3, 1), np.float32)
    window = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}
    np.testing.assert_array_equal(evaluate("AvgPool", x, **window), np.ones((1, 2, 2, 1)))


def test_places_of_the_greatest_elements_count_over_the_image():
    x = RNG.permutation(2 * 4 * 4 * 3).reshape(2, 4, 4, 3).astype(np.float32)
    window = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
    most, places = evaluate("MaxPoolWithArgmax", x, outputs=2, **window)
    np.testing.assert_array_equal(
        most.reshape(2, -1), np.take_along_axis(x.reshape(2, -1), places.reshape(2, -1), 1)
    )


def test_areas_are_means_and_regions_are_interpolated():
    x = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)
    result = evaluate("ResizeArea", x, np.asarray([2, 2], np.int32), constant=(1,))
    np.testing.assert_allclose(result.reshape(-1), [2.5, 4.5, 10.5, 12.5])
    boxes = np.asarray([[0, 0, 1, 1], [0.5, 0.5, 2, 1]], np.float32)
    result = evaluate(
        "CropAndResize", x, boxes, np.zeros(2, np.int32), np.asarray([2, 2], np.int32), constant=(2, 3),
        extrapolation_value=-1.0,
    )  # fmt: skip
    np.testing.assert_allclose(result[..., 0], [[[0, 3], [12, 15]], [[7.5, 9], [-1, -1]]])


def test_a_training_graph_normalizes_by_its_batch_and_says_so():
    x, none = RNG.normal(size=(2, 3, 4, 5)).astype(np.float32), np.zeros(0, np.float32)
    scale, offset = np.full(5, 2, np.float32), np.ones(5, np.float32)
    notices = []
    found = evaluate("FusedBatchNormV3", x, scale, offset, none, none, constant=(1, 2, 3, 4), notices=notices)
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    np.testing.assert_allclose(found, (x - mean) / np.sqrt(variance + 1e-4) * 2 + 1, atol=1e-4)
    assert any("statistics of the batch" in notice for notice in notices)


def test_rows_that_are_normalized_alone_are_a_layer_norm():
    x, none = RNG.normal(size=(1, 6, 5, 1)).astype(np.float32), np.zeros(0, np.float32)
    scale, offset = np.ones(6, np.float32), np.zeros(6, np.float32)
    notices = []
    result = evaluate(
        "FusedBatchNormV3", x, scale, offset, none, none, constant=(1, 2, 3, 4), notices=notices,
        data_format="NCHW",
    )  # fmt: skip
    mean, variance = x.mean(2, keepdims=True), x.var(2, keepdims=True)
    np.testing.assert_allclose(result, (x - mean) / np.sqrt(variance + 1e-4), atol=1e-4)
    assert not notices


def test_steps_of_a_fused_operator_follow_in_order():
    x, weight, bias = (RNG.normal(size=size).astype(np.float32) for size in ((3, 4), (4, 5), (5,)))
    found = evaluate(
        "_FusedMatMul", x, weight, bias, constant=(1, 2), fused_ops=[b"BiasAdd", b"Relu"], num_args=1
    )
    np.testing.assert_allclose(found, np.maximum(x @ weight + bias, 0), atol=1e-5)
    with pytest.raises(UnsupportedOp, match="'Magic'"):
        evaluate(
            "_FusedMatMul", x, weight, bias, constant=(1, 2), fused_ops=[b"BiasAdd", b"Magic"], num_args=1
        )


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_steps_of_a_fused_convolution(layout):
    x, weight = normal(1, 3, 4, 2), normal(1, 1, 2, 5)
    scale, offset, mean, variance = normal(5), normal(5), normal(5), np.abs(normal(5))
    want = (x @ weight[0, 0] - mean) / np.sqrt(variance + 0.01) * scale + offset
    want = np.where(want > 0, want, want * np.float32(0.5))
    to, back = ((0, 3, 1, 2), (0, 2, 3, 1)) if layout == "NCHW" else ((0, 1, 2, 3),) * 2
    operands = [x.transpose(to), weight, scale, offset, mean, variance]
    steps = {"fused_ops": [b"FusedBatchNorm", b"LeakyRelu"], "epsilon": 0.01, "leakyrelu_alpha": 0.5}
    window = {"strides": [1, 1, 1, 1], "padding": "VALID", "data_format": layout}
    found = evaluate("_FusedConv2D", *operands, constant=range(1, 6), num_args=4, **steps, **window)
    np.testing.assert_allclose(found.transpose(back), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("bits", "narrow"), [(8, False), (8, True), (4, False), (16, False)])
def test_fake_quantization_rounds_to_the_nudged_range(bits, narrow):
    x, low, high = RNG.uniform(-3, 4, (5, 7)).astype(np.float32), np.float32(-1.3), np.float32(2.1)
    given = {"num_bits": bits, "narrow_range": narrow}
    found = evaluate("FakeQuantWithMinMaxVars", x, low, high, constant=(1, 2), **given)
    step = (2.1 + 1.3) / ((1 << bits) - 1 - narrow)
    zero = np.floor(narrow + 1.3 / step + 0.5)
    wanted = (np.clip(np.floor(x / step + zero + 0.5), narrow, (1 << bits) - 1) - zero) * step
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_fake_quantization_becomes_an_encoding(tmp_path):
    graph = Graph().input("x", 2, 3).const("low", np.float32(-1)).const("high", np.float32(1))
    graph.node("FakeQuantWithMinMaxVars", "q", ["x", "low", "high"]).node("Relu", "y", ["q"])
    model = xdlc.convert(graph.save(tmp_path / "m.pb"))
    (tensor,) = (
        model.graphs["main"].inputs if "main" in model.graphs else next(iter(model.graphs.values())).inputs
    )
    assert tensor.dtype.is_fixed
    assert tensor.encoding.scale == pytest.approx(2 / 255)


@pytest.mark.parametrize(("mode", "wanted"), [("MIN_COMBINED", [-1, 0.5, 2]), ("SCALED", [0, 1, 2])])
def test_integers_denote_what_their_mode_states(mode, wanted):
    stored = np.asarray([0, 127.5, 255], np.float32).astype(np.uint8)
    ends = (np.float32(-1), np.float32(2))
    found = evaluate("Dequantize", stored, *ends, constant=(1, 2), mode=mode)
    np.testing.assert_allclose(found, wanted, atol=0.02)


BOXES = np.asarray([[0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 3, 3]], np.float32)
SCORES = np.asarray([0.9, 0.8, 0.7], np.float32)


def test_suppressed_boxes_leave_zeros_after_the_chosen_ones():
    numbers = (np.int32(3), np.float32(0.5), np.float32(0.1))
    chosen, count = evaluate(
        "NonMaxSuppressionV4", BOXES, SCORES, *numbers, constant=(2, 3, 4), outputs=2,
        pad_to_max_output_size=True,
    )  # fmt: skip
    np.testing.assert_array_equal(chosen, [0, 2, 0])
    assert count == 2


def test_soft_suppression_lowers_scores():
    numbers = (np.int32(3), np.float32(1), np.float32(0.1), np.float32(0.5))
    chosen, scores, count = evaluate(
        "NonMaxSuppressionV5", BOXES, SCORES, *numbers, constant=(2, 3, 4, 5), outputs=3,
        pad_to_max_output_size=True,
    )  # fmt: skip
    np.testing.assert_array_equal(chosen, [0, 2, 1])
    np.testing.assert_allclose(scores, [0.9, 0.7, 0.8 * np.exp(-0.81)], rtol=1e-5)
    assert count == 3


def test_the_best_boxes_of_all_classes():
    scores = np.stack([SCORES, SCORES[::-1] / 2], 1)[None]
    numbers = (np.int32(2), np.int32(4), np.float32(0.5), np.float32(0.1))
    boxes, found, classes, count = evaluate(
        "CombinedNonMaxSuppression", BOXES[None, :, None], scores, *numbers, constant=(2, 3, 4, 5), outputs=4,
        clip_boxes=False,
    )  # fmt: skip
    np.testing.assert_allclose(found, [[0.9, 0.7, 0.45, 0.4]])
    np.testing.assert_array_equal(classes, [[0, 0, 1, 1]])
    np.testing.assert_array_equal(boxes[0, :2], BOXES[[0, 2]])
    np.testing.assert_array_equal(count, [4])


@pytest.mark.parametrize("length", [5, 8, 12])
def test_a_real_transform_is_a_pair_of_real_values(tmp_path, length):
    x = RNG.normal(size=(3, 8)).astype(np.float32)
    graph = (
        Graph()
        .input("x", 3, 8)
        .const("length", np.asarray([length], np.int32))
        .node("RFFT", "f", ["x", "length"])
    )
    graph.node("Real", "re", ["f"]).node("Imag", "im", ["f"]).node("IRFFT", "back", ["f", "length"])
    found = xdlc.run(xdlc.convert(graph.save(tmp_path / "m.pb"), notify=lambda _: None), {"x": x})
    wanted = np.fft.rfft(x, length)
    np.testing.assert_allclose(found["re:0"], wanted.real, atol=1e-5)
    np.testing.assert_allclose(found["im:0"], wanted.imag, atol=1e-5)
    np.testing.assert_allclose(found["back:0"], np.fft.irfft(wanted, length), atol=1e-5)


def test_complex_values_are_refused_elsewhere(tmp_path):
    graph = (
        Graph().input("x", 3, 8).const("length", np.asarray([8], np.int32)).node("RFFT", "f", ["x", "length"])
    )
    with pytest.raises(UnsupportedOp, match="complex"):
        xdlc.convert(graph.node("Exp", "e", ["f"]).node("ComplexAbs", "y", ["e"]).save(tmp_path / "m.pb"))


@pytest.mark.parametrize(
    ("op", "wanted"),
    [("FloorDiv", [-4, 3]), ("TruncateDiv", [-3, 3]), ("FloorMod", [1, -1]), ("TruncateMod", [-1, -1])],
)
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_quotients_and_remainders_round_as_they_are_named(op, wanted, dtype):
    x, y = np.asarray([-7, -7], dtype), np.asarray([2, -2], dtype)
    np.testing.assert_array_equal(evaluate(op, x, y), wanted)


def test_quotients_without_nan():
    x, y = np.asarray([1, 0, 3], np.float32), np.asarray([0, 2, 2], np.float32)
    np.testing.assert_allclose(evaluate("DivNoNan", x, y), [0, 0, 1.5])
    np.testing.assert_allclose(evaluate("Xlogy", x, y + 1), [0, 0, 3 * np.log(3)], rtol=1e-6)
    np.testing.assert_allclose(evaluate("Atan2", y - 1, x - 1), np.arctan2(y - 1, x - 1), rtol=1e-6)


def test_a_condition_of_rank_1_chooses_rows():
    x, condition = np.arange(6, dtype=np.float32).reshape(3, 2), np.asarray([True, False, True])
    np.testing.assert_array_equal(evaluate("Select", condition, x, -x), np.where(condition[:, None], x, -x))


def test_no_axes_reduce_nothing():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(evaluate("Sum", x, np.zeros(0, np.int32), constant=(1,)), x)
    found = evaluate("Mean", x.astype(np.int32), np.asarray([-1], np.int32), constant=(1,), keep_dims=True)
    np.testing.assert_array_equal(found, [[1], [4]])


@pytest.mark.parametrize("stride", [1, 2])
def test_images_of_open_size_are_padded_when_the_graph_runs(tmp_path, stride):
    weight = normal(3, 3, 2, 4)
    graph = Graph().input("x", None, None, None, 2).const("w", weight)
    graph.node("Conv2D", "y", ["x", "w"], strides=[1, stride, stride, 1], padding="SAME")
    model = xdlc.convert(graph.save(tmp_path / "m.pb"), notify=lambda _: None)
    for size in (5, 6):
        x = normal(1, size, 7, 2)
        total = [max((-(-n // stride) - 1) * stride + 3 - n, 0) for n in (size, 7)]
        wanted = convolved(x, weight, (stride, stride), [(n // 2, n - n // 2) for n in total])
        np.testing.assert_allclose(xdlc.run(model, {"x": x})["y:0"], wanted, atol=1e-5)


def test_a_computed_output_shape_is_taken_to_be_that_of_keras(tmp_path):
    weight, notices = normal(3, 3, 5, 2), []
    graph = Graph().input("x", None, 4, 4, 2).input("shape", 4, dtype="int32").const("w", weight)
    graph.node("Conv2DBackpropInput", "y", ["shape", "w", "x"], strides=[1, 2, 2, 1], padding="SAME")
    model = xdlc.convert(graph.save(tmp_path / "m.pb"), {"x": [-1, 4, 4, 2]}, notify=notices.append)
    found = xdlc.run(model, {"x": normal(2, 4, 4, 2), "shape": np.asarray([2, 8, 8, 5], np.int32)})["y:0"]
    assert found.shape == (2, 8, 8, 5)
    assert any("8 x 8" in each for each in notices)


def test_a_network_of_fake_quantized_values_computes_in_fixed_point(tmp_path):
    graph = Graph().input("x", 1, 6, 6, 3).const("w", normal(3, 3, 3, 4)).const("b", normal(4))
    for name, value, low, high, narrow in (("qx", "x", -2, 2, False), ("qw", "w", -1.5, 1.5, True)):
        graph.const(f"{name}l", np.float32(low)).const(f"{name}h", np.float32(high))
        inputs = [value, f"{name}l", f"{name}h"]
        graph.node("FakeQuantWithMinMaxVars", name, inputs, num_bits=8, narrow_range=narrow)
    graph.node("Conv2D", "conv", ["qx", "qw"], strides=[1, 1, 1, 1], padding="SAME")
    graph.node("BiasAdd", "biased", ["conv", "b"]).node("Relu", "relu", ["biased"])
    graph.const("low", np.float32(0)).const("high", np.float32(9))
    graph.node("FakeQuantWithMinMaxVars", "y", ["relu", "low", "high"])
    model = xdlc.convert(graph.save(tmp_path / "m.pb"))
    (converted,) = model.graphs.values()
    types = [tensor.dtype.name for op in converted.ops for tensor in (*op.inputs, *op.outputs)]
    assert set(types) == {"ufixed8", "sfixed8", "sfixed32"}
    weight = next(tensor for op in converted.ops for tensor in op.inputs if tensor.dtype.name == "sfixed8")
    assert weight.encoding.offset == 0


def test_functions_without_an_operator_of_their_own():
    x, y, z = (np.asarray(values, np.float32) for values in ([0.3, 1.5, 4], [0.5, -0.99], [1e-6, 2]))
    np.testing.assert_allclose(evaluate("Digamma", x), [-3.50252, 0.03649, 1.256118], rtol=1e-4)
    np.testing.assert_allclose(evaluate("Lgamma", x), [1.0957980, -0.1207822, 1.7917595], rtol=1e-4)
    np.testing.assert_allclose(evaluate("Erfinv", y), [0.476936, -1.821386], rtol=1e-5)
    np.testing.assert_allclose(evaluate("Expm1", z), np.expm1(z), rtol=1e-5)


def test_several_readers_of_a_channel_first_value_share_its_transpose(tmp_path):
    graph = Graph().input("x", 1, 3, 6, 6).const("w", normal(1, 1, 3, 2)).const("axis", np.int32(1))
    convolution = {"strides": [1, 1, 1, 1], "padding": "VALID", "data_format": "NCHW"}
    graph.node("Conv2D", "a", ["x", "w"], **convolution).node("Conv2D", "b", ["x", "w"], **convolution)
    graph.node("ConcatV2", "c", ["a", "b", "x", "axis"]).const("axes", np.asarray([2, 3], np.int32))
    model = xdlc.convert(graph.node("Mean", "y", ["c", "axes"]).save(tmp_path / "m.pb"))
    (converted,) = model.graphs.values()
    assert [op.type for op in converted.ops].count("Transpose") == 1


@pytest.mark.parametrize("share", [1.0, 0.25])
def test_statistics_of_a_batch_have_a_share_in_the_running_ones(share):
    x, former = normal(2, 3, 3, 2), np.asarray([0.5, -2], np.float32)
    ones = np.ones(2, np.float32)
    _, mean, variance = evaluate(
        "FusedBatchNormV3",
        *(x, ones, ones, former, ones),
        constant=(1, 2, 3, 4),
        outputs=3,
        is_training=True,
        exponential_avg_factor=share,
    )
    rows = x.reshape(-1, 2)
    np.testing.assert_allclose(mean, former * (1 - share) + rows.mean(0) * share, atol=1e-5)
    np.testing.assert_allclose(variance, 1 - share + rows.var(0, ddof=1) * share, atol=1e-4)
