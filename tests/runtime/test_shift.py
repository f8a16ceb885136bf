import numpy as np
import pytest

from xdlc.ir import Graph, Tensor, make_op, static, u32
from xdlc.ir.dtype import FLOAT32
from xdlc.runtime.engine import Engine
from xdlc.runtime.lower import lower


@pytest.fixture
def graph():
    """``y = relu(x) + turned(relu(x))``, the relu an output too."""
    graph = Graph("g")
    x = graph.add_input(Tensor("x", (2, 2), FLOAT32))
    relu, turned, y = (graph.add_tensor(Tensor(name, (2, 2), FLOAT32)) for name in ("relu", "turned", "y"))
    graph.append(make_op(graph, "ElementWiseNeuron", [x], [relu], {"operation": u32(4)}))
    graph.append(make_op(graph, "Transpose", [relu], [turned], {"perm": static("p", np.uint32([1, 0]))}))
    graph.append(make_op(graph, "ElementWiseBinary", [relu, turned], [y], {"operation": u32(0)}))
    graph.add_output(y)
    graph.add_output(relu)
    return graph


X = np.float32([[1, -2], [3, 4]])


def _run(graph, shifts):
    lowered = lower(graph, quantized=False)
    keys = {name: lowered.add_shift(name) for name in ("x", "relu")}
    values = {key: shifts.get(name, np.zeros((1, 1), np.float32)) for name, key in keys.items()}
    orders = [lowered.layout(name) for name in keys]
    assert orders == [(0, 1), (0, 1)]
    return Engine(lowered).run({"x": X, **values})


def test_zero_changes_nothing(graph):
    found = _run(graph, {})
    relu = np.maximum(X, 0)
    np.testing.assert_array_equal(found["relu"], relu)
    np.testing.assert_array_equal(found["y"], relu + relu.T)


def test_all_that_read_a_shifted_tensor_read_the_sum(graph):
    shift = np.float32([[10, 0], [0, 20]])
    found = _run(graph, {"relu": shift})
    relu = np.maximum(X, 0) + shift
    np.testing.assert_array_equal(found["relu"], relu)
    np.testing.assert_array_equal(found["y"], relu + relu.T)


def test_inputs_can_be_shifted(graph):
    shift = np.float32([[0, 5], [0, 0]])
    np.testing.assert_array_equal(_run(graph, {"x": shift})["relu"], np.maximum(X + shift, 0))
