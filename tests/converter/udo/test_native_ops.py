"""Native operations that packages of users replace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.support.custom_ops import converted, custom, onnx_model, param, place
from xdlc.errors import UnsupportedOp, UsageError
from xdlc.ir.dtype import FLOAT32, UINT32

F32 = np.float32
SOFTMAX = custom(
    "Softmax",
    [place("in[0]")],
    [place("out[0]")],
    param("axis", UINT32, mandatory=False),
    param("beta", FLOAT32, default="2.0"),
    native=True,
)


def model(*nodes: Any) -> Any:
    return onnx_model(nodes, {"x": (F32, [2, 3])}, {"y": (F32, [2, 3])})


SOFTMAX_MODEL = model(helper.make_node("Softmax", ["x"], ["y"], axis=1))


def test_an_op_moves_to_the_package_with_the_values_that_qnn_means(tmp_path: Path) -> None:
    (op,) = converted(tmp_path, SOFTMAX_MODEL, SOFTMAX).main.ops
    assert (op.package, op.type) == ("Pkg", "Softmax")
    assert op.param("axis") == 1
    assert op.param("beta") == 1.0  # what QNN takes where nothing is set, not the definition's default


def test_a_dynamic_model_has_nothing_to_replace_and_a_notice_states_why(tmp_path: Path) -> None:
    node = helper.make_node("Softmax", ["x"], ["y"], axis=1)
    notices: list[str] = []
    converted(
        tmp_path,
        onnx_model([node], {"x": (F32, ["N", 3])}, {"y": (F32, ["N", 3])}),
        SOFTMAX,
        notify=notices.append,
    )
    assert notices[0] == (
        "no op of the model is Pkg::Softmax; nodes with dynamic dimensions cannot become QNN ops: bind "
        "open dimensions with input_dims, define_symbol or batch"
    )


def test_older_names_of_an_operation_stand_for_it(tmp_path: Path) -> None:
    relu = custom("Relu", [place("in[0]")], [place("out[0]")], native=True)
    nodes = [helper.make_node("Relu", ["x"], ["m"]), helper.make_node("Sigmoid", ["m"], ["y"])]
    ops = converted(tmp_path, model(*nodes), relu).main.ops
    assert [(op.package, op.type, dict(op.params) == {}) for op in ops] == [
        ("Pkg", "Relu", True),
        ("qti.aisw", "ElementWiseNeuron", False),
    ]


@pytest.mark.parametrize(
    ("op", "text"),
    [
        (
            custom("Softmax", [place("x")], [place("y")], native=True),
            "attribute 'axis' is not a parameter",
        ),
        (
            custom("Softmax", [place("x"), place("w")], [place("y")], param("axis", UINT32), native=True),
            r"input 1 \('w'\) is missing",
        ),
        (
            custom("Softmax", [place("x", layout="NCHW")], [place("y")], param("axis", UINT32), native=True),
            r"input 0 \('x'\) has layout NCHW",
        ),
        (
            custom("Softmax", [place("x", is_static=True)], [place("y")], param("axis", UINT32), native=True),
            r"input 0 \('x'\) is computed",
        ),
        (
            custom("Softmax", [place("x")], [place("y")], param("axis", FLOAT32, rank=2), native=True),
            "attribute 'axis' is",
        ),
    ],
)
def test_what_does_not_fit_is_an_error(tmp_path: Path, op: Any, text: str) -> None:
    with pytest.raises(UnsupportedOp, match=text) as caught:
        converted(tmp_path, SOFTMAX_MODEL, op)
    assert "Softmax" in str(caught.value.where)


def test_types_that_qnn_does_not_have_are_refused(tmp_path: Path) -> None:
    wrong = custom("Softmaxx", [place("x")], [place("y")], native=True, source="c.xml:3")
    with pytest.raises(UsageError, match="QNN has no operation 'Softmaxx'") as caught:
        converted(tmp_path, SOFTMAX_MODEL, wrong)
    assert caught.value.where == "c.xml:3"
    assert "Softmax" in str(caught.value.fix)


def test_two_that_replace_one_are_refused(tmp_path: Path) -> None:
    other = custom("Softmax", [place("x")], [place("y")], native=True, package="Other")
    with pytest.raises(UsageError, match="both replace Softmax"):
        converted(tmp_path, SOFTMAX_MODEL, SOFTMAX, other)


def test_an_object_may_decline(tmp_path: Path) -> None:
    seen: list[Any] = []

    def accepts(node: Any) -> bool:
        seen.append(node)
        return bool(node.inputs[0].shape[1] > 3)

    picky = custom("Softmax", [place("x")], [place("y")], param("axis", UINT32), native=True, accepts=accepts)
    (op,) = converted(tmp_path, SOFTMAX_MODEL, picky).main.ops
    assert op.package == "qti.aisw"
    assert (seen[0].framework, seen[0].type) == ("qnn", "Softmax")
    assert seen[0].attributes["axis"] == 1
