"""An importer of a made-up format: diagnostics, trace, control flow, UDOs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import xdlc
from tests.converter.toy.toy import TOY, handler
from tests.support.custom_ops import custom, like_first, param, place
from xdlc.converter.checking import check, uncovered
from xdlc.errors import ModelError, ProblemList, UnsupportedOp, UsageError
from xdlc.ir.dtype import FLOAT32
from xdlc.opdefs.source_match import UdoSet

X = np.asarray([-1, 2, -3], np.float32)
convert = TOY.convert


@pytest.fixture
def toy(tmp_path: Path):
    def write(text: str) -> Path:
        path = tmp_path / "net.toy"
        path.write_text(text)
        return path

    return write


def run(model, tmp_path: Path, **feeds):
    model.save(tmp_path / "net.dlc")
    return xdlc.run(tmp_path / "net.dlc", feeds)


def test_layers_become_ops_with_the_names_of_the_source(toy, tmp_path):
    path = toy('input x 3\nout: Relu m -> y\nfirst: Scale x -> m {"by": 2}\noutput y\n')  # in any order
    model = convert(path)
    assert [(op.name, op.type, op.origin.nodes) for op in model.main.ops] == [
        ("first", "ElementWiseBinary", ("first",)),
        ("out", "ElementWiseNeuron", ("out",)),
    ]
    assert model.metadata["nodes"] == [["out", "Relu", None], ["first", "Scale", None]]
    assert model.metadata["history"][0]["tool"] == "toy-to-dlc"
    np.testing.assert_array_equal(run(model, tmp_path, x=X)["y"], np.maximum(2 * X, 0))


def test_constants_fold_and_unused_layers_are_traced(toy, tmp_path):
    path = toy("input x 3\nconst c 1 2 3\na: Add c c -> d\nb: Add x d -> y\nz: Relu x -> unused\noutput y\n")
    model = convert(path)
    assert len(model.main.ops) == 1
    assert [bool(reason) for _, _, reason in model.metadata["nodes"]] == [True, False, True]
    np.testing.assert_array_equal(run(model, tmp_path, x=X)["y"], X + np.asarray([2, 4, 6]))


def test_options_of_every_conversion(toy, tmp_path):
    text = "input x n 3\ninput b 3\ns: Add x b -> y\nt: Relu y -> z\noutput z\n"
    model = convert(toy(text), define_symbol={"n": 2}, out_name=["y"], set_inputs={"b": 1})
    assert [tensor.shape for tensor in model.main.inputs] == [(2, 3)]
    assert [tensor.name for tensor in model.main.outputs] == ["y"]
    with pytest.raises(UsageError, match="symbols are n"):
        convert(toy(text), define_symbol={"m": 2})


@pytest.mark.parametrize(
    ("text", "kind", "parts"),
    [
        ("l: Fancy x -> y", UnsupportedOp, ["layer 'l' (Fancy)", "no mapping"]),
        ('l: Scale x -> y {"bias": 1}', UnsupportedOp, ["layer 'l' (Scale)", "attribute bias"]),
        ("l: Relu q -> y", ModelError, ["layer 'l' (Relu)", "'q'", "nothing produces"]),
        ("l: Add x w -> y", ModelError, ["layer 'l' (Add)"]),
        ("l: Scale -> y", ModelError, ["layer 'l' (Scale)", "input 0"]),
        ("l: Relu y -> z\nm: Relu z -> y", ModelError, ["needs its own result"]),
    ],
)
def test_problems_are_those_of_layers(toy, text, kind, parts):
    path = toy(f"input x 3\ninput w 2\n{text}\noutput y\n")
    with pytest.raises(kind) as caught:
        convert(path)
    assert all(part in str(caught.value) for part in parts), str(caught.value)
    assert str(path) in str(caught.value)


def test_all_problems_are_found_and_a_dry_run_lists_them(toy):
    path = toy("input x 3\na: Fancy x -> y\nb: Strange y -> z\noutput z\n")
    with pytest.raises(ProblemList) as caught:
        convert(path)
    assert [problem.node for problem in caught.value.problems] == ["a", "b"]
    report = check(TOY, path)
    assert [(problem.node, problem.op) for problem in report.problems] == [("a", "Fancy"), ("b", "Strange")]
    assert [fate.node for fate in report.nodes] == ["a", "b"]


def test_operators_are_drafted_even_if_their_inputs_are_unknown(toy):
    path = toy("input x 3\na: Fancy x -> y\nb: Relu y -> z\noutput z\n")
    nodes, others = uncovered(TOY, path, operators=["Relu"])
    assert [node.type for node in nodes] == ["Fancy", "Relu"]
    assert others == []


def test_stored_tensors_that_no_needed_node_reads_are_not_traced(toy):
    path = toy("input x 3\nconst c 1 2 3\na: Relu x -> y\nb: Add y c -> z\noutput y\n")
    assert "c" not in str(convert(path).metadata.get("tensors"))


CHOICE = """
input x 3
input c 1
const half 0.5
graph up a -> u
  up1: Scale a -> u {"by": 10}
end
graph down b -> d
  down1: Relu b -> d
end
test: Less c half -> small
pick: Choose small x -> y {"yes": "@up", "no": "@down"}
output y
"""


def test_branches_are_graphs_of_the_source(toy, tmp_path):
    model = convert(toy(CHOICE))
    assert len(model.graphs) == 3
    assert [name for name, _, _ in model.metadata["nodes"]] == ["test", "pick", "up1", "down1"]
    for c, wanted in ((0, 10 * X), (1, np.maximum(X, 0))):
        found = run(model, tmp_path, x=X, c=np.asarray([c], np.float32))
        np.testing.assert_array_equal(found["y"], wanted)


LOOP = """
input x 1
const one 1
graph small s -> t
  c: Less s limit -> t
end
graph more r -> q
  m: Add r one -> q
end
l: While x -> y {"condition": "@small", "body": "@more"}
output y
"""


@pytest.mark.parametrize("limit", ["const limit 5", "input limit 1"])
def test_loops_run_as_long_as_their_condition_holds(toy, tmp_path, limit):
    feeds = {"limit": np.asarray([5], np.float32)} if limit.startswith("input") else {}
    model = convert(toy(limit + LOOP))
    assert len(model.graphs) == 3
    for start, end in ((0.5, 5.5), (7, 7)):
        found = run(model, tmp_path, x=np.asarray([start], np.float32), **feeds)
        assert found["y"] == [end]


def test_known_loops_are_unrolled(toy, tmp_path):
    model = convert(toy("const limit 5" + LOOP), set_inputs={"x": 2})
    assert len(model.graphs) == 1
    assert not model.main.inputs


def test_a_problem_inside_of_a_graph_has_its_place(toy):
    path = toy(CHOICE.replace("down1: Relu", "down1: Fancy"))
    with pytest.raises(UnsupportedOp, match=r"in Choose 'pick': layer 'down1' \(Fancy\)"):
        convert(path)


def test_an_attribute_that_no_importer_reads_is_an_error_of_the_handler(toy):
    @handler("Wrong")
    def wrong(node, g):
        return g("Relu", node.inputs, colour=1)

    with pytest.raises(AssertionError, match=r"Relu gets \['colour'\]"):
        convert(toy("input x 3\nw: Wrong x -> y\noutput y\n"))


def test_a_variable_is_an_input_and_an_output(toy, tmp_path):
    notices: list[str] = []
    text = "input x 3\ninput h 3\nstate memory h after\ns: Add x h -> after\nr: Relu after -> y\noutput y\n"
    model = convert(toy(text), notify=notices.append)
    assert [tensor.name for tensor in model.main.outputs] == ["y", "after"]
    assert any("memory" in notice for notice in notices)
    found = run(model, tmp_path, x=X, h=X)
    np.testing.assert_array_equal(found["after"], 2 * X)


SCALE = replace(custom("Scale", [place("x")], [place("y")], param("by", FLOAT32)), frameworks=("toy",))


def test_a_udo_precedes_the_handler_of_its_framework(toy):
    path = toy('input x 3\nl: Scale x -> y {"by": 2}\nr: Relu y -> z\noutput z\n')
    notices: list[str] = []
    udos = UdoSet((SCALE,), {}, {("Pkg", "Scale"): like_first})
    model = convert(path, udos=udos, notify=notices.append)
    assert (model.main.ops[0].package, model.main.ops[0].type) == ("Pkg", "Scale")
    assert any("replaces" in notice for notice in notices)
    other = replace(SCALE, frameworks=("onnx",))
    assert convert(path, udos=UdoSet((other,)), notify=notices.append).main.ops[0].package == "qti.aisw"
