"""Tools on TensorFlow models: dry run, trace, UDOs, drafts of configurations."""

import json

import pytest

import xdlc
from tests.converter.tensorflow.tf_models import FLOAT, Graph, Shape
from tests.support.custom_ops import custom, like_first, param, place
from xdlc import api
from xdlc.converter.checking import uncovered
from xdlc.converter.tensorflow import FRONTEND
from xdlc.errors import UsageError
from xdlc.ir.dtype import FLOAT32
from xdlc.opdefs.source_match import UdoSet


@pytest.fixture
def path(tmp_path):
    graph = Graph().input("x", 2, 3)
    graph.node("Fancy", "net/fancy", ["x"], factor=2.5, T=FLOAT, _output_shapes=[Shape((2, 3))])
    return graph.node("Relu", "net/act", ["net/fancy"], T=FLOAT).save(tmp_path / "m.pb")


def test_a_dry_run_names_nodes_and_operators(path):
    report = xdlc.check(path)
    assert [(each.node, each.op) for each in report.problems] == [("net/fancy", "Fancy")]


def test_a_udo_is_bound_by_framework_and_operator(path):
    fancy = custom("Fancy", [place("x")], [place("y")], param("factor", FLOAT32), frameworks=("tensorflow",))
    model = FRONTEND.convert(path, udos=UdoSet((fancy,), {}, {("Pkg", "Fancy"): like_first}))
    (first, *_) = model.main.ops
    assert (first.package, first.type) == ("Pkg", "Fancy")
    assert list(first.params) == ["factor"]


def test_the_trace_has_the_names_of_nodes_with_their_scopes(tmp_path):
    path = Graph().input("x", 2, 3).node("Relu", "net/act", ["x"], T=FLOAT).save(tmp_path / "m.pb")
    model = xdlc.convert(path)
    assert [op.origin.nodes for op in model.main.ops] == [("net/act",)]


def test_the_history_has_the_options(path):
    model = xdlc.convert(path, out_name=["x"], importer_options={"out_node": ["x:0"]})
    assert model.metadata["history"][0]["args"]["out_node"] == "x:0,x"
    assert [each.name for each in model.main.outputs] == ["x:0"]


def test_definitions_are_drafted_of_what_nothing_covers(path, tmp_path):
    target = tmp_path / "ops.json"
    (text,) = api.draft_udo_config(path, target).texts.values()
    assert "Fancy" in json.dumps(json.loads(text))
    assert "factor" in text
    assert '"T"' not in text


def test_operators_that_are_requested_must_be_there(path):
    nodes, others = uncovered(FRONTEND, path)
    assert [(node.type, node.name, node.outputs[0].shape) for node in nodes] == [
        ("Fancy", "net/fancy", (2, 3))
    ]
    assert not others
    with pytest.raises(UsageError):
        uncovered(FRONTEND, path, operators=["Fancier"])
