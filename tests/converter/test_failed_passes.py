"""A pass that raises is omitted with a notice; tests see the exception."""

import pytest

import xdlc
from tests.support.graph_passes import replace_pass
from tests.support.onnx_models import build, expected, floats, node
from xdlc.errors import ModelError
from xdlc.passes import FailedPass
from xdlc.passes.base import RAISING


@pytest.fixture
def model():
    return build(
        [node("Relu", "x", "h"), node("Add", "h one", "y")], {"x": floats(2, 3)}, {"one": floats(3)}, "y", 17
    )


def half_done(graph):
    last = list(graph.ops)[-1]
    graph.set_inputs(last, [graph.inputs[0], *last.inputs[1:]])
    raise AssertionError("of a test")


def broken(graph):
    graph.remove(list(graph.ops)[-1])


def test_the_model_is_as_without_the_pass(model, monkeypatch):
    monkeypatch.delenv(RAISING)
    replace_pass(monkeypatch, "prune", half_done)
    notices = []
    found = xdlc.convert(model, notify=notices.append)
    assert [text for text in notices if "prune" in text and "of a test" in text and "report" in text]
    x = floats(2, 3)
    assert (xdlc.run(found, {"x": x})["y"] == expected(model, {"x": x}, False)[0]).all()
    report = xdlc.check(model)
    assert not report.problems
    assert len(report.nodes) == 2
    assert any("prune" in text for text in report.notices)


def test_every_pass_may_be_omitted(model, monkeypatch):
    monkeypatch.delenv(RAISING)
    replace_pass(monkeypatch, "prune", half_done)
    replace_pass(monkeypatch, "drop_neutral", broken)
    notices = []
    xdlc.convert(model, notify=notices.append)
    assert [text.split()[1] for text in notices] == ["drop_neutral", "prune"]


def test_tests_see_the_bug(model, monkeypatch):
    replace_pass(monkeypatch, "prune", half_done)
    with pytest.raises(FailedPass, match="prune"):
        xdlc.convert(model)


def test_an_error_of_the_file_stays_one(model, monkeypatch):
    def damaged(graph):
        raise ModelError("the weights are cut")

    monkeypatch.delenv(RAISING)
    replace_pass(monkeypatch, "prune", damaged)
    with pytest.raises(ModelError, match="cut"):
        xdlc.convert(model)
