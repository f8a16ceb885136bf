"""Products of 8-bit integers: HTP computes what the host does."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import xdlc
from tests.support.htp_models import needs_htp
from tests.support.running import run, run_htp
from xdlc import passes
from xdlc.ir import HOST_PACKAGE

RNG = np.random.default_rng(5)


def dynamic_product(columns: int = 6) -> bytes:
    """Return a quantized product as onnxruntime's tools write it."""
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "step", "start"]),
        helper.make_node("MatMulInteger", ["q", "w", "start", "zero"], ["sums"]),
        helper.make_node("Cast", ["sums"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["step", "weight_step"], ["scale"]),
        helper.make_node("Mul", ["real", "scale"], ["y"]),
    ]
    constants = {
        "w": RNG.integers(0, 256, (64, columns)).astype(np.uint8),
        "zero": np.array(120, np.uint8),
        "weight_step": np.array(0.02, np.float32),
    }
    return model(nodes, constants, {"x": (TensorProto.FLOAT, [3, 64])}, (TensorProto.FLOAT, [3, columns]))


def torchao_product(*, moved: bool) -> bytes:
    """Return int8 products as torchao exports them, maybe as uint8."""
    weight = RNG.integers(-127, 128, (768, 8)).astype(np.int8)
    weight[384:, 0] = -weight[:384, 0]  # a column with the sum 0
    nodes = [
        helper.make_node("Abs", ["x"], ["magnitude"]),
        helper.make_node("ReduceMax", ["magnitude"], ["most"], axes=[-1], keepdims=1),
        helper.make_node("Div", ["most", "steps"], ["scale"]),
        helper.make_node("Div", ["x", "scale"], ["divided"]),
        helper.make_node("Round", ["divided"], ["whole"]),
        helper.make_node("Cast", ["whole"], ["int32" if moved else "q"], to=6 if moved else TensorProto.INT8),
        helper.make_node("MatMulInteger", ["q", "w"], ["all" if moved else "sums"]),
        helper.make_node("Cast", ["sums"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Expand", ["scale", "shape"], ["scales"]),
        helper.make_node("Mul", ["real", "scales"], ["scaled"]),
        helper.make_node("Mul", ["scaled", "weight_steps"], ["y"]),
    ]
    if moved:
        nodes.insert(6, helper.make_node("Add", ["int32", "middle"], ["more"]))
        nodes.insert(7, helper.make_node("Cast", ["more"], ["q"], to=TensorProto.UINT8))
        nodes.insert(9, helper.make_node("Sub", ["all", "middles"], ["sums"]))
    constants = {
        "w": weight,
        "steps": np.array(127, np.float32),
        "shape": np.array([3, 8]),
        "weight_steps": RNG.uniform(0.5, 1, 8).astype(np.float32) / 3000,
        "middle": np.array(128, np.int32),
        "middles": 128 * weight.astype(np.int32).sum(0),
    }
    return model(nodes, constants, {"x": (TensorProto.FLOAT, [3, 768])}, (TensorProto.FLOAT, [3, 8]))


def convolution() -> bytes:
    """Return ConvInteger whose sums are read: x[1, 2, 5, 5] to y[1, 3, 5, 5]."""
    node = helper.make_node("ConvInteger", ["x", "w", "zero"], ["y"], auto_pad="SAME_UPPER")
    constants = {"w": RNG.integers(-2, 3, (3, 2, 3, 3)).astype(np.int8), "zero": np.array(7, np.uint8)}
    return model(
        [node], constants, {"x": (TensorProto.UINT8, [1, 2, 5, 5])}, (TensorProto.INT32, [1, 3, 5, 5])
    )


def large_sums() -> bytes:
    """Return MatMulInteger whose sums overflow float16: x[2, 512] to y[2, 4]."""
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    w = {"w": RNG.integers(-20, 127, (512, 4)).astype(np.int8) * np.array([1, -1, 0, 1], np.int8)}
    return model([node], w, {"x": (TensorProto.UINT8, [2, 512])}, (TensorProto.INT32, [2, 4]))


def model(nodes, constants, inputs, output) -> bytes:
    graph = helper.make_graph(
        nodes,
        "integers",
        [helper.make_tensor_value_info(name, *given) for name, given in inputs.items()],
        [helper.make_tensor_value_info("y", *output)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]).SerializeToString()


CASES = {
    "dynamic": (dynamic_product, lambda: RNG.normal(0.2, 1, (3, 64)).astype(np.float32)),
    "rows": (lambda: torchao_product(moved=False), lambda: RNG.normal(0, 300, (3, 768)).astype(np.float32)),
    "moved": (lambda: torchao_product(moved=True), lambda: RNG.normal(0, 300, (3, 768)).astype(np.float32)),
    "convolution": (convolution, lambda: RNG.integers(0, 30, (1, 2, 5, 5)).astype(np.uint8)),
    "large": (large_sums, lambda: RNG.integers(0, 256, (2, 512)).astype(np.uint8)),
}


def converted(path, name):
    build, feed = CASES[name]
    path.write_bytes(build())
    return xdlc.convert(path), {"x": feed()}


@pytest.mark.parametrize("name", CASES)
def test_form_of_htp_computes_the_same_on_the_host(tmp_path, name):
    converted_model, feeds = converted(tmp_path / "m.onnx", name)
    expected = run(converted_model, feeds)["y"]
    adapted = converted_model.clone()
    passes.run(adapted.main, passes.stage("htp"))
    assert all(op.package != HOST_PACKAGE for op in adapted.main.ops)
    assert name != "moved" or "sums" not in adapted.main.tensors  # the zero point of the product
    found = run(adapted, feeds, native=True)["y"]
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(
        found, expected, rtol=1e-4, atol=0 if name in ("convolution", "large") else 1e-2
    )


@needs_htp
@pytest.mark.vendor
@pytest.mark.parametrize("name", CASES)
def test_emulation_computes_what_the_host_does(tmp_path, name):
    converted_model, feeds = converted(tmp_path / "m.onnx", name)
    expected = run(converted_model, feeds)["y"].astype(np.float64)
    found = run_htp(converted_model, feeds)["y"].astype(np.float64)
    tolerance = {"convolution": 0, "large": 5e-4}.get(name, 1e-2)
    assert np.linalg.norm(found - expected) <= tolerance * np.linalg.norm(expected)
