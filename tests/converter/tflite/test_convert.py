"""Import of TFLite files: names, encodings, fused activations, damage."""

import numpy as np
import pytest

import xdlc
from tests.converter.tflite.models import TinyModel
from xdlc.errors import ModelError, UnsupportedOp


def test_a_float_graph_with_a_fused_activation(tmp_path):
    made = TinyModel()
    x, y = made.tensor("x", [1, 2, 2, 3]), made.tensor("y", [1, 2, 2, 3])
    w = made.tensor("w", data=[1, -1, 2])
    made.op("MUL", [x, w], [y], fused_activation_function=3)
    model = xdlc.convert(made.write(tmp_path / "m.tflite", [x], [y]))
    values = np.linspace(-4, 4, 12, dtype=np.float32).reshape(1, 2, 2, 3)
    got = xdlc.run(model, {"x": values})["y"]
    np.testing.assert_allclose(got, np.clip(values * np.float32([1, -1, 2]), 0, 6), rtol=1e-6)
    assert next(op.type for op in model.main.ops).startswith("ElementWise")


@pytest.mark.parametrize(("dtype", "zero"), [(np.int8, -10), (np.uint8, 118), (np.int16, 0)])
def test_a_quantized_graph_computes_in_fixed_point(tmp_path, dtype, zero):
    made = TinyModel()
    x = made.tensor("x", [1, 8], dtype, scale=0.1, zero=zero)
    y = made.tensor("y", [1, 8], dtype, scale=0.2, zero=zero)
    made.op("ADD", [x, x], [y])
    model = xdlc.convert(made.write(tmp_path / "m.tflite", [x], [y]))
    assert {op.type for op in model.main.ops} <= {"ElementWiseBinary", "Convert"}
    values = np.arange(zero - 4, zero + 4).astype(dtype).reshape(1, 8)
    np.testing.assert_array_equal(xdlc.run(model, {"x": values}, native=True)["y"], values)


def test_tensors_of_one_name_are_told_apart(tmp_path):
    made = TinyModel()
    x, y, z = (made.tensor(name, [4]) for name in ("x", "y", "y"))
    made.op("ADD", [x, y], [z])
    model = xdlc.convert(made.write(tmp_path / "m.tflite", [x, y], [z]))
    assert [tensor.name for tensor in model.main.outputs] == ["y#0"]


def test_an_operator_without_mapping_is_refused_at_its_place(tmp_path):
    made = TinyModel()
    x, y = made.tensor("x", [4]), made.tensor("y", [4])
    made.op("Mystery", [x], [y])
    with pytest.raises(UnsupportedOp) as caught:
        xdlc.convert(made.write(tmp_path / "m.tflite", [x], [y]))
    assert "operator 0 'y' (Mystery)" in str(caught.value.where)


def test_a_graph_that_runs_itself_is_refused(tmp_path):
    made = TinyModel()
    c, x, y = made.tensor("c", [], np.bool_), made.tensor("x", [4]), made.tensor("y", [4])
    made.op("IF", [c, x], [y], then_subgraph_index=0, else_subgraph_index=0)
    with pytest.raises(ModelError):
        xdlc.convert(made.write(tmp_path / "m.tflite", [c, x], [y]))


def test_options_of_another_operator_are_refused(tmp_path):
    builder = TinyModel()
    x, y = builder.tensor("x", [4]), builder.tensor("y", [4])
    builder.op("ADD", [x, x], [y], pot_scale_int16=False)
    builder.codes[0].builtin_code = 25  # SOFTMAX
    with pytest.raises(ModelError):
        xdlc.convert(builder.write(tmp_path / "m.tflite", [x], [y]))


@pytest.mark.parametrize("keep", [9, 40, 100, 200])
def test_a_truncated_file_is_refused(tmp_path, keep):
    made = TinyModel()
    x, y = made.tensor("x", [4]), made.tensor("y", [4])
    made.op("ADD", [x, x], [y])
    path = made.write(tmp_path / "m.tflite", [x], [y])
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ModelError):
        xdlc.convert(path)


def test_tensors_keep_the_names_of_the_file_and_have_no_others(tmp_path):
    made = TinyModel()
    x, h, y = made.tensor("x", [4]), made.tensor("h", [4]), made.tensor("y", [4])
    made.op("MUL", [x, x], [h], fused_activation_function=1)
    made.op("SQUARE", [h], [y])
    model = xdlc.convert(made.write(tmp_path / "m.tflite", [x], [y]))
    assert "h" in model.main.tensors
    assert "tensors" not in model.metadata


def test_a_fused_tanh_is_not_applied_and_a_notice_states_it(tmp_path):
    made = TinyModel()
    x, y = made.tensor("x", [2]), made.tensor("y", [2])
    made.op("ADD", [x, x], [y], fused_activation_function=4)
    notices = []
    model = xdlc.convert(made.write(tmp_path / "m.tflite", [x], [y]), notify=notices.append)
    np.testing.assert_array_equal(xdlc.run(model, {"x": np.float32([1, -3])})["y"], [2, -6])
    assert any("TANH" in notice and "'y'" in notice for notice in notices)
