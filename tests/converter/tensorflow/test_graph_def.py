"""GraphDef files: names, constants, functions, cuts."""

import numpy as np
import pytest

import xdlc
from tests.converter.tensorflow.tf_models import FLOAT, Function, Graph
from xdlc.errors import ModelError, UsageError

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
    assert "sum" in caught.value.fix
