"""Each op names its source nodes or a reason; each node its ops or a reason."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import xdlc
from tests.support.corpus_models import CNNS, OTHERS, CorpusModel
from xdlc.converter.session.diagnostics import DROPPED, KNOWN, UNUSED, VIEW
from xdlc.ir import Model

node = helper.make_node


def check_trace(model: Model) -> dict[str, str | None]:
    """Check that the trace has no gap, and return the reasons by node."""
    nodes = {name: reason for name, _, reason in model.metadata["nodes"]}
    carried: set[str] = set()
    for graph in model.graphs.values():
        for op in graph.ops:
            assert op.origin.nodes or op.origin.reason, op
            assert nodes.keys() >= set(op.origin.nodes), op
            carried.update(op.origin.nodes)
    for name, reason in nodes.items():
        assert (reason is None) == (name in carried), (name, reason)
        assert reason is None or reason
    return nodes


def check_stored(model: Model, folder: Path) -> dict[str, str | None]:
    """Check the trace before and after it went through a file."""
    reasons = check_trace(model)
    model.save(folder / "model.dlc")
    stored = xdlc.load(folder / "model.dlc")
    assert check_trace(stored) == reasons
    assert stored.metadata["nodes"] == model.metadata["nodes"]
    assert [op.origin for op in stored.main.ops] == [op.origin for op in model.main.ops]
    return reasons


def origins(model: Model, type: str) -> list[tuple[str, ...]]:
    return [op.origin.nodes for op in model.main.ops if op.type == type]


def test_tensors_know_their_other_names_and_names_that_nothing_holds(models: Any, tmp_path: Path) -> None:
    weights = {
        "w": np.ones((4, 3, 1, 1), "f4"),
        "half": np.float32([0.5]),
        "root": np.float32([math.sqrt(2)]),
    }
    weights["one"] = np.float32([1])
    nodes = [
        node("Transpose", ["x"], ["nchw"], perm=[0, 3, 1, 2]),
        node("Conv", ["nchw", "w"], ["c"]),
        node("Div", ["c", "root"], ["d"]),
        node("Erf", ["d"], ["e"]),
        node("Add", ["e", "one"], ["a"]),
        node("Mul", ["c", "a"], ["m"]),
        node("Mul", ["m", "half"], ["g"]),
        node("Transpose", ["g"], ["y"], perm=[0, 2, 3, 1]),
    ]
    made = models.make(nodes, {"x": [1, 4, 4, 3]}, {"y": [1, 4, 4, 4]}, weights)
    model = xdlc.convert(models.save(made))
    assert [op.type for op in model.main.ops] == ["Conv2d", "ElementWiseNeuron"]
    names = model.metadata["tensors"][model.main.name]
    assert names["x"] == ["x", "nchw"]
    assert names["y"] == ["y", "g"]
    assert set(names[""]) >= {"d", "e", "a", "m"}
    assert "c" not in names
    model.save(tmp_path / "model.dlc")
    assert xdlc.load(tmp_path / "model.dlc").metadata["tensors"] == model.metadata["tensors"]


def batchnorm(models: Any) -> Any:
    weights = {"w": np.ones((4, 3, 1, 1), "f4")} | {name: np.ones(4, "f4") for name in ("s", "b", "m", "v")}
    nodes = [
        node("Conv", ["x", "w"], ["c"], "conv"),
        node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"], "bn"),
        node("Relu", ["n"], ["y"], "relu"),
    ]
    return models.make(nodes, {"x": [1, 3, 4, 4]}, {"y": [1, 4, 4, 4]}, weights)


def gelu(models: Any) -> Any:
    weights = {"r": np.float32(math.sqrt(2)), "o": np.float32(1), "h": np.float32(0.5)}
    nodes = [
        node("Div", ["x", "r"], ["a"], "div"),
        node("Erf", ["a"], ["e"], "erf"),
        node("Add", ["e", "o"], ["p"], "add"),
        node("Mul", ["x", "p"], ["t"], "mul"),
        node("Mul", ["t", "h"], ["y"], "halve"),
    ]
    return models.make(nodes, {"x": [1, 4]}, {"y": [1, 4]}, weights)


def without_ops(models: Any) -> Any:
    """Return a model with nodes that need no op: views, constants, what nobody reads."""
    nodes = [
        node("Identity", ["x"], ["i"], "identity"),
        node("Transpose", ["i"], ["t"], "turn", perm=[0, 2, 1]),
        node("Transpose", ["t"], ["u"], "back", perm=[0, 2, 1]),
        node("Shape", ["c"], ["s"], "shape"),
        node("ConstantOfShape", ["s"], ["z"], "zeros"),
        node("Add", ["u", "z"], ["y"], "add"),
        node("Neg", ["u"], ["n"], "unread"),
    ]
    return models.make(nodes, {"x": [1, 2, 3]}, {"y": [1, 2, 3]}, {"c": np.zeros((1, 2, 3), "f4")})


def function(models: Any) -> Any:
    """Return a model that calls a function of its own, twice in two levels."""
    inner = helper.make_function(
        "own", "Twice", ["a"], ["b"], [node("Add", ["a", "a"], ["b"], "plus")], [helper.make_opsetid("", 17)]
    )
    outer = helper.make_function(
        "own",
        "Four",
        ["a"],
        ["c"],
        [node("Twice", ["a"], ["b"], domain="own"), node("Twice", ["b"], ["c"], domain="own")],
        [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)],
    )
    model = models.make([node("Four", ["x"], ["y"], "call", domain="own")], {"x": [2]}, {"y": [2]})
    model.functions.extend([inner, outer])
    model.opset_import.append(helper.make_opsetid("own", 1))
    return model


def unnamed(models: Any) -> Any:
    nodes = [node("Relu", ["x"], ["a"]), node("Sigmoid", ["a"], ["y"])]
    return models.make(nodes, {"x": [2]}, {"y": [2]})


def host_only(models: Any) -> Any:
    nodes = [node("Det", ["x"], ["d"], "det"), node("Relu", ["d"], ["y"], "relu")]
    return models.make(nodes, {"x": [3, 2, 2]}, {"y": [3]})


def quantized(models: Any) -> Any:
    """Return a convolution between QuantizeLinear and DequantizeLinear."""
    weights = {
        "s": np.float32(0.1),
        "z": np.uint8(128),
        "w": np.ones((2, 3, 1, 1), "i1"),
        "zw": np.int8(0),
    }
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"], "q1"),
        node("DequantizeLinear", ["q", "s", "z"], ["d"], "d1"),
        node("DequantizeLinear", ["w", "s", "zw"], ["dw"], "dw"),
        node("Conv", ["d", "dw"], ["c"], "conv"),
        node("QuantizeLinear", ["c", "s", "z"], ["q2"], "q2"),
        node("DequantizeLinear", ["q2", "s", "z"], ["y"], "d2"),
    ]
    return models.make(nodes, {"x": [1, 3, 4, 4]}, {"y": [1, 2, 4, 4]}, weights)


def branches(models: Any) -> Any:
    """Return an If whose branches have nodes of their own."""

    def graph(kind: str) -> Any:
        out = helper.make_tensor_value_info(f"{kind}_out", TensorProto.FLOAT, [2])
        return helper.make_graph([node(kind, ["x"], [f"{kind}_out"], kind.lower())], kind, [], [out])

    nodes = [node("If", ["c"], ["y"], "if", then_branch=graph("Relu"), else_branch=graph("Neg"))]
    shapes = {"x": [2], "c": []}
    return models.make(nodes, shapes, {"y": [2]}, types={"c": TensorProto.BOOL})


MODELS = (batchnorm, gelu, without_ops, function, unnamed, host_only, quantized, branches)


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_no_op_and_no_node_is_left_out(models: Any, make: Any) -> None:
    check_stored(xdlc.convert(models.save(make(models))), models.folder)


def test_fused_ops_name_all_their_sources(models: Any) -> None:
    folded = xdlc.convert(models.save(batchnorm(models)))
    assert origins(folded, "Conv2d") == [("conv", "bn")]
    fused = xdlc.convert(models.save(gelu(models)))
    assert [set(nodes) for nodes in origins(fused, "ElementWiseNeuron")] == [
        {"div", "erf", "add", "mul", "halve"}
    ]


def test_nodes_without_ops_say_why(models: Any) -> None:
    reasons = check_trace(xdlc.convert(models.save(without_ops(models))))
    assert reasons["shape"] == reasons["zeros"] == KNOWN
    assert reasons["identity"] == VIEW
    assert reasons["turn"] in (VIEW, DROPPED["merge_views"])
    assert reasons["unread"] == UNUSED
    assert reasons["add"] is None


def test_bodies_of_functions_are_traced_to_the_call(models: Any) -> None:
    model = xdlc.convert(models.save(function(models)))
    assert model.metadata["nodes"] == [["call", "own::Four", None]]
    assert {op.origin.nodes for op in model.main.ops} == {("call",)}


def test_nodes_of_branches_are_listed(models: Any) -> None:
    model = xdlc.convert(models.save(branches(models)))
    assert sorted(entry[:2] for entry in model.metadata["nodes"]) == [
        ["if", "If"],
        ["neg", "Neg"],
        ["relu", "Relu"],
    ]


def test_quantizing_and_inserting_keep_the_trace(models: Any) -> None:
    model = xdlc.convert(models.save(models.cnn()))
    rng = np.random.default_rng(0)
    samples = [{"x": rng.standard_normal((1, 3, 16, 16)).astype("f4")} for _ in range(2)]
    found = check_trace(xdlc.quantize(model, samples))
    assert found.keys() == {"conv1", "relu1", "conv2", "relu2", "pool", "flatten", "fc"}


@pytest.mark.corpus
@pytest.mark.parametrize("name", [*CNNS, *OTHERS])
def test_real_models_have_no_gap(corpus: Path, tmp_path: Path, name: str) -> None:
    check_stored(CorpusModel(corpus, name).convert(), tmp_path)


def test_nodes_of_nested_graphs_follow_the_node_that_holds_them(models):
    def branch(name, nodes):
        return helper.make_graph(
            nodes, name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])]
        )

    def choice(name, then):
        other = branch(f"{name}_else", [node("Neg", ["x"], [f"{name}_else"], f"{name}_neg")])
        return node("If", ["c"], [name], name, then_branch=then, else_branch=other)

    inner = choice("inner", branch("deep", [node("Abs", ["x"], ["deep"], "abs")]))
    outer = choice("outer", branch("mid", [inner, node("Exp", ["inner"], ["mid"], "exp")]))
    inputs, types = {"x": [2], "c": []}, {"c": TensorProto.BOOL}
    path = models.save(models.make([outer], inputs, {"outer": [2]}, types=types))
    names = [name for name, _, _ in xdlc.convert(path).metadata["nodes"]]
    assert names == ["outer", "outer_neg", "inner", "inner_neg", "abs", "exp"]
