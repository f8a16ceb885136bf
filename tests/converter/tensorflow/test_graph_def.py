"""GraphDef files: names, constants, functions, cuts."""

import numpy as np
import pytest
from google.protobuf import text_format

import xdlc
from tests.converter.tensorflow.tf_models import FLOAT, Function, Graph, Shape, Type
from xdlc.errors import ModelError, UnsupportedOp, UsageError

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
W = np.full((2, 3), 0.5, np.float32)


@pytest.fixture
def graph():
    return Graph().input("x", 2, 3).const("w", W).node("AddV2", "sum", ["x", "w:0", "^w"], T=FLOAT)


def run(graph, tmp_path, **options):
    model = xdlc.convert(graph.save(tmp_path / "m.pb"), **options)
    return xdlc.run(model, {each.name: X for each in model.main.inputs})


def test_an_input_is_named_as_its_node_and_an_output_as_its_tensor(graph, tmp_path):
    path = graph.node("Relu", "act", ["sum"], T=FLOAT).save(tmp_path / "m.pb")
    model = xdlc.convert(path)
    assert [each.name for each in model.main.inputs] == ["x"]
    assert [each.name for each in model.main.outputs] == ["act:0"]
    assert np.array_equal(xdlc.run(model, {"x": X})["act:0"], np.maximum(X + W, 0))


def test_nodes_stand_in_any_order(tmp_path):
    graph = (
        Graph().node("Relu", "act", ["sum"]).node("AddV2", "sum", ["x", "w"]).input("x", 2, 3).const("w", W)
    )
    assert np.array_equal(run(graph, tmp_path)["act:0"], np.maximum(X + W, 0))


@pytest.mark.parametrize("name", ["sum", "sum:0"])
def test_a_graph_ends_at_a_node_that_is_named(graph, tmp_path, name):
    graph.node("Relu", "act", ["sum"])
    found = run(graph, tmp_path, importer_options={"out_node": [name]})
    assert list(found) == ["sum:0"]
    assert np.array_equal(found["sum:0"], X + W)


@pytest.mark.parametrize("name", ["sum", "sum:0"])
def test_a_node_of_given_dimensions_becomes_an_input(graph, tmp_path, name):
    graph.node("Relu", "act", ["sum"])
    found = run(graph, tmp_path, input_dims={name: [2, 3]})
    assert np.array_equal(found["act:0"], np.maximum(X, 0))


def test_a_function_that_is_called_is_a_part_of_the_graph(graph, tmp_path):
    inner = [("AddV2", "add", ["a", "b"], {}), ("Abs", "abs", ["add:z:0"], {})]
    graph.function("inner", ["a", "b"], {"out": "abs:y:0", "same": "a"}, inner)
    graph.function(
        "outer",
        ["a"],
        {"r": "call:output:1", "s": "call:output:0"},
        [
            ("StatefulPartitionedCall", "call", ["a", "a"], {"f": Function("inner"), "Tout": [FLOAT, FLOAT]}),
        ],
    )
    graph.node("PartitionedCall", "f", ["sum"], f=Function("outer"), Tout=[FLOAT, FLOAT])
    graph.node("Sub", "end", ["f:1", "f"])
    assert np.array_equal(run(graph, tmp_path)["end:0"], np.abs(2 * (X + W)) - (X + W))


def test_a_function_that_calls_itself_is_refused(graph, tmp_path):
    graph.function(
        "f", ["a"], {"r": "call:output:0"}, [("PartitionedCall", "call", ["a"], {"f": Function("f")})]
    )
    graph.node("PartitionedCall", "end", ["sum"], f=Function("f"), Tout=[FLOAT])
    with pytest.raises(ModelError, match="deep"):
        run(graph, tmp_path)


def test_a_node_that_does_not_exist_is_refused(graph, tmp_path):
    with pytest.raises(UsageError) as caught:
        run(graph, tmp_path, importer_options={"out_node": ["sun"]})
    assert caught.value.problem.endswith("'sun'")
    assert "sum" in caught.value.fix


def test_an_input_of_unknown_shape_is_fixed_by_a_value_of_any(tmp_path):
    graph = Graph().input("x", 2, 3).node("Placeholder", "keep", dtype=FLOAT).node("Mul", "y", ["x", "keep"])
    found = run(graph, tmp_path, set_inputs={"keep:0": 2.0})
    assert np.array_equal(found["y:0"], 2 * X)


def test_an_empty_shape_of_an_old_graph_is_unknown(tmp_path):
    graph = Graph().node("Placeholder", "x", dtype=FLOAT, shape=Shape()).node("Relu", "y", ["x"])
    graph.proto.versions.producer = 20
    with pytest.raises(UsageError, match="no declared shape"):
        run(graph, tmp_path)
    assert run(graph, tmp_path, input_dims={"x": [2, 3]})["y:0"].shape == (2, 3)


def test_an_input_with_a_default_value_is_a_constant(tmp_path):
    graph = Graph().input("x", 2, 3).const("w", W)
    graph.node("PlaceholderWithDefault", "p", ["w"], dtype=FLOAT, shape=Shape((2, 3))).node(
        "Mul", "y", ["x", "p"]
    )
    notices = []
    found = run(graph, tmp_path, notify=notices.append)
    assert np.array_equal(found["y:0"], W * X)
    assert any("'p'" in each for each in notices)
    assert [each.name for each in xdlc.convert(tmp_path / "m.pb", {"p": [2, 3]}).main.inputs] == ["p", "x"]


def test_a_graph_ends_at_what_is_computed_of_inputs_and_read_by_nothing(graph, tmp_path):
    graph.node("Relu", "a", ["sum"]).node("Abs", "b", ["sum"]).node("Relu", "idle", ["w"])
    graph.node("ScalarSummary", "log", ["w", "b"]).node("Assign", "save", ["w", "a"])
    notices = []
    found = run(graph, tmp_path, notify=notices.append)
    assert sorted(found) == ["a:0", "b:0"]
    assert any("out_node" in each for each in notices)


def test_text_is_read_as_well(graph, tmp_path):
    path = tmp_path / "m.pbtxt"
    path.write_text(text_format.MessageToString(graph.node("Relu", "act", ["sum"]).proto))
    assert np.array_equal(xdlc.run(xdlc.convert(path), {"x": X})["act:0"], np.maximum(X + W, 0))


def test_inputs_and_constants_of_every_type(tmp_path):
    graph = Graph().input("x", 2, 2, dtype="int32")
    node = graph.proto.node.add(name=b"w", op=b"Const").attr.add(key=b"value").value.tensor
    node.dtype, node.int_val[:] = 3, [7, 8]
    node.tensor_shape.dim.add(size=2)
    node.tensor_shape.dim.add(size=2)
    model = xdlc.convert(graph.node("AddV2", "y", ["x", "w"]).save(tmp_path / "m.pb"))
    found = xdlc.run(model, {"x": np.zeros((2, 2), np.int32)})["y:0"]
    assert found.dtype == np.int32
    assert np.array_equal(found, [[7, 8], [8, 8]])  # the last value repeats


def test_nodes_that_no_output_needs_are_listed(graph, tmp_path):
    notices = []
    graph.node("Relu", "act", ["sum"]).node("Abs", "other", ["sum"])
    run(
        graph,
        tmp_path,
        notify=notices.append,
        importer_options={"out_node": ["act"], "show_unconsumed_nodes": True},
    )
    assert "no output needs 1 nodes: other" in notices


def test_dimensions_that_the_source_states_are_known(tmp_path):
    graph = Graph().input("x", None, 4).input("s", 2, dtype="int32")
    graph.node("Reshape", "r", ["x", "s"], _output_shapes=[Shape((None, 2))]).node("Relu", "y", ["r"])
    path = graph.save(tmp_path / "m.pb")
    assert xdlc.convert(path).main.outputs[0].shape[1] == 2
    assert xdlc.convert(path).main.outputs[0].dynamic_axes == (0,)
    other = xdlc.convert(path, {"x": [3, 8]})  # what is stated holds for 4 columns
    assert other.main.outputs[0].dynamic_axes == (0, 1)


def test_a_cut_at_an_operator_of_training_has_its_type(tmp_path):
    types = [FLOAT, Type("int32")]
    graph = Graph().node("IteratorV2", "it").node("IteratorGetNext", "next", ["it"], output_types=types)
    graph.node("Cast", "c", ["next:1"], SrcT=types[1], DstT=FLOAT).node("AddV2", "y", ["next", "c"])
    path = graph.save(tmp_path / "m.pb")
    with pytest.raises(UnsupportedOp, match="training"):
        xdlc.convert(path)
    model = xdlc.convert(path, {"next:0": [2, 3], "next:1": [3]})
    found = xdlc.run(model, {"next": X, "next:1": np.arange(3, dtype=np.int32)})
    assert np.array_equal(found["y:0"], X + np.arange(3))


def test_an_open_batch_is_one_unless_options_state_shapes(tmp_path):
    path = Graph().input("x", None, 4).node("Relu", "y", ["x"]).save(tmp_path / "m.pb")
    notices = []
    assert xdlc.convert(path, notify=notices.append).main.inputs[0].shape == (1, 4)
    assert any("batch" in notice and "-1,4" in notice for notice in notices)
    assert xdlc.convert(path, batch=3).main.inputs[0].shape == (3, 4)
    assert xdlc.convert(path, {"x": [-1, 4]}, notify=notices.append).main.inputs[0].dynamic_axes == (0,)


def test_other_open_dimensions_stay_open(tmp_path):
    path = Graph().input("x", None, None).node("Relu", "y", ["x"]).save(tmp_path / "m.pb")
    assert xdlc.convert(path, notify=lambda _: None).main.inputs[0].dynamic_axes == (0, 1)
