"""What no QNN operation carries: kept for the host, or expanded into what does."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from onnx import TensorProto, helper

import xdlc
from xdlc import container
from xdlc.errors import UnsupportedOp


def through_disk(model, tmp_path):
    model.save(tmp_path / "model.dlc")
    return container.load(tmp_path / "model.dlc")


def reference(model, feeds):
    import onnxruntime

    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, feeds), strict=True))


def check(models, tmp_path, nodes, feeds, outputs, *, dims=None, types=None, **kwargs):
    """Compare with onnxruntime through a file; return the IR graph."""
    shapes = dims or {name: list(array.shape) for name, array in feeds.items()}
    model = models.make(nodes, shapes, dict.fromkeys(outputs), **kwargs)
    for entry in model.graph.input:
        entry.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(feeds[entry.name].dtype)
    for entry in model.graph.output:
        entry.type.tensor_type.elem_type = (types or {}).get(entry.name, TensorProto.FLOAT)
    loaded = through_disk(xdlc.convert(models.save(model)), tmp_path)
    found, wanted = xdlc.run(loaded, feeds), reference(model, feeds)
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_allclose(found[name], array, rtol=1e-6, err_msg=name)
    return loaded.main


X = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)


def test_computed_axes_stay_computed(models, tmp_path):
    nodes = [helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=1)]
    graph = check(models, tmp_path, nodes, {"x": X, "axes": np.array([1], np.int64)}, ["y"], opset=18)
    (op,) = (op for op in graph.ops if op.package == "xdlc")
    assert op.type == "ReduceSum"
    assert "constant" in op.origin.reason


def test_shape_that_depends_on_the_data(models, tmp_path):
    nodes = [
        helper.make_node("NonZero", ["x"], ["where"]),
        helper.make_node("Transpose", ["where"], ["rows"], perm=[1, 0]),
        helper.make_node("GatherND", ["x", "rows"], ["y"]),
    ]
    graph = check(models, tmp_path, nodes, {"x": X * (X > 0)}, ["y"], opset=17)
    assert graph.outputs[0].dynamic_axes == (0,)


def test_shape_arithmetic_on_open_dimensions(models, tmp_path):
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "one"], ["n"], axis=0),
        helper.make_node("Mul", ["n", "two"], ["m"]),
        helper.make_node("Unsqueeze", ["m", "zero"], ["v"]),
        helper.make_node("Concat", ["v", "rest"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    constants = {
        "one": np.int64(1),
        "two": np.int64(2),
        "zero": np.array([0], np.int64),
        "rest": np.array([-1], np.int64),
    }
    for shape in ((2, 3, 4), (4, 5, 2)):
        feeds = {"x": np.arange(np.prod(shape), dtype=np.float32).reshape(shape)}
        graph = check(
            models, tmp_path, nodes, feeds, ["y"], dims={"x": ["a", "b", "c"]}, weights=constants, opset=17
        )
    assert graph.outputs[0].dynamic_axes == (0, 1)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_old_spelling_of_an_attribute(models, tmp_path, mode):
    grid = np.linspace(-1.2, 1.2, 2 * 5 * 6 * 2).reshape(2, 5, 6, 2).astype(np.float32)
    feeds = {"x": np.random.default_rng(1).standard_normal((2, 3, 4, 4)).astype(np.float32), "g": grid}
    nodes = [helper.make_node("GridSample", ["x", "g"], ["y"], mode=mode, padding_mode="border")]
    check(models, tmp_path, nodes, feeds, ["y"], opset=16)


def test_attribute_kinds_survive_the_file(models, tmp_path):
    rng = np.random.default_rng(2)
    constants = {
        "w": rng.standard_normal((2, 5, 4)).astype(np.float32),
        "r": rng.standard_normal((2, 5, 5)).astype(np.float32),
    }
    rnn = helper.make_node(
        "RNN",
        ["x", "w", "r"],
        ["", "y"],
        hidden_size=5,
        direction="bidirectional",
        activations=["Affine", "Tanh"],
        activation_alpha=[0.5, 0.0],
        activation_beta=[0.1, 0.0],
    )
    check(models, tmp_path, [rnn], {"x": X}, ["y"], weights=constants, opset=14)


def nested_functions(depth, width):
    """Return functions where each calls the next ``width`` times."""
    functions = []
    for level in range(depth):
        values = ["x", *(f"v{index}" for index in range(width - 1)), "y"]
        inner, domain = ("Neg", "") if level == depth - 1 else (f"F{level + 1}", "my")
        nodes = [helper.make_node(inner, [a], [b], domain=domain) for a, b in itertools.pairwise(values)]
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
        functions.append(helper.make_function("my", f"F{level}", ["x"], ["y"], nodes, opsets))
    return functions


def with_functions(models, functions):
    model = models.make([helper.make_node("F0", ["x"], ["y"], domain="my")], {"x": [2, 3, 4]}, {"y": None})
    model.opset_import.append(helper.make_opsetid("my", 1))
    model.functions.extend(functions)
    return models.save(model)


def test_functions_of_the_model_are_expanded(models):
    model = xdlc.convert(with_functions(models, nested_functions(3, 3)))
    np.testing.assert_array_equal(xdlc.run(model, {"x": X})["y"], -X)
    assert all(op.origin.nodes for op in model.main.ops)


def test_functions_that_call_themselves_are_refused(models):
    functions = nested_functions(2, 1)
    functions[1].node[0].op_type, functions[1].node[0].domain = "F0", "my"
    with pytest.raises(xdlc.XdlcError, match="calls itself"):
        xdlc.convert(with_functions(models, functions))


def test_functions_that_explode_are_refused(models):
    with pytest.raises(xdlc.XdlcError, match="of the model expand to"):
        xdlc.convert(with_functions(models, nested_functions(20, 10)))


@pytest.mark.parametrize(
    ("kind", "axis"), [("Softmax", 1), ("LogSoftmax", 2), ("Hardmax", 1), ("Softmax", -1)]
)
def test_softmax_of_joined_open_axes(models, tmp_path, kind, axis):
    nodes = [helper.make_node(kind, ["x"], ["y"], axis=axis)]
    check(models, tmp_path, nodes, {"x": X}, ["y"], dims={"x": ["a", "b", "c"]}, opset=11)


def test_steps_of_training_are_refused(models):
    nodes = [
        helper.make_node("Adagrad", ["r", "t", "x", "g", "h"], ["y", "z"], domain="ai.onnx.preview.training")
    ]
    shapes = {"r": [], "t": [], "x": [2], "g": [2], "h": [2]}
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.preview.training", 1)]
    model = models.make(nodes, shapes, {"y": [2], "z": [2]})
    del model.opset_import[:]
    model.opset_import.extend(opsets)
    model.graph.input[1].type.tensor_type.elem_type = TensorProto.INT64
    with pytest.raises(UnsupportedOp, match="only for training") as caught:
        xdlc.convert(models.save(model))
    assert "for inference" in caught.value.fix
