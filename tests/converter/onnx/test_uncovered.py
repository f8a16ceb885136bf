"""The nodes of a model that nothing covers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support.custom_ops import custom, my_node, onnx_model, place
from xdlc.converter.checking import uncovered
from xdlc.converter.onnx import FRONTEND
from xdlc.errors import UsageError
from xdlc.ir import TensorData
from xdlc.ir.dtype import FLOAT32, INT64, UINT8
from xdlc.opdefs.source_match import Declared, UdoSet, UncoveredNode

F32 = np.float32
LIKE = {"x": (F32, [1, 3])}


def found(folder: Path, model: Any, **options: Any) -> list[UncoveredNode]:
    return found_with_others(folder, model, **options)[0]


def found_with_others(folder: Path, model: Any, **options: Any) -> tuple[list[UncoveredNode], int]:
    path = folder / "model.onnx"
    onnx.save(model, path)
    nodes, others = uncovered(FRONTEND, path, **options)
    return nodes, len(others)


def test_operands_and_attributes_of_a_node(tmp_path: Path) -> None:
    table = numpy_helper.from_array(np.zeros((2, 2), np.int64), "table")
    node = my_node("Blur", ["x", "", "w"], ["y", ""], radius=2, modes=["a"], table=table)
    weights = {"w": np.zeros((4,), np.int64)}
    (blur,), others = found_with_others(
        tmp_path, onnx_model([node], LIKE, {"y": (np.uint8, ["n", 3])}, weights)
    )
    assert (blur.operator, blur.name, others) == ("my.domain::Blur", "n_Blur", 0)
    assert blur.where == f"{tmp_path / 'model.onnx'}: node 'n_Blur' (Blur, opset 1)"
    assert blur.inputs == (
        Declared((1, 3), FLOAT32, name="x"),
        None,
        Declared((4,), INT64, name="w", is_static=True),
    )
    assert blur.outputs == (Declared((None, 3), UINT8, name="y"), None)
    table = blur.attributes["table"]
    assert isinstance(table, TensorData)
    assert (table.shape, blur.attributes["radius"], blur.attributes["modes"]) == ((2, 2), 2, ["a"])


def test_nodes_behind_an_uncovered_one_are_found_with_what_is_known(tmp_path: Path) -> None:
    nodes = [
        my_node("First", ["x"], ["a"]),
        helper.make_node("Cast", ["a"], ["b"], to=TensorProto.UINT8),
        my_node("Second", ["b"], ["y"]),
    ]
    first, second = found(tmp_path, onnx_model(nodes, LIKE, {"y": (F32, [1])}))
    assert first.outputs == (Declared(name="a"),)
    assert second.inputs == (Declared(None, UINT8, name="b"),)


def test_what_is_covered_is_left_out(tmp_path: Path) -> None:
    nodes = [
        my_node("Known", ["x"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        my_node("Own", ["b"], ["y"]),
    ]
    own = helper.make_function(
        "my.domain",
        "Own",
        ["p"],
        ["q"],
        [helper.make_node("Abs", ["p"], ["q"])],
        [helper.make_opsetid("", 17)],
    )
    model = onnx_model(
        nodes,
        LIKE,
        {"y": (F32, [1, 3])},
        functions=[own],
        infos={"a": (F32, [1, 3])},
        imports=(("", 17), ("my.domain", 1)),
    )
    known = UdoSet((custom("Known", [place("x")], [place("y")]),))
    assert found(tmp_path, model, udos=known) == []
    assert [node.type for node in found(tmp_path, model)] == ["Known"]


def test_nodes_inside_of_functions_and_branches(tmp_path: Path) -> None:
    inner = helper.make_graph([my_node("Inner", ["x"], ["i"])], "then", [], [onnx.ValueInfoProto(name="i")])
    other = helper.make_graph(
        [helper.make_node("Abs", ["x"], ["j"])], "else", [], [onnx.ValueInfoProto(name="j")]
    )
    nodes = [
        helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=other),
        helper.make_node("Own", ["x"], ["z"], domain="my.domain"),
    ]
    own = helper.make_function(
        "my.domain", "Own", ["p"], ["q"], [my_node("Deep", ["p"], ["q"])], [helper.make_opsetid("", 17)]
    )
    model = onnx_model(
        nodes,
        {**LIKE, "c": (np.bool_, [])},
        {"y": (F32, [1, 3]), "z": (F32, [1, 3])},
        functions=[own],
        imports=(("", 17), ("my.domain", 1)),
    )
    assert sorted(node.type for node in found(tmp_path, model)) == ["Deep", "Inner"]


def test_what_no_tensor_holds_is_told(tmp_path: Path) -> None:
    node = my_node("Lower", ["s", "w"], ["t"])
    model = onnx_model([node], {"s": (str, [2])}, {"t": (str, [2])})
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.STRING, [1], [b"a"]))
    (lower,), others = found_with_others(tmp_path, model)
    assert [one.odd for one in (*lower.inputs, *lower.outputs) if one] == ["strings", "strings", "strings"]
    assert others == 2


def test_attributes_that_no_one_can_read_keep_nothing_from_being_found(tmp_path: Path) -> None:
    words = helper.make_tensor("v", TensorProto.STRING, [1], [b"a"])
    nodes = [my_node("Spell", ["x"], ["a"], words=words), my_node("Blur", ["a"], ["y"])]
    found_ones, others = found_with_others(tmp_path, onnx_model(nodes, LIKE, {"y": (F32, [1, 3])}))
    assert ([one.type for one in found_ones], others) == (["Spell", "Blur"], 0)


def test_operators_that_have_a_mapping_can_be_asked_for(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Abs", ["a"], ["y"])]
    model = onnx_model(nodes, LIKE, {"y": (F32, [1, 3])})
    relu, absolute = found(tmp_path, model, operators=["Abs", "Relu"])
    assert (relu.type, absolute.type) == ("Relu", "Abs")
    assert absolute.inputs == (Declared((1, 3), FLOAT32, name="a"),)
    known = UdoSet((custom("Relu", [place("x")], [place("y")]),))
    assert [node.type for node in found(tmp_path, model, operators=["Abs"], udos=known)] == ["Abs"]
    with pytest.raises(UsageError, match="no node Reluu without a definition"):
        found(tmp_path, model, operators=["Reluu"])


def test_functions_of_the_model_can_be_requested(tmp_path: Path) -> None:
    body = [helper.make_node("Relu", ["a"], ["b"])]
    function = helper.make_function("own", "Mine", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
    node = helper.make_node("Mine", ["x"], ["y"], domain="own")
    imports = (("", 17), ("own", 1))
    model = onnx_model([node], LIKE, {"y": (F32, [1, 3])}, functions=[function], imports=imports)
    assert found(tmp_path, model) == []
    assert [one.type for one in found(tmp_path, model, operators=["Mine"])] == ["Mine"]


def test_versions_of_known_operators_are_no_matter_of_definitions(tmp_path: Path) -> None:
    model = onnx_model(
        [helper.make_node("HardSwish", ["x"], ["y"])], LIKE, {"y": (F32, [1, 3])}, imports=(("", 13),)
    )
    nodes, others = found_with_others(tmp_path, model)
    assert (nodes, others) == ([], 1)


def test_shapes_can_be_given(tmp_path: Path) -> None:
    model = onnx_model([my_node("Blur", ["x"], ["y"])], {"x": (F32, ["n", 3])}, {"y": (F32, ["n"])})
    (open_one,) = found(tmp_path, model)
    (bound,) = found(tmp_path, model, input_dims={"x": (2, 3)})
    assert [node.inputs[0].shape for node in (open_one, bound) if node.inputs[0]] == [(None, 3), (2, 3)]
    with pytest.raises(UsageError, match="z"):
        found(tmp_path, model, input_dims={"z": (2, 3)})
