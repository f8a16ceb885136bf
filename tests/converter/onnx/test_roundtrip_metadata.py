"""Notes on nodes about their ops: used where they fit, else harmless."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import xdlc
from xdlc.converter.emitter import RecordedNames
from xdlc.converter.onnx.reader import LONGEST, recorded_names


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
        ("a", None, RecordedNames("a", "", (), "a")),
        ("a_3", '[null, "b", "a"]', RecordedNames("a_3", "", (), "a")),
        ("a_3", '["moved", "a", "b"]', RecordedNames("a_3", "", (), "a")),
        ("other", '[null, "a", "b"]', RecordedNames("other", "", (), "b")),
        ("a_b", '[null, "a"]', RecordedNames("a_b", "", (), "a")),
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
    assert recorded_names(relu(op, origin)) == expected


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
    last = helper.make_node("Relu", ["t"], ["y"], "last")
    for note, types in (
        (None, ["ElementWiseNeuron", "Transpose"]),
        ("moves", ["Transpose", "ElementWiseNeuron"]),
    ):
        first = noted(helper.make_node("Transpose", ["x"], ["t"], "first", perm=[1, 0]), note)
        graph = convert(models, [first, last], [2, 3], [3, 2])
        assert [op.type for op in graph.ops] == types
        x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
        np.testing.assert_array_equal(xdlc.run(_model(graph), {"x": x})["y"], np.maximum(x, 0).T)
        assert note is None or graph.ops[0].name == "moves"


def test_names_of_static_operands_are_taken_as_far_as_they_are_free(models):
    weight = np.ones((3, 4), np.float32)
    for statics, expected in (('["kernel"]', "kernel"), ('["x"]', "w"), ("[7]", "w"), ("{", "w")):
        node = noted(helper.make_node("MatMul", ["x", "w"], ["y"], "n"), "op")
        node.metadata_props.add(key="xdlc.statics", value=statics)
        model = models.make([node], {"x": [2, 3]}, {"y": [2, 4]}, {"w": weight})
        (op,) = xdlc.convert(models.save(model)).main.ops
        assert op.inputs[1].name == expected


def test_an_inserted_op_that_has_done_the_work_takes_the_noted_name(models):
    quantize = helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], "quantize")
    reshape = noted(helper.make_node("Reshape", ["s", "one"], ["t"], "n"), "chosen", '["rank 0", "quantize"]')
    reshape.metadata_props.add(key="xdlc.type", value="Reshape")
    last = helper.make_node("Mul", ["x", "t"], ["y"], "last")
    model = models.make([quantize, reshape, last], {"x": [2]}, {"y": [2]}, {"one": np.array([1])})
    graph = xdlc.convert(models.save(model)).main
    assert [op.name for op in graph.ops] == ["quantize", "chosen", "last"]
    assert graph.tensors["t"].producer.name == "chosen"


def _model(graph):
    model = xdlc.Model()
    model.add_graph(graph)
    return model
