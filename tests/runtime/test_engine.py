"""Sessions of graphs that onnxruntime's optimizers stumble over."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import xdlc
from xdlc.runtime.engine import open_session


def test_layer_normalization_across_a_cast(models):
    """onnxruntime fuses the casts into an op of two types, and refuses it."""
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], axes=[-1]),
        helper.make_node("Sub", ["x", "mean"], ["d"]),
        helper.make_node("Cast", ["d"], ["df"], to=TensorProto.FLOAT),
        helper.make_node("Pow", ["df", "two"], ["dd"]),
        helper.make_node("ReduceMean", ["dd"], ["var"], axes=[-1]),
        helper.make_node("Add", ["var", "eps"], ["sum"]),
        helper.make_node("Sqrt", ["sum"], ["dev"]),
        helper.make_node("Div", ["df", "dev"], ["n"]),
        helper.make_node("Cast", ["n"], ["nh"], to=TensorProto.FLOAT16),
        helper.make_node("Mul", ["gamma", "nh"], ["scaled"]),
        helper.make_node("Add", ["beta", "scaled"], ["y"]),
    ]
    weights = {
        "two": np.float32(2),
        "eps": np.float32(1e-5),
        "gamma": np.linspace(0.5, 1.5, 8).astype(np.float16),
        "beta": np.linspace(-1, 1, 8).astype(np.float16),
    }
    half = TensorProto.FLOAT16
    model = models.make(nodes, {"x": [2, 8]}, {"y": None}, weights, types={"x": half, "y": half})
    x = np.random.default_rng(0).standard_normal((2, 8)).astype(np.float16)
    found = xdlc.run(xdlc.convert(models.save(model)), {"x": x})["y"]
    d = x.astype(np.float32) - x.astype(np.float32).mean(-1, keepdims=True)
    wanted = d / np.sqrt((d**2).mean(-1, keepdims=True) + 1e-5) * weights["gamma"] + weights["beta"]
    np.testing.assert_allclose(found.astype(np.float32), wanted, atol=5e-3)


def test_products_with_dequantized_weights_are_computed_in_float32():
    rng = np.random.default_rng(0)
    weights = rng.integers(-127, 127, (128, 128)).astype(np.int8)
    scales = rng.uniform(1e-4, 3e-4, 128).astype(np.float32)
    values = rng.uniform(-1, 1, (8, 128)).astype(np.float32)
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], axis=1),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    info = helper.make_tensor_value_info
    inputs, outputs = [info("x", TensorProto.FLOAT, [8, 128])], [info("y", TensorProto.FLOAT, [8, 128])]
    held = {"w": weights, "s": scales, "z": np.zeros(128, np.int8)}
    stored = [numpy_helper.from_array(array, name) for name, array in held.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, stored)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    (got,) = open_session(made.SerializeToString(), [], [], "ALL", 1).run(None, {"x": values})
    np.testing.assert_allclose(got, values.astype(float) @ (weights * scales.astype(float)), atol=1e-6)
