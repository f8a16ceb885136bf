"""Nodes whose operators users define, in quantized models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.support.custom_ops import (
    converted,
    custom,
    custom_op,
    my_node,
    onnx_model,
    param,
    place,
)
from xdlc.converter.onnx import FRONTEND
from xdlc.ir import AxisScaleOffset, ScaleOffset
from xdlc.ir.dtype import (
    FLOAT32,
    INT8,
    INT16,
    INT32,
    SFIXED8,
    UFIXED8,
    UINT8,
    UINT16,
    UNDEFINED,
    DType,
)
from xdlc.opdefs.model import Collection, SupplementOp, SupplementTable, SupplementTensor
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.opdefs.source_match import UdoSet

F32 = np.float32


@pytest.mark.parametrize("is_stated", [True, False])
@pytest.mark.parametrize(
    ("dtypes", "told"), [([UFIXED8], UFIXED8), ([UFIXED8, SFIXED8], None), ([FLOAT32, UFIXED8], UFIXED8)]
)
def test_types_of_a_quantized_model_stand_for_reals(
    tmp_path: Path, dtypes: Any, told: DType | None, is_stated: bool
) -> None:
    def shape(op: OpView) -> list[TensorSpec]:
        return [TensorSpec((2, 3), told or UNDEFINED)]

    op = custom("Scale", [place("x", [INT32])], [place("y", dtypes)], param("factor", FLOAT32))
    nodes = [my_node("Scale", ["x"], ["m"], factor=1.0), helper.make_node("Relu", ["m"], ["y"])]
    if is_stated:
        nodes = [my_node("Scale", ["x"], ["y"], factor=1.0)]
    given = onnx_model(nodes, {"x": (np.int32, [2, 3])}, {"y": (F32, [2, 3])})
    made = custom_op(converted(tmp_path, given, op, shapes={("Pkg", "Scale"): shape}))
    assert made.outputs[0].dtype is FLOAT32


@pytest.mark.parametrize(("dtypes", "kept"), [([FLOAT32], False), ([FLOAT32, SFIXED8], True), ([], True)])
def test_weights_that_the_source_quantizes_by_channel(tmp_path: Path, dtypes: Any, kept: bool) -> None:
    op = custom("Mix", [place("x"), place("w", dtypes, is_static=True, layout="NHWC")], [place("y")])
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["w"], axis=1),
        my_node("Mix", ["x", "w"], ["y"]),
    ]
    weights = {
        "q": np.arange(-6, 6, dtype=np.int8).reshape(1, 2, 3, 2),
        "s": np.array([0.5, 0.25], F32),
        "z": np.zeros(2, np.int8),
    }
    source = onnx_model(nodes, {"x": (F32, [2])}, {"y": (F32, [2])}, weights)
    if not dtypes:  # which is stored only with what backends say of it
        row = SupplementOp("Mix", {"w": SupplementTensor("w", (FLOAT32, SFIXED8))}, {}, {})
        table = SupplementTable("CPU", frozenset({"Mix"}), {"Mix": (row,)})
        packages = {"Pkg": Collection("Pkg", "d", "1.0", (op.definition,), (table,))}
        onnx.save(source, tmp_path / "m.onnx")
        model = FRONTEND.convert(tmp_path / "m.onnx", udos=UdoSet((op,), packages))
    else:
        model = converted(tmp_path, source, op)
    weight = custom_op(model).inputs[1]
    assert weight is not None
    assert weight.shape == (1, 3, 2, 2)
    assert (weight.dtype, weight.encoding) == (
        (SFIXED8, AxisScaleOffset(3, (0.5, 0.25))) if kept else (FLOAT32, None)
    )
    assert (weight.numpy().dtype == np.int8) == kept


def _rounded(name: str, source: str, number: int, kind: str = "uint8") -> list[Any]:
    """Return nodes that round a value, and the names of scale and zero point."""
    return [
        helper.make_node("QuantizeLinear", [source, "s", f"z_{kind}"], [f"{name}_q"], name=f"q{number}"),
        helper.make_node("DequantizeLinear", [f"{name}_q", "s", f"z_{kind}"], [name], name=f"dq{number}"),
    ]


@pytest.mark.parametrize(
    ("dtypes", "fixed"),
    [([FLOAT32, UINT8], True), ([UFIXED8], True), ([FLOAT32], False), ([FLOAT32, UINT16], False)],
)
def test_between_roundings_an_op_is_of_fixed_point_if_its_definition_is(
    tmp_path: Path, dtypes: Any, fixed: bool
) -> None:
    op = custom("Scale", [place("x", dtypes)], [place("y", dtypes)], param("factor", FLOAT32))
    nodes = [
        *_rounded("a", "x", 0),
        my_node("Scale", ["a"], ["b"], factor=2.0),
        *_rounded("y", "b", 1),
    ]
    weights = {"s": np.array(0.5, F32), "z_uint8": np.array(3, np.uint8)}
    given = onnx_model(nodes, {"x": (F32, [2])}, {"y": (F32, [2])}, weights, infos={"b": (F32, [2])})
    made = custom_op(converted(tmp_path, given, op))
    (read,), (result,) = made.inputs, made.outputs
    assert read is not None
    wanted = (UFIXED8, ScaleOffset(0.5, -3)) if fixed else (FLOAT32, None)
    assert (read.dtype, read.encoding) == wanted
    assert (result.dtype, result.encoding) == wanted


@pytest.mark.parametrize(
    ("x", "y", "forms"),
    [
        (INT8, INT8, (SFIXED8, SFIXED8)),
        (INT8, FLOAT32, (SFIXED8, FLOAT32)),
        (FLOAT32, INT8, (FLOAT32, SFIXED8)),
        (INT8, INT16, (FLOAT32, FLOAT32)),
    ],
)
def test_each_side_between_roundings_is_as_one_backend_has_it(
    tmp_path: Path, x: DType, y: DType, forms: Any
) -> None:
    op = custom("Mix", [place("x", []), place("w", [], is_static=True)], [place("y", [])])

    def table(core: str, x: DType, y: DType) -> SupplementTable:
        inputs = {"x": SupplementTensor("x", (x,)), "w": SupplementTensor("w", (x,))}
        row = SupplementOp("Mix", inputs, {"y": SupplementTensor("y", (y,))}, {})
        return SupplementTable(core, frozenset({"Mix"}), {"Mix": (row,)})

    tables = table("CPU", FLOAT32, FLOAT32), table("DSP", x, y)
    nodes = [
        *_rounded("a", "x", 0, "int8"),
        helper.make_node("DequantizeLinear", ["w_q", "s", "z_int8"], ["w"], name="dq_w"),
        my_node("Mix", ["a", "w"], ["b"]),
        *_rounded("y", "b", 1, "int8"),
    ]
    weights = {"s": np.array(0.5, F32), "z_int8": np.array(0, np.int8), "w_q": np.int8([1, -2])}
    given = onnx_model(nodes, {"x": (F32, [2])}, {"y": (F32, [2])}, weights, infos={"b": (F32, [2])})
    onnx.save(given, tmp_path / "m.onnx")
    packages = {"Pkg": Collection("Pkg", "d", "1.0", (op.definition,), tables)}
    made = custom_op(FRONTEND.convert(tmp_path / "m.onnx", udos=UdoSet((op,), packages)))
    read, weight = made.inputs
    assert read is not None
    assert weight is not None
    assert (read.dtype, made.outputs[0].dtype) == forms
    assert weight.dtype is (SFIXED8 if x is INT8 else FLOAT32)
