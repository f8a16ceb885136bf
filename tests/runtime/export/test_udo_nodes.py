"""Ops of users in exported ONNX models, and back from there."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import xdlc
from tests.support.custom_ops import converted, custom, custom_op, my_node, onnx_model, param, place
from xdlc.errors import UnsupportedOp
from xdlc.ir import Model, Tensor, to_text
from xdlc.ir.dtype import BOOL8, FLOAT32, INT32, SFIXED8, STRING, UINT32

F32 = np.float32
TAPS = numpy_helper.from_array(np.arange(24, dtype=F32).reshape(1, 2, 3, 4))
JOIN = custom(
    "Join",
    [
        place("a", layout="NHWC"),
        place("b", mandatory=False),
        place("w", mandatory=False, is_static=True, layout="NHWC"),
        place("rest", [INT32], mandatory=False, repeated=True),
    ],
    [place("y", layout="NHWC"), place("parts", [INT32], mandatory=False, repeated=True)],
    param("mode", UINT32, enumeration=("SUM", "MEAN")),
    param("grid", FLOAT32, rank=2),
    param("sizes", INT32, rank=1),
    param("taps", FLOAT32, rank=4, layout="NHWC"),
    param("label", STRING),
    param("flag", BOOL8, default="1"),
    param("type", FLOAT32),
    param("count", INT32, default="-3"),
)


def source() -> Any:
    grid = numpy_helper.from_array(np.arange(4, dtype=F32).reshape(2, 2))
    attributes = {"mode": "MEAN", "grid": grid, "sizes": [4, -5], "taps": TAPS, "label": "hello"}
    nodes = [
        my_node("Join", ["x", "", "w", "i"], ["m", "p"], **attributes),
        helper.make_node("Relu", ["m"], ["y"], name="relu"),
    ]
    nodes[0].attribute.append(helper.make_attribute("type", 1.5))
    return onnx_model(
        nodes,
        {"x": (F32, [1, 2, 3, 4]), "i": (np.int32, [3])},
        {"y": (F32, [1, 5, 3, 4]), "p": (np.int32, [3])},
        {"w": np.arange(24, dtype=F32).reshape(1, 2, 3, 4)},
        infos={"m": (F32, [1, 5, 3, 4])},
    )


def _ops(model: Model) -> list[Any]:
    rows = []
    for op in model.main.ops:
        params = {
            name: (value.numpy().tolist(), value.dtype) if isinstance(value, Tensor) else value
            for name, value in op.params.items()
        }
        sides = [
            [tensor and (tensor.shape, tensor.dtype, tensor.encoding) for tensor in side]
            for side in (op.inputs, op.outputs)
        ]
        rows.append((op.package, op.type, op.name, params, sides))
    return rows


def test_an_op_comes_back_as_it_was(tmp_path: Path) -> None:
    model = converted(tmp_path, source(), JOIN)
    xdlc.to_onnx(model, tmp_path / "back.onnx")
    written = onnx.load(tmp_path / "back.onnx")
    onnx.checker.check_model(written)
    (node,) = [node for node in written.graph.node if node.domain == "Pkg"]
    assert node.name == "n_Join"
    assert {a.name: helper.get_attribute_value(a) for a in node.attribute}["mode"] == b"MEAN"
    assert custom_op(model).param("taps").shape == (1, 3, 4, 2)
    again = converted(tmp_path, written, JOIN)
    assert _ops(again) == _ops(model), to_text(again)


def test_a_replaced_native_op_comes_back_too(tmp_path: Path) -> None:
    relu = custom("Relu", [place("in[0]")], [place("out[0]")], native=True)
    given = onnx_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (F32, [2])}, {"y": (F32, [2])})
    model = converted(tmp_path, given, relu)
    xdlc.to_onnx(model, tmp_path / "back.onnx")
    assert _ops(converted(tmp_path, onnx.load(tmp_path / "back.onnx"), relu)) == _ops(model)


def test_stored_weights_keep_their_scales(tmp_path: Path) -> None:
    op = custom("Mix", [place("x"), place("w", [FLOAT32, SFIXED8], is_static=True)], [place("y")])
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["w"], axis=0),
        my_node("Mix", ["x", "w"], ["y"]),
    ]
    weights = {
        "q": np.arange(-3, 3, dtype=np.int8).reshape(2, 3),
        "s": np.array([0.5, 0.25], F32),
        "z": np.zeros(2, np.int8),
    }
    given = onnx_model(nodes, {"x": (F32, [2])}, {"y": (F32, [2])}, weights)
    model = converted(tmp_path, given, op)
    xdlc.to_onnx(model, tmp_path / "back.onnx")
    assert _ops(converted(tmp_path, onnx.load(tmp_path / "back.onnx"), op)) == _ops(model)


def test_ops_inside_of_branches_come_back(tmp_path: Path) -> None:
    op = custom("Scale", [place("x")], [place("y")], param("factor", FLOAT32))
    branches = {
        f"{word}_branch": helper.make_graph(
            [my_node("Scale", ["x"], ["m"], factor=number), helper.make_node("Relu", ["m"], [word])],
            word,
            [],
            [helper.make_tensor_value_info(word, 1, [2])],
            value_info=[helper.make_tensor_value_info("m", 1, [2])],
        )
        for word, number in (("then", 1.0), ("else", 2.0))
    }
    node = helper.make_node("If", ["c"], ["y"], name="n_if", **branches)
    given = onnx_model([node], {"c": (np.bool_, []), "x": (F32, [2])}, {"y": (F32, [2])})
    model = converted(tmp_path, given, op)
    xdlc.to_onnx(model, tmp_path / "back.onnx")
    again = converted(tmp_path, onnx.load(tmp_path / "back.onnx"), op)
    factors = [
        [op.param("factor") for graph in held.graphs.values() for op in graph.ops if op.package == "Pkg"]
        for held in (model, again)
    ]
    assert factors[0] == factors[1]
    assert sorted(factors[0]) == [1.0, 2.0]


def test_a_package_that_is_a_domain_of_onnx_is_refused(tmp_path: Path) -> None:
    op = custom("Scale", [place("x")], [place("y")], package="Pkg")
    model = converted(
        tmp_path, onnx_model([my_node("Scale", ["x"], ["y"])], {"x": (F32, [2])}, {"y": (F32, [2])}), op
    )
    next(iter(model.main.ops)).package = "com.microsoft"
    with pytest.raises(UnsupportedOp, match="is a domain of ONNX"):
        xdlc.to_onnx(model, tmp_path / "back.onnx")
