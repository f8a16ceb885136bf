"""Random numbers of ONNX as inputs of the network."""

import numpy as np
import pytest

import xdlc
from tests.support.onnx_models import build, floats, node
from xdlc.errors import UnsupportedOp

X = floats(1, 2, 4, 4)


def converted(nodes, **options):
    return xdlc.convert(build(nodes, {"x": X}, {"w": floats(3, 2, 1, 1)}, ["y"], 18), **options)


def test_a_generator_becomes_an_input(tmp_path):
    nodes = [
        node("RandomNormalLike", "x", "noise", scale=2.0),
        node("Add", "x noise", "s"),
        node("Conv", "s w"),
    ]
    notices = []
    model = converted(nodes, random="as-input", notify=notices.append)
    model.save(tmp_path / "m.dlc")
    model = xdlc.load(tmp_path / "m.dlc")
    names = [tensor.name for tensor in model.main.inputs]
    assert names == ["x", "noise_random"]
    assert sum("'noise_random'" in notice for notice in notices) == 1
    noise = floats(*X.shape)
    plain = converted([node("Conv", "x w")])
    found, want = xdlc.run(model, {"x": X, "noise_random": noise}), xdlc.run(plain, {"x": X + noise})
    assert found["y"].shape == want["y"].shape


def test_a_function_body_draws_from_an_input():
    model = converted([node("Sigmoid", "x", "p"), node("Bernoulli", "p")], random="as-input")
    drawn = np.random.default_rng(0).random(X.shape, np.float32)
    found = xdlc.run(model, {"x": X, model.main.inputs[1].name: drawn})["y"]
    np.testing.assert_array_equal(found, drawn > 1 / (1 + np.exp(-X)))  # ONNX's body has it this way round


def test_a_loop_has_no_inputs_of_its_own():
    from onnx import TensorProto, helper

    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["go_on"]),
            helper.make_node("RandomUniformLike", ["v"], ["u"]),
            helper.make_node("Add", ["v", "u"], ["w2"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, X.shape),
        ],
        [
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("w2", TensorProto.FLOAT, X.shape),
        ],
    )
    model = build([node("Loop", "n - x", body=body)], {"x": X}, {"n": np.int64(3)}, ["y"], 18)
    unrolled = xdlc.convert(model, random="as-input")
    assert len(unrolled.main.inputs) == 4
    with pytest.raises(UnsupportedOp, match="loop"):
        xdlc.convert(model, random="as-input", unroll_loops=0)


def test_without_the_option_the_host_draws():
    model = converted([node("RandomUniformLike", "x", "u"), node("Add", "x u")])
    (op,) = (op for op in model.main.ops if op.package == "xdlc")
    assert "--random as-input" in op.origin.reason
