"""Inputs that a node leaves out and whose definition has a default."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from tests.support.custom_ops import converted, custom, onnx_model, place
from xdlc.errors import UnsupportedOp
from xdlc.ir import Op
from xdlc.ir.dtype import FLOAT32, INT32

F32 = np.float32
OPTIONAL = {"mandatory": False}


def op_of(folder: Path, node: object, definition: object) -> Op:
    model = converted(folder, onnx_model([node], {"x": (F32, [2, 3])}, {"y": (F32, [2, 3])}), definition)
    (op,) = model.main.ops
    return op


def test_defaults_are_written_out_in_the_middle_and_at_the_end(tmp_path: Path) -> None:
    inputs = [
        place("x"),
        place("half", [FLOAT32], default="0.5", **OPTIONAL),
        place("none", [FLOAT32], **OPTIONAL),
        place("steps", [INT32], default="[1, 2]", **OPTIONAL),
        place("end", [FLOAT32], **OPTIONAL),
    ]
    op = op_of(tmp_path, helper.make_node("Op", ["x"], ["y"], name="n"), custom("Op", inputs, [place("y")]))
    assert [tensor and tensor.name for tensor in op.inputs] == ["x", "n_half", None, "n_steps"]
    assert [tensor.numpy().tolist() for tensor in op.inputs[1::2] if tensor] == [[0.5], [1, 2]]


def test_a_package_that_replaces_a_native_op_gets_them_too(tmp_path: Path) -> None:
    relu = custom(
        "Relu", [place("x"), place("slope", [FLOAT32], default="0.25", **OPTIONAL)], [place("y")], native=True
    )
    op = op_of(tmp_path, helper.make_node("Relu", ["x"], ["y"], name="n"), relu)
    assert op.package == "Pkg"
    assert op.inputs[1] is not None
    assert op.inputs[1].numpy().tolist() == [0.25]
    assert op.graph is not None
    op.graph.verify()


def test_a_default_that_does_not_fit_is_the_definitions_fault(tmp_path: Path) -> None:
    wrong = custom("Op", [place("x"), place("w", [INT32], default="a", **OPTIONAL)], [place("y")])
    with pytest.raises(UnsupportedOp, match="the default of input 'w' is 'a', expected a number of int32"):
        op_of(tmp_path, helper.make_node("Op", ["x"], ["y"]), wrong)
