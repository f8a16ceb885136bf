"""Scopes from names."""

import pytest

from xdlc.ir import Graph, Op, Origin, Tensor
from xdlc.ir.dtype import FLOAT32
from xdlc.view.scopes import DEEPEST, path_of, scopes, scopes_of_graph


def chain(*ops: tuple[str, tuple[str, ...], str | None]) -> Graph:
    """Return a chain of ops by name, source nodes and reason."""
    graph = Graph("chain")
    value = graph.add_input(Tensor("x", (1,), FLOAT32))
    for name, nodes, reason in ops:
        result = Tensor(f"{name}_out", (1,), FLOAT32)
        graph.append(Op("Relu", [value], [result], name=name, origin=Origin(nodes, reason)))
        value = result
    graph.add_output(value)
    return graph


def of(graph: Graph) -> list[str]:
    """Return the whole scope of each op."""
    tree = scopes_of_graph(graph, {})

    def whole(place: int) -> str:
        if place < 0:
            return ""
        name, parent = tree.rows[place]
        return "/".join(filter(None, [whole(int(parent)), str(name)]))

    return [whole(place) for place in tree.of_ops]


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("/layer1/layer1.0/conv1/Conv", ("layer1", "layer1.0", "conv1")),
        ("layer1.0.conv1", ("layer1", "0")),
        ("a/b/c;d/e", ("a", "b")),
        ("Conv_12", ()),
        ("", ()),
        ("///", ()),
        ("/".join("abcdefgh" * 10_000), tuple("abcdefgh" * 4)),
    ],
)
def test_paths_of_names(name: str, path: tuple[str, ...]) -> None:
    assert path_of(name) == path
    assert len(path_of(name)) <= DEEPEST


def test_a_scope_of_one_op_is_the_op_and_chains_are_one_scope() -> None:
    tree = scopes([("a", "b", "c"), ("a", "b", "d"), ("a", "b", "d"), ()])
    assert tree.rows == [["a/b", -1], ["d", 0]]
    assert tree.of_ops == [0, 1, 1, -1]


def test_equal_names_in_other_scopes_are_others() -> None:
    tree = scopes([("a", "x"), ("a", "x"), ("b", "x"), ("b", "x"), ("a",), ("b",)])
    assert [name for name, _ in tree.rows] == ["a", "x", "b", "x"]
    assert tree.of_ops == [1, 1, 3, 3, 0, 2]


def test_inserted_ops_join_their_neighbours() -> None:
    graph = chain(
        ("first", (), "the input is channel-first"),
        ("one", ("/m/conv/Conv",), None),
        ("between", (), "the next op needs another layout"),
        ("two", ("/m/relu/Relu",), None),
    )
    assert of(graph) == ["m", "m", "m", "m"]


def test_inserted_ops_at_the_start_join_their_reader() -> None:
    graph = chain(("first", (), "why"), ("second", (), "why"), ("a", ("m/a",), None), ("b", ("m/b",), None))
    assert of(graph) == ["m", "m", "m", "m"]


def test_names_of_ops_tell_where_there_are_no_nodes() -> None:
    assert of(chain(("block.0.conv", (), None), ("block.0.relu", (), None))) == ["block/0", "block/0"]


def test_source_nodes_come_before_names_of_ops() -> None:
    assert of(chain(("a.b", ("s/t",), None), ("a.c", ("s/u",), None))) == ["s", "s"]


def test_modules_that_the_source_states_replace_names() -> None:
    graph = chain(("a", ("node_0",), None), ("b", ("node_1",), None), ("c", ("node_2",), None))
    modules = {"node_0": "features/features.0", "node_1": "features/features.0", "node_2": ""}
    tree = scopes_of_graph(graph, modules)
    assert tree.rows == [["features/features.0", -1]]
    assert tree.of_ops == [0, 0, -1]
