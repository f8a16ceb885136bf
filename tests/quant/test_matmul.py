import numpy as np
import pytest

from tests.support.single_ops import op_graph
from xdlc.ir import Graph, Tensor, b8, make_op, static, u32
from xdlc.ir.dtype import FLOAT32
from xdlc.quant.float_types import matmul_to_fully_connected
from xdlc.runtime.cpu import CpuSession


def product(x_shape, weight, *, transpose=False, bias=None):
    graph = Graph("g")
    x = graph.add_input(Tensor("x", x_shape, FLOAT32))
    columns = weight.shape[-2] if transpose else weight.shape[-1]
    y = Tensor("y", (*x_shape[:-1], columns), FLOAT32)
    params = {"transpose_in0": b8(False), "transpose_in1": b8(transpose)}
    graph.append(make_op(graph, "MatMul", [x, static("w", weight)], [y], params, name="mm"))
    if bias is not None:
        z = Tensor("z", y.shape, FLOAT32)
        graph.append(make_op(graph, "ElementWiseBinary", [static("b", bias), y], [z], {"operation": u32(0)}))
        y = z
    graph.add_output(y)
    return graph


def run(graph, x):
    return next(iter(CpuSession(graph).run({"x": x}).values()))


@pytest.mark.parametrize("x_shape", [(4, 3), (2, 4, 3), (2, 2, 4, 3)])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("bias_shape", [None, (5,), (1, 5)])
def test_same_numbers(x_shape, transpose, bias_shape):
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((5, 3) if transpose else (3, 5)).astype(np.float32)
    bias = None if bias_shape is None else rng.standard_normal(bias_shape).astype(np.float32)
    x = rng.standard_normal(x_shape).astype(np.float32)
    graph = product(x_shape, weight, transpose=transpose, bias=bias)
    before = run(graph, x)
    assert matmul_to_fully_connected(graph)
    graph.verify()
    op, *others = graph.ops
    assert op.type == "FullyConnected"
    assert [other.type for other in others] == ["Reshape"] * (len(x_shape) > 2)
    assert op.inputs[1].shape == (5, 3)
    assert len(op.inputs) == (2 if bias is None else 3)
    np.testing.assert_allclose(run(graph, x), before, rtol=1e-5, atol=1e-6)
    assert not matmul_to_fully_connected(graph)


def test_a_bias_that_is_no_vector_of_the_last_axis_stays():
    graph = product((5, 3), np.ones((3, 5), np.float32), bias=np.ones((5, 1), np.float32))
    matmul_to_fully_connected(graph)
    assert [op.type for op in graph.ops] == ["FullyConnected", "ElementWiseBinary"]


def test_a_batch_of_matrices_stays():
    graph = product((2, 4, 3), np.ones((2, 3, 5), np.float32))
    assert not matmul_to_fully_connected(graph)


def test_every_product_of_a_chain_with_biases_is_turned():
    graph = Graph("g")
    x = graph.add_input(Tensor("x", (4, 3), FLOAT32))
    params = {"transpose_in0": b8(False), "transpose_in1": b8(False)}
    rng = np.random.default_rng(0)
    for index in range(3):
        weight = static(f"w{index}", rng.standard_normal((3, 3)).astype(np.float32))
        bias = static(f"b{index}", rng.standard_normal(3).astype(np.float32))
        y, z = (Tensor(f"{name}{index}", (4, 3), FLOAT32) for name in "yz")
        graph.append(make_op(graph, "MatMul", [x, weight], [y], params, name=f"mm{index}"))
        graph.append(make_op(graph, "ElementWiseBinary", [y, bias], [z], {"operation": u32(0)}))
        x = z
    graph.add_output(x)
    given = {"x": np.ones((4, 3), np.float32)}
    before = CpuSession(graph).run(given)["z2"]
    assert matmul_to_fully_connected(graph)
    assert [op.type for op in graph.ops] == ["FullyConnected"] * 3
    np.testing.assert_allclose(CpuSession(graph).run(given)["z2"], before, rtol=1e-5)


def test_an_op_of_a_user_is_no_product_whatever_its_name():
    x = Tensor("x", (2, 3), FLOAT32)
    y = Tensor("y", (2, 3), FLOAT32)
    graph = op_graph("MatMul", [x], [y], name="mm", package="Pkg")
    assert matmul_to_fully_connected(graph) == {}
    assert [(op.type, op.package) for op in graph.ops] == [("MatMul", "Pkg")]
