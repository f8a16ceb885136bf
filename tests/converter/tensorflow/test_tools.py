"""Tools on TensorFlow models: operations of the user, and the history."""

import pytest

import xdlc
from tests.converter.tensorflow.tf_models import FLOAT, Graph, Shape
from tests.support.custom_ops import custom, like_first, param, place
from xdlc.converter.tensorflow import FRONTEND
from xdlc.ir.dtype import FLOAT32
from xdlc.opdefs.source_match import UdoSet


@pytest.fixture
def path(tmp_path):
    graph = Graph().input("x", 2, 3)
    graph.node("Fancy", "net/fancy", ["x"], factor=2.5, T=FLOAT, _output_shapes=[Shape((2, 3))])
    return graph.node("Relu", "net/act", ["net/fancy"], T=FLOAT).save(tmp_path / "m.pb")


def test_a_udo_is_bound_by_framework_and_operator(path):
    fancy = custom("Fancy", [place("x")], [place("y")], param("factor", FLOAT32), frameworks=("tensorflow",))
    model = FRONTEND.convert(path, udos=UdoSet((fancy,), {}, {("Pkg", "Fancy"): like_first}))
    (first, *_) = model.main.ops
    assert (first.package, first.type) == ("Pkg", "Fancy")
    assert list(first.params) == ["factor"]


def test_the_history_has_the_options(path):
    model = xdlc.convert(path, out_name=["x"], importer_options={"out_node": ["x:0"]})
    assert model.metadata["history"][0]["args"]["out_node"] == "x:0,x"
    assert [each.name for each in model.main.outputs] == ["x:0"]
