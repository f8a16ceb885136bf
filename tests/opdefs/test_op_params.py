"""Attributes as parameters of the types that a definition allows."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.support.custom_ops import converted, custom, my_node, onnx_model, param, place
from xdlc.errors import UnsupportedOp
from xdlc.ir import ArrayData, DType, Tensor
from xdlc.ir.dtype import BOOL8, FLOAT16, FLOAT32, INT8, INT32, INT64, STRING, UFIXED8, UINT8, UINT16, UINT32
from xdlc.opdefs.op_params import parameters


def graph_of() -> Any:
    output = onnx.helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, [2])
    return onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["z"])], "body", [], [output])


def tensor_of() -> Any:
    return onnx.helper.make_tensor("t", onnx.TensorProto.FLOAT, [2], [1.0, 2.0])


MODE = {"enumeration": ("SUM", "MEAN", "MAX")}


def given(value: Any, *dtypes: DType, **more: Any) -> Any:
    """Return the parameter that an attribute comes to, or what is wrong with it."""
    op = custom("Op", [place("x")], [place("y")], param("p", *dtypes, **more)).definition
    params, issues = parameters(op, {} if value is None else {"p": value})
    if issues:
        return issues[0].text
    return params.get("p")


@pytest.mark.parametrize(
    ("value", "dtypes", "dtype", "held"),
    [
        (7, [UINT32], UINT32, 7),
        (-7, [UINT32, INT32], INT32, -7),
        (2**32 - 1, [INT32, UINT32], UINT32, 2**32 - 1),
        (3, [FLOAT32], FLOAT32, 3.0),
        (3, [FLOAT32, INT8], INT8, 3),
        (3.0, [UINT8], UINT8, 3),
        (0.5, [INT32, FLOAT32], FLOAT32, 0.5),
        (0.1, [FLOAT32], FLOAT32, float(np.float32(0.1))),
        (float("inf"), [FLOAT32], FLOAT32, float("inf")),
        (1, [BOOL8], BOOL8, True),
        (0, [BOOL8], BOOL8, False),
        (True, [BOOL8], BOOL8, True),
        ("true", [BOOL8], BOOL8, True),
        (True, [UINT32], UINT32, 1),
        ("text", [STRING], STRING, "text"),
        (["a", "b"], [STRING], STRING, '["a", "b"]'),
        (5, [], INT32, 5),
        (2**31, [], UINT32, 2**31),
        (2**40, [], INT64, 2**40),
        (0.5, [], FLOAT32, 0.5),
        (False, [], BOOL8, False),
        ("text", [], STRING, "text"),
        (np.int64(4), [UINT32], UINT32, 4),
        (ArrayData(np.array(4, np.int64)), [UINT32], UINT32, 4),
        (ArrayData(np.array([2.5], np.float32)), [FLOAT32], FLOAT32, 2.5),
    ],
)
def test_scalars(value: Any, dtypes: Any, dtype: DType, held: Any) -> None:
    found = given(value, *dtypes)
    assert (found.dtype, found.value) == (dtype, held)
    assert type(found.value) is type(held)


@pytest.mark.parametrize(
    ("value", "dtypes", "text"),
    [
        (-1, [UINT32], "is -1, but the parameter is uint32 (0 to 4294967295)"),
        (2**32, [UINT32, INT32], "is 4294967296, but the parameter is uint32"),
        (0.5, [INT32], "is 0.5, but"),
        (2, [BOOL8], "is 2, but the parameter is bool8"),
        ("2", [INT32], "is '2', but"),
        (2, [STRING], "is 2, but the parameter is string"),
        ([2], [INT32], "is a list of 1, but the parameter is a scalar"),
        (["a"], [INT32], "is a list of 1, but the parameter is a scalar"),
        (2**24 + 1, [FLOAT32], "is 16777217, but the parameter is float32"),
        (1e39, [FLOAT32], "is 1e+39, but"),
        (70000.0, [FLOAT16], "is 70000.0, but"),
        (10**400, [FLOAT32], "but the parameter is float32"),
        (
            ArrayData(np.zeros((2, 2), np.float32)),
            [FLOAT32],
            "is a tensor float32[2, 2], but the parameter is a sc",
        ),
    ],
)
def test_scalars_that_no_type_holds(value: Any, dtypes: Any, text: str) -> None:
    assert text in given(value, *dtypes)


def test_a_name_for_a_number_wants_an_enumeration() -> None:
    definition = custom("Op", [place("x")], [place("y")], param("mode", UINT32)).definition
    (issue,) = parameters(definition, {"mode": "MAX"})[1]
    assert "state the names of its values as Enumeration (xdlc_enumeration in JSON)" in issue.fix


@pytest.mark.parametrize("value", ["MAX", 2, 2.0])
def test_enumerations_are_given_by_name_and_by_number(value: Any) -> None:
    for dtype in (UINT32, INT32, UINT8):
        found = given(value, dtype, **MODE)
        assert (found.dtype, found.value) == (dtype, 2)


@pytest.mark.parametrize("value", ["MIN", 3, -1, 0.5])
def test_values_outside_of_an_enumeration_are_told_with_it(value: Any) -> None:
    assert "but the values are SUM (0), MEAN (1), MAX (2)" in given(value, UINT32, **MODE)


def test_the_nearest_enumerator_is_named() -> None:
    assert "; nearest: MEAN" in given("mean", UINT32, **MODE)


@pytest.mark.parametrize(
    ("value", "dtypes", "rank", "more", "dtype", "stored"),
    [
        ([1, 2], [INT32], 1, {}, INT32, [1, 2]),
        ([1, 2], [FLOAT32, UINT16], 1, {}, UINT16, [1, 2]),
        ([1, -2], [UINT32, FLOAT32], 1, {}, FLOAT32, [1.0, -2.0]),
        ([0.1], [FLOAT32], None, {}, FLOAT32, [np.float32(0.1)]),
        (4, [UINT32], 1, {}, UINT32, [4]),
        ([[1, 2], [3, 4]], [INT32], 2, {}, INT32, [[1, 2], [3, 4]]),
        ([1, 2, 3, 4, 5, 6], [INT32], 2, {"text": "[2, 3]"}, INT32, [[1, 2, 3], [4, 5, 6]]),
        ([1, 0], [BOOL8], 1, {}, BOOL8, [True, False]),
        (["MEAN", 0], [UINT32], 1, MODE, UINT32, [1, 0]),
        ([1, 2], [], 1, {}, INT32, [1, 2]),
        ([1, 2**40], [], 1, {}, INT64, [1, 2**40]),
        (ArrayData(np.array([1, 2], np.int64)), [INT32], 1, {}, INT32, [1, 2]),
        (np.array([[1.5]]), [FLOAT32], 2, {}, FLOAT32, [[1.5]]),
        ([1, 2], [UFIXED8], 1, {}, FLOAT32, [1.0, 2.0]),
        ([1, 2], [UFIXED8, FLOAT32], 1, {}, FLOAT32, [1.0, 2.0]),
    ],
)
def test_tensors(value: Any, dtypes: Any, rank: Any, more: Any, dtype: DType, stored: Any) -> None:
    found = given(value, *dtypes, rank=rank, **more)
    assert isinstance(found, Tensor), found
    assert found.dtype is dtype
    array = found.numpy()
    assert array.dtype == dtype.numpy
    assert array.tolist() == np.asarray(stored, dtype.numpy).tolist()


@pytest.mark.parametrize(
    ("value", "dtypes", "rank", "text"),
    [
        ([1, -2], [UINT32], 1, "from -2 to 1, but the parameter is uint32"),
        ([0.5], [INT32], 1, "from 0.5 to 0.5, but"),
        ([1, 2, 3], [INT32], 2, "but the parameter has 2 axes"),
        ([[1], [2]], [INT32], 1, "but the parameter has 1 axes"),
        ([[1], [2, 3]], [INT32], 2, "different lengths"),
        (["a"], [INT32], 1, "of no numbers"),
        ("a", [INT32], 1, "'a', but the parameter is a tensor"),
        ([], [INT32], 1, "no tensor without elements"),
        ([1e39], [FLOAT32], 1, "but the parameter is float32"),
        ([2**24 + 1], [FLOAT32], 1, "but the parameter is float32"),
    ],
)
def test_tensors_that_have_no_form(value: Any, dtypes: Any, rank: int, text: str) -> None:
    assert text in given(value, *dtypes, rank=rank)


@pytest.mark.parametrize("defined", [[], [param("body", FLOAT32)], [param("body", FLOAT32, rank=1)]])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("make", [graph_of, tensor_of])
def test_graphs_and_lists_of_tensors_have_no_form(
    tmp_path: Path, make: Any, count: int, defined: list[Any]
) -> None:
    if (make, count) == (tensor_of, 1):
        pytest.skip("a tensor has a form")
    node = my_node("Op", ["x"], ["y"], body=make() if count == 1 else [make()] * count)
    model = onnx_model([node], {"x": (np.float32, [2])}, {"y": (np.float32, [2])})
    with pytest.raises(
        UnsupportedOp, match="'body' is a graph, a message or a list of tensors, which no parameter"
    ):
        converted(tmp_path, model, custom("Op", [place("x")], [place("y")], *defined))


def test_defaults_are_written_out_and_what_is_optional_stays_away() -> None:
    op = custom(
        "Op",
        [place("x")],
        [place("y")],
        param("axis", INT32, default="-1"),
        param("flag", BOOL8, default="1"),
        param("mode", UINT32, default="MEAN", **MODE),
        param("name", STRING, default="some"),
        param("grid", FLOAT32, rank=2, default="[[1, 2], [3, 4]]"),
        param("left", INT32, mandatory=False),
        param("list", INT32, rank=1, mandatory=False),
    ).definition
    params, issues = parameters(op, {"list": []})
    assert issues == []
    assert {name: getattr(value, "value", None) for name, value in params.items()} == {
        "axis": -1,
        "flag": True,
        "mode": 1,
        "name": "some",
        "grid": None,
    }
    grid = params["grid"]
    assert isinstance(grid, Tensor)
    assert grid.numpy().tolist() == [[1, 2], [3, 4]]


def test_a_wrong_default_is_the_definitions_fault() -> None:
    op = custom("Op", [place("x")], [place("y")], param("p", UINT32, default="-1")).definition
    _, (issue,) = parameters(op, {})
    assert issue.text.startswith("the default of parameter 'p' is '-1'")
    assert issue.fix == "correct the default in the definition"
