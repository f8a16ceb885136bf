import numpy as np
import pytest
from onnx import helper

import xdlc
from xdlc.errors import ConstraintError, ProblemList, UsageError, each_problem
from xdlc.prepare.edit.edit import edit


def image() -> np.ndarray:
    return np.random.default_rng(1).random((1, 3, 16, 16), np.float32)


def test_callers_feed_channels_last_and_no_op_is_added(models):
    path, x = models.save(models.cnn()), image()
    plain, last = xdlc.convert(path), xdlc.convert(path, desired_input_layout={"x": "nhwc"})
    assert last.main.inputs[0].shape == (1, 16, 16, 3)
    assert last.metadata["layouts"] == {"x": "NHWC"}
    assert "Transpose" not in [op.type for op in last.main.ops]
    np.testing.assert_array_equal(
        xdlc.run(plain, {"x": x})["y"], xdlc.run(last, {"x": x.transpose(0, 2, 3, 1)})["y"]
    )


def test_types_of_callers_are_cast(models):
    path, x = models.save(models.cnn()), np.floor(image() * 255)
    plain = xdlc.convert(path)
    made = xdlc.convert(path, input_dtype={"x": np.uint8}, output_dtype={"y": np.dtype("float16")})
    assert [made.main.inputs[0].dtype.name, made.main.outputs[0].dtype.name] == ["uint8", "float16"]
    found = xdlc.run(made, {"x": x.astype("u1")})["y"]
    np.testing.assert_array_equal(
        found, xdlc.run(plain, {"x": x})["y"].astype(np.float16).astype(found.dtype)
    )


@pytest.mark.parametrize(
    ("options", "error", "count"),
    [
        ({"desired_input_layout": {"z": "NHWC"}, "input_dtype": {"q": "int8"}}, UsageError, 2),
        ({"desired_input_layout": {"x": "NFC"}}, ConstraintError, 1),
        ({"input_type": {"x": "opaque"}, "input_dtype": {"x": "uint8"}}, UsageError, 1),
        ({"output_dtype": {"x": "uint8"}}, UsageError, 1),
        ({"desired_output_layout": {"y": "F"}}, ConstraintError, 1),
    ],
)
def test_requests_that_fit_no_port(models, options, error, count):
    with pytest.raises(ProblemList if count > 1 else error) as raised:
        xdlc.convert(models.save(models.cnn()), **options)
    assert len(each_problem(raised.value)) == count


def test_layouts_follow_from_convolutions_or_from_the_framework(models):
    weight = np.ones((2, 3, 1, 1), np.float32)
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Transpose", ["a"], ["b"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["b", "w"], ["y"]),
        helper.make_node("Softmax", ["u"], ["v"]),
    ]
    shapes = {"x": [1, 4, 4, 3], "u": [1, 2, 3, 4]}
    made = models.make(nodes, shapes, {"y": [1, 2, 4, 4], "v": [1, 2, 3, 4]}, {"w": weight})
    notices: list[str] = []
    wanted = dict.fromkeys(shapes, "NHWC")
    converted = xdlc.convert(models.save(made), desired_input_layout=wanted, notify=notices.append)
    assert [tensor.shape for tensor in converted.main.inputs] == [(1, 4, 4, 3), (1, 3, 4, 2)]
    assert len(notices) == 1
    assert "'u'" in notices[0]


def test_dynamic_dimensions_keep_their_symbols(models):
    weight = np.ones((4, 3, 1, 1), np.float32)
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"])]
    made = models.make(nodes, {"x": ["N", 3, "H", 8]}, {"y": ["N", 4, "H", 8]}, {"w": weight})
    layouts = {"desired_input_layout": {"x": "NHWC"}, "desired_output_layout": {"y": "NHWC"}}
    converted = xdlc.convert(models.save(made), notify=lambda _: None, **layouts)
    assert converted.metadata["symbols"] == {name: ["N", "H", None, None] for name in "xy"}
    x = np.arange(2 * 3 * 5 * 8, dtype=np.float32).reshape(2, 5, 8, 3)
    np.testing.assert_array_equal(xdlc.run(converted, {"x": x})["y"], np.repeat(x.sum(3)[..., None], 4, 3))


def test_floats_that_the_source_quantizes_stay_floats_if_they_are_preserved(models):
    step, zero = np.float32(0.5), np.uint8(128)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("Relu", ["d"], ["r"]),
        helper.make_node("QuantizeLinear", ["r", "s", "z"], ["p"]),
        helper.make_node("DequantizeLinear", ["p", "s", "z"], ["y"]),
    ]
    path = models.save(models.make(nodes, {"x": [1, 8]}, {"y": [1, 8]}, {"s": step, "z": zero}))
    assert {tensor.dtype.name for tensor in xdlc.convert(path).main.inputs} == {"ufixed8"}
    kept = xdlc.convert(path, preserve_io="datatype", input_dtype={"x": "uint8"}, notify=lambda _: None)
    assert [tensor.dtype.name for tensor in (*kept.main.inputs, *kept.main.outputs)] == ["float32"] * 2
    opaque = xdlc.convert(path, input_type={"x": "opaque"})
    assert [tensor.dtype.name for tensor in (*opaque.main.inputs, *opaque.main.outputs)] == [
        "float32",
        "ufixed8",
    ]
    for wrong in (5, [5], "layot", "layout z"):
        with pytest.raises(UsageError):
            xdlc.convert(path, preserve_io=wrong)


def test_the_value_of_a_variable_before_the_first_run_follows_its_layout(models):
    start = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    path = models.save(
        models.make([helper.make_node("Neg", ["x"], ["y"])], {"x": [1, 2, 3, 4]}, {"y": [1, 2, 3, 4]})
    )
    model = xdlc.convert(path, input_layout={"x": "NCHW"}, output_layout={"y": "NCHW"})
    model.metadata["states"] = {"x": {"output": "y", "initial": start.tolist()}}
    both = {"desired_input_layout": {"x": "NHWC"}, "desired_output_layout": {"y": "NHWC"}}
    made = edit(model, boundary=both)
    np.testing.assert_array_equal(xdlc.run(made, {})["y"], -start.transpose(0, 2, 3, 1))
    assert model.metadata["states"]["x"]["initial"] == start.tolist()
    for wrong in (
        {"desired_input_layout": {"x": "NHWC"}},
        {"input_mean": {"x": 2}},
        {"input_dtype": {"x": "uint8"}},
    ):
        with pytest.raises(ConstraintError):
            edit(model, boundary=wrong)


def test_no_layout_is_assumed_for_models_that_are_made(models):
    path = models.save(
        models.make([helper.make_node("Neg", ["x"], ["y"])], {"x": [2, 3, 4, 5]}, {"y": [2, 3, 4, 5]})
    )
    model = xdlc.convert(path)
    for wrong in ({"desired_input_layout": {"x": "NHWC"}}, {"desired_output_layout": {"y": "NHWC"}}):
        with pytest.raises(ConstraintError, match="the model states no layout"):
            edit(model, boundary=wrong)
    made = edit(model, boundary={"desired_input_layout": {"x": "NHWC"}, "input_layout": {"x": "NCHW"}})
    assert made.main.inputs[0].shape == (2, 4, 5, 3)
