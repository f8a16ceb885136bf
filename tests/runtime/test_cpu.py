"""Sessions: feeding, results, errors, large weights."""

import numpy as np
import pytest

from tests.support.running import run
from tests.support.single_ops import op_graph
from xdlc.errors import BackendError, ProblemList, UnsupportedOp, UsageError
from xdlc.ir import Graph, Model, ScaleOffset, Tensor, make_op, static, u32
from xdlc.ir.dtype import BY_NAME, FLOAT32
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.lower import lower


def chain(*types: str, shape=(2, 3), dtype=FLOAT32, encoding=None) -> Graph:
    graph = Graph("chain")
    tensor = graph.add_input(Tensor("x:0", shape, dtype, encoding))
    for index, type in enumerate(types):
        result = Tensor(f"t/{index}", shape, dtype, encoding)
        graph.append(make_op(graph, type, [tensor], [result], name=f"op{index}"))
        tensor = result
    graph.add_output(tensor)
    return graph


def test_run_takes_models_and_graphs():
    graph, x = chain("Relu"), np.array([[-1, 2, 3], [4, -5, 6]], np.float32)
    model = Model()
    model.add_graph(graph)
    for given in (graph, model):
        np.testing.assert_array_equal(run(given, {"x:0": x})["t/0"], np.maximum(x, 0))


def test_extra_outputs_come_after_the_graphs_own():
    session = CpuSession(chain("Relu", "Tanh"), outputs=["t/0", "x:0"])
    found = session.run({"x:0": np.full((2, 3), 0.5, np.float32)})
    assert list(found) == ["t/1", "t/0", "x:0"]
    np.testing.assert_array_equal(found["t/0"], 0.5)
    with pytest.raises(UsageError, match="no tensor 't/9'"):
        CpuSession(chain("Relu"), outputs=["t/9"])


def test_empty_and_repeated_looking_names():
    graph = Graph("names")
    x = graph.add_input(Tensor("", (2,), FLOAT32))
    y, z = Tensor("op~", (2,), FLOAT32), Tensor("op", (2,), FLOAT32)
    graph.append(make_op(graph, "Relu", [x], [y], name="op~1"))
    graph.append(make_op(graph, "Tanh", [y], [z], name="value"))
    graph.add_output(z)
    assert run(graph, {"": np.zeros(2, np.float32)})["op"].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({}, "input 'x:0' is missing"),
        ({"x:0": np.zeros((2, 3), np.float32), "x:1": 1}, "no input 'x:1'"),
        ({"x:0": np.zeros((3, 2), np.float32)}, r"needs shape \[2, 3\], but has \[3, 2\]"),
        ({"x:0": np.zeros((2, 3), np.int32)}, "needs float32 for float32, but has int32"),
    ],
)
def test_feeds_that_do_not_fit(feeds, message):
    with pytest.raises(UsageError, match=message):
        CpuSession(chain("Relu")).run(feeds)


def test_integers_that_would_change_are_refused():
    graph = chain("Reshape", dtype=BY_NAME["uint8"])
    session = CpuSession(graph)
    assert session.run({"x:0": np.full((2, 3), 255)})["t/0"].dtype == np.uint8
    with pytest.raises(UsageError, match="the array has int64 values that uint8 cannot"):
        session.run({"x:0": np.full((2, 3), 256)})


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float64", "int8", "int64", "uint32", "bool8"])
def test_every_plain_type_passes_through(name):
    dtype = BY_NAME[name]
    x = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype.numpy)
    found = run(chain("Reshape", dtype=dtype), {"x:0": x})["t/0"]
    assert found.dtype == dtype.numpy
    np.testing.assert_array_equal(found.astype(float), x.astype(float))


def test_all_unsupported_ops_are_reported_at_once():
    with pytest.raises(ProblemList) as caught:
        CpuSession(chain("Nonsense", "Relu", "Rellu"))
    assert [type(problem) for problem in caught.value.problems] == [UnsupportedOp, UnsupportedOp]
    assert "op 'op2' (Rellu)" in str(caught.value)
    assert "nearest: Relu" in str(caught.value)


def test_engine_refusals_name_the_op():
    x = Tensor("x", (2, 3), FLOAT32)
    y = Tensor("y", (2, 4), FLOAT32)
    graph = op_graph(
        "MatMul", [x, static("w", np.zeros((5, 4), np.float32))], [y], name="product", graph_name="bad"
    )
    with pytest.raises(BackendError, match="product"):
        CpuSession(graph).run({"x": np.zeros((2, 3), np.float32)})


def test_engine_failures_while_running_name_the_op():
    index = Tensor("i", (1,), BY_NAME["int32"])
    y = Tensor("y", (1,), FLOAT32)
    table = static("w", np.zeros(4, np.float32))
    graph = op_graph("Gather", [table, index], [y], {"axis": u32(0)}, name="lookup")
    with pytest.raises(BackendError, match="op 'lookup'"):
        CpuSession(graph).run({"i": np.array([9], np.int32)})


def test_large_weights_stay_out_of_the_protobuf():
    x = Tensor("x", (1, 1024), FLOAT32)
    y = Tensor("y", (1, 512), FLOAT32)
    weight = np.random.default_rng(0).normal(size=(512, 1024)).astype(np.float32)
    graph = op_graph("FullyConnected", [x, static("w", weight)], [y], name="fc")
    lowered = lower(graph)
    assert lowered.proto.ByteSize() < 2000
    assert [data.nbytes for data in lowered.initializers.values()] == [weight.nbytes]
    given = np.ones((1, 1024), np.float32)
    found = CpuSession(lowered, threads=1).run({"x": given})["y"]
    np.testing.assert_allclose(found, given @ weight.T, rtol=1e-4, atol=1e-4)


def test_nodes_and_outputs_can_be_added_before_running():
    lowered = lower(chain("Relu", "Tanh"))
    axes = lowered.add_constant(np.array([0, 1], np.int64))
    (top,) = lowered.add_node("ReduceMax", [lowered.value("t/0", any_layout=True), axes], keepdims=0)
    lowered.add_output("top", top, FLOAT32, ())
    found = CpuSession(lowered).run({"x:0": np.array([[-1, 2, 3], [4, -5, 6]], np.float32)})
    assert found["top"] == 6
    with pytest.raises(UsageError, match="two outputs"):
        lowered.add_output("top", top, FLOAT32)
    with pytest.raises(UsageError, match="no tensor 'nothing'"):
        lowered.value("nothing")


def test_dynamic_axes_take_any_extent():
    x = Tensor("x", (1, 2, 3), FLOAT32, dynamic_axes=(0,))
    y = Tensor("y", (1, 6), FLOAT32, dynamic_axes=(0,))
    graph = op_graph("Reshape", [x], [y], name="flat")
    given = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    np.testing.assert_array_equal(run(graph, {"x": given})["y"], given.reshape(4, 6))


def test_convolutions_in_a_row_have_no_transposes_between(one_op):
    graph = Graph("cnn")
    tensor = graph.add_input(Tensor("x", (1, 8, 8, 4), FLOAT32))
    params = {"stride": np.ones(2, np.uint32), "pad_amount": np.zeros((2, 2), np.uint32)}
    for index in range(3):
        weight = static(f"w{index}", np.ones((1, 1, 4, 4), np.float32))
        middle, after = (Tensor(f"{kind}{index}", (1, 8, 8, 4), FLOAT32) for kind in "cr")
        given = {key: static(key, value) for key, value in params.items()}
        graph.append(make_op(graph, "Conv2d", [tensor, weight], [middle], given))
        graph.append(make_op(graph, "ElementWiseNeuron", [middle], [after], {"operation": u32(4)}))
        tensor = after
    graph.add_output(tensor)
    types = [node.op_type for node in lower(graph).proto.graph.node]
    assert types.count("Transpose") == 2


def test_fixed_point_inputs_take_reals_or_stored_integers():
    encoding = ScaleOffset(0.1, -10)
    graph = chain("Relu", dtype=BY_NAME["ufixed8"], encoding=encoding)
    session, stored = CpuSession(graph), np.array([[0, 5, 10], [20, 100, 255]], np.uint8)
    real = (stored.astype(np.float32) - 10) * np.float32(0.1)
    for given in (stored, real, real + 0.04):
        native = session.run({"x:0": given}, native=True)["t/0"]
        assert native.dtype == np.uint8
        np.testing.assert_array_equal(native, np.maximum(stored, 10))
        np.testing.assert_allclose(session.run({"x:0": given})["t/0"], np.maximum(real, 0), atol=1e-5)
    ignored = CpuSession(graph, quantized=False).run({"x:0": real + np.float32(0.04)})["t/0"]
    np.testing.assert_allclose(ignored, np.maximum(real + 0.04, 0), atol=1e-6)
    with pytest.raises(UsageError, match="or stored uint8"):
        session.run({"x:0": np.zeros((2, 3), np.int8)})
