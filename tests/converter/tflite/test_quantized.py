"""Quantized TFLite files: fixed point throughout, encodings, stored weights."""

import ml_dtypes
import numpy as np
import pytest

import xdlc
from tests.converter.tflite.models import TinyModel
from xdlc import ir
from xdlc.converter.pipeline import import_model
from xdlc.converter.session.diagnostics import Diagnostics
from xdlc.converter.tflite import FRONTEND
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.schema._generated import tflite as schema


def _types(model):
    return [op.type for op in model.main.ops]


def _converted(made, tmp_path, inputs, outputs):
    return xdlc.convert(made.write(tmp_path / "m.tflite", inputs, outputs))


def test_signed_integers_stay_at_inputs_and_outputs_and_unsigned_ones_are_computed_with(tmp_path):
    builder = TinyModel()
    x = builder.tensor("x", [1, 8], np.int8, scale=0.5, zero=3)
    y = builder.tensor("y", [1, 8], np.int8, scale=0.25, zero=-7)
    z = builder.tensor("z", [1, 8], np.int8, scale=0.25, zero=-7)
    builder.op("ABS", [x], [y])
    builder.op("NEG", [y], [z])
    model = _converted(builder, tmp_path, [x], [z])
    assert _types(model) == ["Convert", "ElementWiseUnary", "ElementWiseUnary", "Convert"]
    assert [tensor.dtype for tensor in (*model.main.inputs, *model.main.outputs)] == [ir.dtype.SFIXED8] * 2
    inner = model.main.tensors["y"]
    assert (inner.dtype, inner.encoding) == (ir.dtype.UFIXED8, ir.ScaleOffset(0.25, -121))
    values = np.array([[-128, -3, 0, 2, 3, 4, 60, 127]], np.int8)
    got = xdlc.run(model, {"x": values}, native=True)["z"]
    want = np.clip(-np.clip(np.abs(values.astype(int) - 3) * 2 - 7, -128, 127) - 14, -128, 127)
    np.testing.assert_array_equal(got, want)


def test_two_readers_of_an_input_share_one_convert(tmp_path):
    builder = TinyModel()
    x = builder.tensor("x", [4], np.int8, scale=0.5)
    y, z = (builder.tensor(name, [4], np.int8, scale=0.5) for name in "yz")
    builder.op("ABS", [x], [y])
    builder.op("NEG", [x], [z])
    assert _types(_converted(builder, tmp_path, [x], [y, z])).count("Convert") == 3


@pytest.mark.parametrize(("shift", "count"), [(0, 0), (1, 1)])
def test_a_clip_that_the_encoding_implies_is_no_op(tmp_path, shift, count):
    made = TinyModel()
    x = made.tensor("x", [4], np.int8, scale=0.5)
    y = made.tensor("y", [4], np.int8, scale=6 / 255, zero=-128 + shift)
    made.op("ADD", [x, x], [y], fused_activation_function=3)
    assert _types(_converted(made, tmp_path, [x], [y])).count("ElementWiseNeuron") == count


def test_an_unsigned_input_that_is_only_shifted_needs_no_operation(tmp_path):
    builder = TinyModel()
    x = builder.tensor("x", [4], np.uint8, scale=0.5, zero=10)
    q = builder.tensor("q", [4], np.int8, scale=0.5, zero=-118)
    y = builder.tensor("y", [4], np.int8, scale=0.5, zero=-118)
    z = builder.tensor("z", [4], np.uint8, scale=0.5, zero=10)
    builder.op("QUANTIZE", [x], [q])
    builder.op("ABS", [q], [y])
    builder.op("QUANTIZE", [y], [z])
    model = _converted(builder, tmp_path, [x], [z])
    assert _types(model) == ["ElementWiseUnary"]
    values = np.array([0, 9, 10, 255], np.uint8)
    got = xdlc.run(model, {"x": values}, native=True)["z"]
    np.testing.assert_array_equal(got, [20, 11, 10, 255])


def test_float_inputs_and_outputs_of_a_quantized_graph_stay_float(tmp_path):
    builder = TinyModel()
    x, y = builder.tensor("x", [4]), builder.tensor("y", [4])
    q = builder.tensor("q", [4], np.int8, scale=0.5, zero=1)
    r = builder.tensor("r", [4], np.int8, scale=0.5, zero=1)
    builder.op("QUANTIZE", [x], [q])
    builder.op("ABS", [q], [r])
    builder.op("DEQUANTIZE", [r], [y])
    model = _converted(builder, tmp_path, [x], [y])
    assert _types(model) == ["Quantize", "ElementWiseUnary", "Dequantize"]
    got = xdlc.run(model, {"x": np.float32([-1, -0.3, 0.1, 90])}, native=True)["y"]
    np.testing.assert_array_equal(got, np.float32([1, 0.5, 0, 63]))


def _conv(bias_dtype=np.int32, dtype=np.int8, weights=np.int8):
    builder = TinyModel()
    x = builder.tensor("x", [1, 4, 4, 2], dtype, scale=1 / 64, zero=3 if dtype is np.int8 else 0)
    steps = np.float32([0.01, 0.02, 0.03])
    w = np.random.default_rng(0).integers(-7, 8, [3, 3, 3, 2])
    w = builder.tensor("w", dtype=weights, data=w, scale=steps, axis=0)
    b = builder.tensor("b", dtype=bias_dtype, data=[100, -200, 0], scale=steps / 64, axis=0)
    y = builder.tensor("y", [1, 2, 2, 3], dtype, scale=1 / 32, zero=-5 if dtype is np.int8 else 0)
    builder.op("CONV_2D", [x, w, b], [y], padding=1, stride_w=1, stride_h=1)
    return builder, [x], [y]


@pytest.mark.parametrize(
    ("dtype", "weights", "bias"),
    [(np.int8, np.int8, np.int32), (np.int8, ml_dtypes.int4, np.int32), (np.int16, np.int8, np.int64)],
)
def test_a_convolution_is_one_operation_on_fixed_point(tmp_path, dtype, weights, bias):
    made, inputs, outputs = _conv(bias, dtype, weights)
    model = _converted(made, tmp_path, inputs, outputs)
    assert _types(model) == ["Convert", "Conv2d", "Convert"]
    op = model.main.ops[1]
    assert op.inputs[1].encoding.axis == 3
    assert op.inputs[2].dtype is ir.dtype.SFIXED32
    assert op.inputs[1].dtype is ir.dtype.SFIXED8
    assert op.inputs[1].encoding.bits == (4 if weights is ml_dtypes.int4 else None)


def _with_details(tmp_path, grid, details, zero=None, weights=ml_dtypes.int4):
    builder = TinyModel()
    x, y = builder.tensor("x", [2, 64]), builder.tensor("y", [2, 4])
    rng = np.random.default_rng(0)
    w = rng.integers(-2, 2, [4, 64])
    steps = rng.uniform(0.5, 2, grid).astype(np.float16)
    t = builder.tensor("w", dtype=weights, data=w)
    s = builder.tensor("s", dtype=np.float16, data=steps)
    z = builder.tensor("z", dtype=np.int32, data=np.full(grid, zero)) if zero is not None else 0
    kind = type(details).__name__
    number = {"BlockwiseQuantization": 2, "MultiAxisQuantization": 3}[kind]
    details.scales, details.zero_points = s, z
    builder.graph.tensors[t].quantization = schema.QuantizationParameters(
        details_type=number, details=details
    )
    builder.op("FULLY_CONNECTED", [x, t], [y])
    model = _converted(builder, tmp_path, [x], [y])
    values = rng.standard_normal([2, 64]).astype(np.float32)
    full = (steps if len(grid) > 1 else steps[:, None]).astype(np.float64)
    full = np.repeat(full, 64 // full.shape[1], 1)
    want = values @ ((w - (zero or 0)) * full).T
    np.testing.assert_allclose(xdlc.run(model, {"x": values})["y"], want, rtol=1e-4, atol=1e-4)
    return next(op for op in model.main.ops if op.type == "FullyConnected").inputs[1]


def test_weights_with_scales_by_blocks_keep_them(tmp_path):
    weight = _with_details(tmp_path, [4, 2], schema.BlockwiseQuantization(block_size=32))
    assert weight.dtype is ir.dtype.SFIXED4
    assert weight.encoding.block_shape == (1, 32)


def test_zero_points_by_blocks(tmp_path):
    _with_details(tmp_path, [4, 4], schema.BlockwiseQuantization(block_size=16), zero=1)


@pytest.mark.parametrize("grid", [[4], [4, 1], [1, 2], [4, 64]])
def test_scales_along_several_axes(tmp_path, grid):
    _with_details(tmp_path, grid, schema.MultiAxisQuantization(quantized_dimensions=[0, 1][: len(grid)]))


def test_weights_of_two_bits(tmp_path):
    _with_details(tmp_path, [4, 2], schema.BlockwiseQuantization(block_size=32), weights=ml_dtypes.int2)


def test_scales_that_do_not_divide_the_weights_are_refused(tmp_path):
    with pytest.raises(ModelError):
        _with_details(tmp_path, [4, 3], schema.BlockwiseQuantization(block_size=32))


def test_a_quantized_file_becomes_a_float_model_on_request(tmp_path):
    made, inputs, outputs = _conv()
    path = made.write(tmp_path / "m.tflite", inputs, outputs)
    model, fixed = xdlc.convert(path, importer_options={"float": True}), xdlc.convert(path)
    assert _types(model) == ["Conv2d"]
    assert {tensor.dtype for tensor in model.main.tensors.values()} == {ir.dtype.FLOAT32}
    values = np.random.default_rng(1).uniform(-1, 1, [1, 4, 4, 2]).astype(np.float32)
    values = np.round(values * 64) / 64
    got, want = (xdlc.run(each, {"x": values})["y"] for each in (model, fixed))
    np.testing.assert_allclose(got, want, atol=1 / 64 + 1e-6)


def test_weights_by_blocks_become_float_on_request(tmp_path):
    builder = TinyModel()
    x, y = builder.tensor("x", [2, 64]), builder.tensor("y", [2, 4])
    w = np.random.default_rng(0).integers(-8, 8, [4, 64])
    t = builder.tensor("w", dtype=ml_dtypes.int4, data=w)
    s = builder.tensor("s", dtype=np.float16, data=np.full([4, 2], 0.5))
    details = schema.BlockwiseQuantization(scales=s, block_size=32)
    builder.graph.tensors[t].quantization = schema.QuantizationParameters(details_type=2, details=details)
    builder.op("FULLY_CONNECTED", [x, t], [y])
    model = xdlc.convert(builder.write(tmp_path / "m.tflite", [x], [y]), importer_options={"float": True})
    weight = next(op for op in model.main.ops if op.type == "FullyConnected").inputs[1]
    assert weight.dtype is ir.dtype.FLOAT32
    np.testing.assert_array_equal(weight.data.numpy(), w * np.float32(0.5))


def test_weights_of_old_hybrid_models_are_signed(tmp_path):
    made = TinyModel()
    x, y = made.tensor("x", [1, 2]), made.tensor("y", [1, 2])
    w = made.tensor("w", dtype=np.uint8, data=[[1, 255], [128, 127]], scale=0.5)
    made.op("FULLY_CONNECTED", [x, w], [y])
    model = _converted(made, tmp_path, [x], [y])
    got = xdlc.run(model, {"x": np.float32([[1, 2]])})["y"]
    np.testing.assert_array_equal(got, np.float32([[-0.5, 63]]))


def test_a_cast_reads_the_integers_themselves(tmp_path):
    made = TinyModel()
    x, y = made.tensor("x", [3], np.int8, scale=0.5, zero=2), made.tensor("y", [3])
    made.op("CAST", [x], [y])
    model = _converted(made, tmp_path, [x], [y])
    got = xdlc.run(model, {"x": np.int8([-128, 2, 5])}, native=True)["y"]
    np.testing.assert_array_equal(got, np.float32([-128, 2, 5]))


def test_results_of_32_bits_are_integers(tmp_path):
    made = TinyModel()
    x = made.tensor("x", [3], np.int16, scale=0.5)
    y = made.tensor("y", [3], np.int32, scale=0.001)
    made.op("QUANTIZE", [x], [y])
    model = _converted(made, tmp_path, [x], [y])
    got = xdlc.run(model, {"x": np.int16([-3, 0, 20000])}, native=True)["y"]
    assert got.dtype == np.int32
    np.testing.assert_allclose(got, [-1500, 0, 10_000_000], rtol=1e-6)


def test_a_bias_beyond_32_bits_keeps_its_values(tmp_path):
    builder = TinyModel()
    x, y = (
        builder.tensor("x", [1, 1], np.int16, scale=2.0**-8),
        builder.tensor("y", [1, 2], np.int16, scale=2.0**-8),
    )
    w = builder.tensor("w", dtype=np.int8, data=[[1], [1]], scale=2.0**-7)
    b = builder.tensor("b", dtype=np.int64, data=[1 << 20, 1 << 40], scale=2.0**-35)
    builder.op("FULLY_CONNECTED", [x, w, b], [y])
    model = _converted(builder, tmp_path, [x], [y])
    got = xdlc.run(model, {"x": np.int16([[0]])}, native=True)["y"]
    np.testing.assert_array_equal(got, [[0, 1 << 13]])


@pytest.mark.parametrize(
    ("zero", "scale", "problem"), [(300, 0.1, ModelError), ([0, 0, 0], [0.1, 0.2, 0.3], UnsupportedOp)]
)
def test_encodings_that_no_result_can_have_are_refused(tmp_path, zero, scale, problem):
    made = TinyModel()
    x, y = made.tensor("x", [3], np.uint8, scale=0.1), made.tensor("y", [3], np.uint8, scale=scale, zero=zero)
    made.op("ABS", [x], [y])
    with pytest.raises(problem):
        _converted(made, tmp_path, [x], [y])


def test_scattered_integers_stand_among_the_integer_zero(tmp_path):
    builder = TinyModel()
    x, y = (
        builder.tensor(name, shape, np.int8, scale=0.5, zero=3) for name, shape in (("x", [2]), ("y", [3]))
    )
    indices, shape = (
        builder.tensor(name, dtype=np.int32, data=data) for name, data in (("i", [[2], [0]]), ("s", [3]))
    )
    builder.op("SCATTER_ND", [indices, x, shape], [y])
    model = _converted(builder, tmp_path, [x], [y])
    got = xdlc.run(model, {"x": np.int8([-7, 9])}, native=True)["y"]
    np.testing.assert_array_equal(got, [9, 0, -7])


def _imported(path):
    """Return the types of the ops of a file before the passes."""
    source = FRONTEND.source_model(path)
    return [op.type for op in import_model(source, "", Diagnostics()).model.main.ops]


def test_operators_on_stored_integers_are_imported_as_operations_on_fixed_point(tmp_path):
    made, inputs, outputs = _conv()
    path = made.write(tmp_path / "m.tflite", inputs, outputs)
    assert _imported(path) == ["Reinterpret", "Convert", "Conv2d", "Convert", "Reinterpret"]


def test_operators_of_several_operations_share_the_floats_that_they_read(tmp_path):
    made = TinyModel()
    w, x, y, z = (made.tensor(name, [1, 4], np.int8, scale=0.5) for name in "wxyz")
    made.op("ATAN2", [w, x], [y])
    made.op("ATAN2", [x, w], [z])
    types = _imported(made.write(tmp_path / "m.tflite", [w, x], [y, z]))
    assert types.count("Dequantize") == 2
    assert types.count("Quantize") == 2


def test_an_operator_that_is_imported_as_several_and_fused_is_on_fixed_point(tmp_path):
    made = TinyModel()
    x = made.tensor("x", [1, 8], np.int8, scale=1 / 64)
    y = made.tensor("y", [1, 8], np.int8, scale=1 / 128)
    made.op("L2_NORMALIZATION", [x], [y])
    assert _types(_converted(made, tmp_path, [x], [y])) == ["Convert", "L2Norm", "Convert"]
