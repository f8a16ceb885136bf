"""Notes on nodes about the ops they stand for: taken where they fit, harmless where they do not."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import xdlc
from xdlc.converter.onnx.hints import LONGEST, Hint, hint_of


def noted(node, op=None, origin=None):
    for key, value in (("xdlc.op", op), ("xdlc.origin", origin)):
        if value is not None:
            node.metadata_props.add(key=key, value=value)
    return node


def relu(op=None, origin=None, name="n"):
    return noted(helper.make_node("Relu", ["x"], ["y"], name), op, origin)


@pytest.mark.parametrize(
    ("op", "origin", "expected"),
    [
        (None, None, None),
        ("", None, None),
        ("a", None, Hint("a", "", "a")),
        ("a_3", '[null, "b", "a"]', Hint("a_3", "", "a")),
        ("a_3", '["moved", "a", "b"]', Hint("a_3", "", "a", "moved")),
        ("other", '[null, "a", "b"]', Hint("other", "", "b")),
        ("a_b", '[null, "a"]', Hint("a_b", "", "a")),
        ("a", "[", None),
        ("a", "7", None),
        ("a", "[]", None),
        ("a", "[7]", None),
        ("a", "[null, 7]", None),
        ("a", "[" * 50000, None),
        ("a" * (LONGEST + 1), None, None),
    ],
)
def test_forms(op, origin, expected):
    assert hint_of(relu(op, origin)) == expected


def convert(models, nodes, shape, out):
    return xdlc.convert(models.save(models.make(nodes, {"x": shape}, {"y": out}))).main


def test_a_free_name_is_taken(models):
    (op,) = convert(models, [relu("chosen", '[null, "source"]')], [2, 3], [2, 3]).ops
    assert (op.name, op.origin.nodes) == ("chosen", ("n",))


def test_a_name_that_is_not_free_is_not(models):
    nodes = [
        noted(helper.make_node("Relu", ["x"], ["a"], "one"), "same"),
        noted(helper.make_node("Sigmoid", ["a"], ["y"], "two"), "same"),
    ]
    names = [op.name for op in convert(models, nodes, [2, 3], [2, 3]).ops]
    assert names[0] == "same"
    assert names[1].startswith("same_")


def test_a_noted_transpose_is_an_op_and_others_are_views(models):
    back = helper.make_node("Transpose", ["t"], ["s"], "back", perm=[1, 0])
    last = helper.make_node("Relu", ["s"], ["y"], "last")
    for note, types in (
        (None, ["ElementWiseNeuron"]),
        ("moves", ["Transpose", "ElementWiseNeuron", "Transpose"]),
    ):
        first = noted(helper.make_node("Transpose", ["x"], ["t"], "first", perm=[1, 0]), note)
        graph = convert(models, [first, back, last], [2, 3], [2, 3])
        assert [op.type for op in graph.ops] == types
        x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
        np.testing.assert_array_equal(xdlc.run(_model(graph), {"x": x})["y"], np.maximum(x, 0))
        assert note is None or next(graph.ops).name == "moves"


def _model(graph):
    model = xdlc.Model()
    model.add_graph(graph)
    return model
