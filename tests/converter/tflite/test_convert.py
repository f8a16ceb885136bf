"""Import of TFLite files: names, operators that are refused, fused activations."""

import numpy as np
import pytest

import xdlc
from tests.converter.tflite.models import TinyModel
from xdlc.errors import ModelError, UnsupportedOp


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
