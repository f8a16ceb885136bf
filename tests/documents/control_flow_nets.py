"""Small ONNX models with branches and loops."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import xdlc
from xdlc.ir import Model

SHAPE = [1, 4, 16, 16]
WEIGHTS = np.random.default_rng(4).normal(size=(32, 32)).astype("f4") / 16


def _values(*named: str) -> list[Any]:
    types = {"i": (TensorProto.INT64, []), "go": (TensorProto.BOOL, []), "on": (TensorProto.BOOL, [])}
    return [
        helper.make_tensor_value_info(name, *types.get(name, (TensorProto.FLOAT, SHAPE))) for name in named
    ]


def _constants(**named: Any) -> list[Any]:
    return [numpy_helper.from_array(np.asarray(value), name) for name, value in named.items()]


def _weights(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(4, 4, 3, 3)).astype("f4") / 8


def _conv(source: str, result: str, weights: str) -> Any:
    return helper.make_node("Conv", [source, weights], [result], pads=[1, 1, 1, 1], name=f"conv_{result}")


def _model(nodes: Sequence[Any], inputs: Sequence[Any], constants: Sequence[Any]) -> Any:
    graph = helper.make_graph(nodes, "g", inputs, _values("y"), constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def loop(count: int, *between: Any, result: str = "r", on: Any = None) -> Any:
    """Return a Loop over a convolution, a Relu, ``between`` and a sum with ``x``."""
    nodes = [
        _conv("s", "c", "w"),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        *between,
        helper.make_node("Add", [result, "x"], ["s2"], name="sum"),
        on or helper.make_node("Identity", ["go"], ["on"]),
    ]
    body = helper.make_graph(
        nodes, "body", _values("i", "go", "s"), _values("on", "s2"), _constants(w=_weights(0))
    )
    node = helper.make_node("Loop", ["n", "yes", "x"], ["y"], body=body, name="loop")
    return _model([node], _values("x"), _constants(n=np.int64(count), yes=np.bool_(True)))


def branches() -> Any:
    """Return an If: a convolution in one branch, an op HTP lacks in the other."""
    then = helper.make_graph([_conv("x", "a", "w")], "then", [], _values("a"), _constants(w=_weights(1)))
    other = helper.make_graph([helper.make_node("Erf", ["x"], ["b"], name="odd")], "other", [], _values("b"))
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
        helper.make_node("Less", ["zero", "m"], ["positive"]),
        helper.make_node("If", ["positive"], ["y"], then_branch=then, else_branch=other, name="if"),
    ]
    return _model(nodes, _values("x"), _constants(zero=np.float32(0)))


def rnn(steps: Any) -> Any:
    """Return a Scan whose body is ``tanh(h + row @ w)``, over ``steps`` rows."""
    nodes = [
        helper.make_node("MatMul", ["row", "w"], ["in"], name="product"),
        helper.make_node("Add", ["h", "in"], ["sum"], name="add"),
        helper.make_node("Tanh", ["sum"], ["next"], name="tanh"),
        helper.make_node("Identity", ["next"], ["out"]),
    ]

    def values(names: Sequence[str], *shape: Any) -> list[Any]:
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, [*shape, 4, 32]) for name in names]

    step = helper.make_graph(
        nodes, "step", values(("h", "row")), values(("next", "out")), _constants(w=WEIGHTS)
    )
    node = helper.make_node("Scan", ["h0", "x"], ["y", "all"], body=step, num_scan_inputs=1, name="rnn")
    proto = _model([node], values("x", steps), _constants(h0=np.zeros((4, 32), "f4")))
    del proto.graph.output[:]
    proto.graph.output.extend([*values("y"), *values(["all"], steps)])
    return proto


def converted(proto: Any, folder: Path, **options: Any) -> Model:
    onnx.save(proto, folder / "m.onnx")
    return xdlc.convert(folder / "m.onnx", **options)
