"""ONNX messages in a child: a failure is an error, the next one is evaluated."""

import multiprocessing
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from xdlc.api import convert
from xdlc.ir import ArrayData
from xdlc.runtime import onnx_evaluator
from xdlc.runtime.onnx_evaluator import RefusedError, alone, evaluate, infer_shapes, limited

INDEX = np.array([1 << 62])


def double(value: float) -> Any:
    held = {"x": ArrayData(np.float32([value]))}
    return evaluate(add("x"), held, 0)


def add(name: str) -> Any:
    node = helper.make_node("Add", [name, name], ["y"])
    return alone(node, 17, {name: (np.dtype("float32"), (1,))}, {})


def endless() -> Any:
    """Evaluate what needs years: an index that numpy wraps step by step."""
    node = helper.make_node("GatherElements", ["x", "i"], ["y"])
    given = {"x": ArrayData(np.ones(1, np.float32)), "i": ArrayData(INDEX)}
    types = {name: (data.dtype, data.shape) for name, data in given.items()}
    return evaluate(alone(node, 17, types, given), given, 0, by_reference=True)


def test_what_never_ends_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_evaluator, "_SECONDS", 0.1)
    with limited():
        with pytest.raises(RefusedError, match="SIGPROF"):
            endless()
        with pytest.raises(
            RefusedError, match="too much time"
        ):  # nothing more is evaluated for this conversion
            double(1)


def test_what_ends_the_process_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_evaluator, "_DEATHS", 1)
    node = helper.make_node("EyeLike", [""], ["y"], dtype=TensorProto.FLOAT)
    with limited():
        with pytest.raises(RefusedError, match="SIG"):
            infer_shapes(alone(node, 17, {}, {}), strict=True)
        with pytest.raises(RefusedError, match="too often"):
            double(1)
    assert double(1.5) == [3]


def test_memory_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_evaluator, "_MEMORY", 1 << 24)
    node = helper.make_node("ConstantOfShape", ["n"], ["y"])
    given = {"n": ArrayData(np.array([1 << 28]))}
    with pytest.raises(RefusedError):
        evaluate(alone(node, 17, {"n": (np.dtype("int64"), (1,))}, given), given, 0)


def test_a_copy_of_the_process_has_a_child_of_its_own() -> None:
    assert double(1) == [2]
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert [pool.apply(double, (3,)), double(4)] == [[6], [8]]


def test_frequent_constant_nodes_start_no_child(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(onnx_evaluator, "_WORKER", None)
    nodes = [
        helper.make_node("Shape", ["x"], ["all"]),
        helper.make_node("Gather", ["all", "zero"], ["first"]),
        helper.make_node("Slice", ["all", "one", "two"], ["second"]),
        helper.make_node("Mul", ["second", "two"], ["twice"]),
        helper.make_node("Div", ["first", "two"], ["half"]),
        helper.make_node("Concat", ["half", "twice"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    constants = {"zero": [0], "one": [1], "two": [2]}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, [2, 8])],
        [helper.make_tensor_value_info("y", 1, None)],
        [numpy_helper.from_array(np.array(value), name) for name, value in constants.items()],
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    )
    assert convert(path).main.outputs
