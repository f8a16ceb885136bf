"""Pairs of ops and tensors."""

import numpy as np
import pytest

from tests.support.control_flow_models import if_model
from xdlc.diff import KINDS, diff
from xdlc.diff.match import match_models
from xdlc.ir import Graph, Model, Origin, Tensor, make_op, static, u32
from xdlc.ir.dtype import FLOAT32

TYPES = ["Conv2d", "Relu", "ElementWiseAdd", "Softmax", "Relu", "Conv2d", "ElementWiseNeg", "Relu"]


def chain(*names: str, types: list[str] | None = None, nodes: str = "") -> Model:
    """Return a chain of ops; a convolution has weights of its own."""
    graph = Graph("main")
    tensor = graph.add_input(Tensor("x", (1, 2, 2, 4), FLOAT32))
    for number, (name, kind) in enumerate(zip(names, types or TYPES, strict=False)):
        inputs = [tensor]
        if kind == "Conv2d":
            inputs.append(static(f"{name}_w", np.full((1, 1, 4, 4), number, np.float32)))
        if kind == "ElementWiseAdd":
            inputs.append(tensor)
        tensor = Tensor(f"{name}_out", (1, 2, 2, 4), FLOAT32)
        origin = Origin((f"{nodes}{number}",)) if nodes else None
        graph.append(make_op(graph, kind, inputs, [tensor], {"n": u32(number)}, name=name, origin=origin))
    graph.add_output(tensor)
    return Model({"main": graph})


def pairs(before: Model, after: Model) -> list[tuple[str | None, str | None]]:
    return [
        (row.before and row.before.name, row.after and row.after.name)
        for graph in diff(before, after).graphs
        for row in graph.ops
    ]


OLD = [f"a{number}" for number in range(len(TYPES))]
NEW = [f"b{number}" for number in range(len(TYPES))]


def kinds(before: Model, after: Model) -> set[str]:
    result = diff(before, after)
    return {change.kind for graph in result.graphs for row in graph.ops for change in row.changes}


@pytest.mark.parametrize("nodes", ["", "node"])
def test_renamed_ops_are_pairs(nodes: str) -> None:
    before, after = chain(*OLD, nodes=nodes), chain(*NEW, nodes=nodes)
    assert pairs(before, after) == list(zip(OLD, NEW, strict=True))
    assert kinds(before, after) == {"op-names", "tensor-names"}
    assert diff(before, after, ignore=["names"]).is_equal


def test_source_nodes_pair_ops_that_changed_their_name_and_parameters() -> None:
    before, after = chain(*OLD, nodes="node"), chain(*NEW, nodes="node")
    for op in after.main.ops:
        op.params["n"] = u32(99)
    assert pairs(before, after) == list(zip(OLD, NEW, strict=True))


def test_numbers_in_names_may_shift() -> None:
    types = TYPES * 4
    names = [f"op{number}" for number in range(len(types) + 1)]
    before = chain(*names[: len(types)], types=types)
    after = chain(*names[:5], *names[6:], types=types)
    result = diff(before, after)
    assert result.counts["same"] == 5
    assert result.counts["only_a"] == result.counts["only_b"] == 0
    assert kinds(before, after) == {"op-names", "tensor-names"}


def test_one_more_op_is_the_only_new_one() -> None:
    names = ["first", "more", "second", "third"]
    before = chain("first", "second", "third", types=["Relu", "Softmax", "Relu"])
    after = chain(*names, types=["Relu", "ElementWiseNeg", "Softmax", "Relu"])
    for op in (*before.main.ops, *after.main.ops):
        op.params.clear()
    assert (None, "more") in pairs(before, after)
    result = diff(before, after)
    assert (result.counts["same"], result.counts["changed"], result.counts["only_b"]) == (2, 1, 1)


def test_a_renamed_op_of_another_type_is_a_pair_between_its_neighbours() -> None:
    before = chain("a", "b", "c", types=["Relu", "Softmax", "Relu"])
    after = chain("a", "new", "c", types=["Relu", "Softmax", "Relu"])
    after.main.ops[1].params["n"] = u32(7)
    assert ("b", "new") in pairs(before, after)


def test_a_moved_op_is_one_change() -> None:
    before, after = (Model({"main": Graph("main")}) for _ in range(2))
    for model, order in ((before, "abcd"), (after, "bcda")):
        x = model.main.add_input(Tensor("x", (2,), FLOAT32))
        for name in order:
            model.main.append(
                make_op(model.main, "Relu", [x], [Tensor(name + "_out", (2,), FLOAT32)], name=name)
            )
        for name in "abcd":
            model.main.add_output(model.main.tensors[name + "_out"])
    counts = diff(before, after).counts
    assert (counts["moved"], counts["same"]) == (1, 3)


def test_single_graphs_of_other_names_are_a_pair() -> None:
    after = chain(*OLD)
    after.main.name = "other"
    after.graphs = {"other": after.main}
    result = diff(chain(*OLD), after)
    assert [change.kind for graph in result.graphs for change in graph.changes] == ["graph-names"]


def test_renamed_branches_are_pairs() -> None:
    after = if_model()
    for name in ("main_then", "main_else"):
        graph = after.graphs.pop(name)
        graph.name = f"new_{name}"
        after.add_graph(graph)
    from xdlc.ir import string

    choose = next(op for op in after.main.ops if op.name == "choose")
    choose.params = {"then_graph": string("new_main_then"), "else_graph": string("new_main_else")}
    result = diff(if_model(), after)
    assert {change.kind for graph in result.graphs for change in graph.changes} == {"graph-names"}
    assert not result.items
    assert not result.counts["changed"]


def test_renamed_graphs_are_pairs_though_types_of_ops_differ() -> None:
    after = if_model()
    for name, graph in list(after.graphs.items()):
        after.graphs.pop(name)
        graph.name = f"new_{name}"
        after.add_graph(graph)
    next(op for op in after.main.ops if op.type == "Tanh").type = "Relu"
    matches = match_models(if_model(), after)
    names = [(match.before and match.before.name, match.after and match.after.name) for match in matches]
    assert names == [(name, f"new_{name}") for name in ("main", "main_then", "main_else")]
    assert not diff(if_model(), after, ignore=KINDS.keys() - {"ops", "types"}).is_equal


def test_ops_of_a_graph_of_one_model_count() -> None:
    before = if_model()
    before.add_graph(Graph("empty"))
    after = if_model()
    graph = chain("a", "b", types=["Relu", "Softmax"]).main
    graph.name = "more"
    after.graphs["more"] = graph
    after.graphs["other"] = Graph("other")
    ops_only = KINDS.keys() - {"ops"}
    for first, second, state in ((before, after, "only_b"), (after, before, "only_a")):
        result = diff(first, second, ignore=ops_only)
        assert not result.is_equal
        assert [row["state"] for row in result.as_dict()["ops"]] == [state] * 2
        assert len(list(result.lines())) > 3
    assert [change.kind for change in diff(before, after).items] == ["graphs"]


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [("ab", "a", ["graphs"]), ("a", "ab", ["graphs"]), ("ab", "ba", ["graphs"]), ("a", "c", ["graph-names"])],
)
def test_graphs_without_ops_count(before: str, after: str, kinds: list[str]) -> None:
    result = diff(*(Model({name: Graph(name) for name in names}) for names in (before, after)))
    assert [row[3] for row in result.rows()][1:] == kinds
    assert all(line != "graph " for line in result.lines())


def test_indices_for_the_page_are_those_of_the_models() -> None:
    before, after = if_model(), if_model()
    content = diff(before, after).for_page()
    assert {row[4] for row in content["ops"]} == {"same"}
    for graph_a, op_a, graph_b, op_b, _, changes in content["ops"]:
        first = list(list(before.graphs.values())[graph_a].ops)[op_a]
        second = list(list(after.graphs.values())[graph_b].ops)[op_b]
        assert (first.name, changes) == (second.name, [])


@pytest.mark.slow
def test_ten_thousand_renamed_ops_are_pairs() -> None:
    types = TYPES * 1250
    models = [chain(*(f"{letter}{n}" for n in range(len(types))), types=types) for letter in "ab"]
    assert diff(*models, ignore=["names"]).is_equal
