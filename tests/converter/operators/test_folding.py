"""Nodes of known inputs: the results of onnxruntime, or an error with its reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

import xdlc
from tests.support.onnx_models import build, check, floats, node
from xdlc.errors import ModelError

CASES = {
    "indices of fewer rows": (
        "GatherElements",
        {"a": floats(1, 9), "b": np.array([[3, 0, 8, 8]])},
        {"axis": 1},
    ),
    "fewer updates than rows": (
        "ScatterElements",
        {"a": floats(3, 3), "b": np.array([[1, 0, 2]]), "c": floats(1, 3)},
        {},
    ),
    "logarithm of 0": ("Log", {"a": np.float32([0, 1, 2])}, {}),
    "division by 0": ("Div", {"a": np.float32([0, 1]), "b": np.float32([0, 0])}, {}),
    "infinity in halves": (
        "CastLike",
        {"a": np.float32([1, -np.inf]), "b": np.zeros(1, np.float16)},
        {},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_constants_are_folded_as_onnxruntime_evaluates(models: Any, case: str) -> None:
    type, weights, attributes = CASES[case]
    folded = node(type, " ".join(weights), "known", **attributes)
    nodes = [folded, node("Cast", "known", "cast", to=TensorProto.FLOAT), node("Add", "x cast")]
    converted = check(models, nodes, {"x": floats(1)}, weights)
    assert [op.type for op in converted.main.ops] == ["ElementWiseBinary"]


@pytest.mark.parametrize(
    ("dtype", "kind"), [(np.float16, TensorProto.FLOAT16), (np.int64, TensorProto.INT64)]
)
def test_casts_of_what_a_type_does_not_hold_are_silent(models: Any, dtype: type, kind: int) -> None:
    nodes = [node("Cast", "a", "known", to=kind), node("Mul", "x known")]
    check(models, nodes, {"x": np.ones(3, dtype)}, {"a": np.float32([np.inf, -1e38, 2.5])})


def test_the_one_quotient_that_has_no_integer_wraps_round(models: Any) -> None:
    weights = {"a": np.array([-(1 << 63), 7]), "b": np.array([-1, -2])}
    model = build([node("Div", "a b", "known")], {"x": floats(1)}, weights, ("known",), 17)
    found = xdlc.run(xdlc.convert(models.save(model)), {"x": floats(1)})
    assert found["known"].tolist() == [-(1 << 63), -3]


@pytest.mark.parametrize(("type", "names"), [("Div", "a a"), ("Range", "a b a")])
def test_a_constant_that_is_read_twice(models: Any, type: str, names: str) -> None:
    nodes = [node(type, names, "known"), node("Mul", "x known")]
    check(models, nodes, {"x": np.arange(1)}, {"a": np.array(2), "b": np.array(9)})


@pytest.mark.parametrize("dtype", [np.int16, np.uint16])
def test_types_without_a_kernel_in_onnxruntime_are_folded(models: Any, dtype: type) -> None:
    weights = {"a": np.array([3, 5], dtype), "b": np.array([4, 2], dtype)}
    nodes = [node("Max", "a b", "known"), node("Cast", "known", "cast", to=TensorProto.FLOAT)]
    converted = check(
        models, [*nodes, node("Add", "x cast")], {"x": np.zeros(2, np.float32)}, weights, reference=True
    )
    assert [op.type for op in converted.main.ops] == ["ElementWiseBinary"]


def test_saturate_of_a_constant_concerns_floats_of_8_bits_only(models: Any) -> None:
    nodes = [node("CastLike", "a b", "known", saturate=0), node("Add", "x known")]
    weights = {"a": np.array([1, 2, 3]), "b": floats(1)}
    check(models, nodes, {"x": floats(3)}, weights, opset=19, reference=True)


def test_values_that_do_not_fit_the_operator_are_an_error_with_the_reason(models: Any) -> None:
    nodes = [node("GatherElements", "a b", "known", axis=1), node("Add", "x known")]
    weights = {"a": floats(1, 4), "b": np.array([[7]])}
    model = build(nodes, {"x": floats(1)}, weights, ("y",), 17)
    with pytest.raises(ModelError, match="cannot compute the node: GatherElements") as found:
        xdlc.convert(models.save(model))
    assert "n_GatherElements" in str(found.value.where)
