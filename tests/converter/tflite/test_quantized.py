"""Tests of quantized TFLite files: fixed point between input and output, encodings, stored weights."""

import numpy as np
import pytest

import xdlc
from tests.converter.tflite.models import TinyModel
from xdlc import ir


def _types(model):
    return [op.type for op in model.main.ops]


def _converted(made, tmp_path, inputs, outputs):
    return xdlc.convert(made.write(tmp_path / "m.tflite", inputs, outputs))


def test_signed_integers_stay_at_inputs_and_outputs_and_unsigned_ones_are_computed_with(tmp_path):
    made = TinyModel()
    x = made.tensor("x", [1, 8], np.int8, scale=0.5, zero=3)
    y = made.tensor("y", [1, 8], np.int8, scale=0.25, zero=-7)
    z = made.tensor("z", [1, 8], np.int8, scale=0.25, zero=-7)
    made.op("ABS", [x], [y])
    made.op("NEG", [y], [z])
    model = _converted(made, tmp_path, [x], [z])
    assert _types(model) == ["Convert", "ElementWiseUnary", "ElementWiseUnary", "Convert"]
    assert [tensor.dtype for tensor in (*model.main.inputs, *model.main.outputs)] == [ir.dtype.SFIXED8] * 2
    inner = model.main.tensors["y"]
    assert (inner.dtype, inner.encoding) == (ir.dtype.UFIXED8, ir.ScaleOffset(0.25, -121))
    values = np.array([[-128, -3, 0, 2, 3, 4, 60, 127]], np.int8)
    got = xdlc.run(model, {"x": values}, native=True)["z"]
    want = np.clip(-np.clip(np.abs(values.astype(int) - 3) * 2 - 7, -128, 127) - 14, -128, 127)
    np.testing.assert_array_equal(got, want)


def test_two_readers_of_an_input_share_one_convert(tmp_path):
    made = TinyModel()
    x = made.tensor("x", [4], np.int8, scale=0.5)
    y, z = (made.tensor(name, [4], np.int8, scale=0.5) for name in "yz")
    made.op("ABS", [x], [y])
    made.op("NEG", [x], [z])
    assert _types(_converted(made, tmp_path, [x], [y, z])).count("Convert") == 3


@pytest.mark.parametrize(("shift", "count"), [(0, 0), (1, 1)])
def test_a_clip_that_the_encoding_implies_is_no_op(tmp_path, shift, count):
    made = TinyModel()
    x = made.tensor("x", [4], np.int8, scale=0.5)
    y = made.tensor("y", [4], np.int8, scale=6 / 255, zero=-128 + shift)
    made.op("ADD", [x, x], [y], fused_activation_function=3)
    assert _types(_converted(made, tmp_path, [x], [y])).count("ElementWiseNeuron") == count


def test_an_unsigned_input_that_is_only_shifted_needs_no_operation(tmp_path):
    made = TinyModel()
    x = made.tensor("x", [4], np.uint8, scale=0.5, zero=10)
    q = made.tensor("q", [4], np.int8, scale=0.5, zero=-118)
    y = made.tensor("y", [4], np.int8, scale=0.5, zero=-118)
    z = made.tensor("z", [4], np.uint8, scale=0.5, zero=10)
    made.op("QUANTIZE", [x], [q])
    made.op("ABS", [q], [y])
    made.op("QUANTIZE", [y], [z])
    model = _converted(made, tmp_path, [x], [z])
    assert _types(model) == ["ElementWiseUnary"]
    values = np.array([0, 9, 10, 255], np.uint8)
    got = xdlc.run(model, {"x": values}, native=True)["z"]
    np.testing.assert_array_equal(got, [20, 11, 10, 255])


def test_float_inputs_and_outputs_of_a_quantized_graph_stay_float(tmp_path):
    made = TinyModel()
    x, y = made.tensor("x", [4]), made.tensor("y", [4])
    q = made.tensor("q", [4], np.int8, scale=0.5, zero=1)
    r = made.tensor("r", [4], np.int8, scale=0.5, zero=1)
    made.op("QUANTIZE", [x], [q])
    made.op("ABS", [q], [r])
    made.op("DEQUANTIZE", [r], [y])
    model = _converted(made, tmp_path, [x], [y])
    assert _types(model) == ["Quantize", "ElementWiseUnary", "Dequantize"]
    got = xdlc.run(model, {"x": np.float32([-1, -0.3, 0.1, 90])}, native=True)["y"]
    np.testing.assert_array_equal(got, np.float32([1, 0.5, 0, 63]))
