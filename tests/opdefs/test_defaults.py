"""Which value a default's text is follows from the data type."""

import math
from typing import Any

import pytest

from xdlc.errors import ModelError
from xdlc.ir import dtype as dt
from xdlc.ir.dtype import BOOL8, FLOAT16, FLOAT32, INT32, UFIXED8, UINT8, DType
from xdlc.opdefs.defaults import default_value, parse_default
from xdlc.opdefs.input_defaults import default_inputs
from xdlc.opdefs.model import OpDef, ParamDef, TensorDef
from xdlc.opdefs.op_view import OpView, TensorSpec


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[[1, 2], [3, 4]]", [[1, 2], [3, 4]]),
        ("{(1, 2), (3, 4)}", [[1, 2], [3, 4]]),
        ("(-1.5,)", [-1.5]),
        ("[]", []),
        ("7", 7),
        ("-1", -1),
        (" 1.1 ", 1.1),
        ("1e3", 1000.0),
        ("LINEAR", "LINEAR"),
        ("", ""),
        ("[1, 2", "[1, 2"),
        ("[1, 2)", "[1, 2)"),
        ("[1] 2", "[1] 2"),
        ("[1,, 2]", "[1,, 2]"),
        ("[a, b]", "[a, b]"),
        ("[[1], [2, 3]]", "[[1], [2, 3]]"),
        ("1_000", "1_000"),
        ("nan", "nan"),
    ],
)
def test_without_a_type(text, value):
    found = parse_default(text)
    assert found == value
    assert type(found) is type(value)


def param(text, *dtypes, rank=0, shape="", enumeration=()):
    return ParamDef("p", False, dtypes, rank, shape, default=text, enumeration=enumeration)


@pytest.mark.parametrize(
    ("definition", "value"),
    [
        (param("0", dt.BOOL8), False),
        (param("0", dt.INT32), 0),
        (param("0", dt.FLOAT32), 0.0),
        (param("0", dt.STRING), "0"),
        (param("true", dt.BOOL8), True),
        (param("[1, 2]", dt.STRING), "[1, 2]"),
        (param("[0, 1]", dt.BOOL8, rank=1), [False, True]),
        (param("-128", dt.INT8), -128),
        (param("18446744073709551615", dt.UINT64), (1 << 64) - 1),
        (param("-inf", dt.FLOAT16), -math.inf),
        (param("65504", dt.FLOAT16), 65504.0),
        (param("1.5", dt.UFIXED8), 1.5),
        (param("1.5", dt.INT32, dt.FLOAT32), 1.5),
        (param("[1, 2", dt.INT32, dt.STRING), "[1, 2"),
        (param("word", dt.FLOAT32, dt.STRING), "word"),
        (param("B", dt.UINT32, enumeration=("A", "B")), 1),
        (param("0", dt.UINT32, enumeration=("A", "B")), 0),
        (param("1", dt.UINT32, enumeration=("1", "0")), 0),
        (param("[B, 0]", dt.UINT32, rank=1, enumeration=("A", "B")), [1, 0]),
        (param("[[[1]]]", dt.INT32, rank=None), [[[1]]]),
        (param("1", dt.INT32, rank=None), 1),
        (param("[1, 2, 3]", rank=1), [1, 2, 3]),
        (param("[1, 2]", dt.INT32, rank=1, shape="[n]"), [1, 2]),
        (param(None, dt.INT32), None),
        (TensorDef("x", False, (dt.FLOAT32,), 1, default="0"), 0.0),
    ],
)
def test_by_type(definition, value):
    found = default_value(definition)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        (param("2", dt.BOOL8), "'2', expected 0 or 1 of a bool"),
        (param("1.0", dt.INT32), "'1.0', expected an integer of int32"),
        (param("256", dt.UINT8), "'256', expected 0 to 255 of uint8"),
        (param("nan", dt.INT32), "'nan', expected a number of int32"),
        (param("65520", dt.FLOAT16), "too large for float16"),
        (param("1e999", dt.FLOAT64), "too large for float64"),
        (param("1e9999999", dt.FLOAT64), "expected a number of float64"),
        (param("x", dt.UFIXED8), "expected a number of ufixed8"),
        (param("C", dt.UINT32, enumeration=("A", "B")), "the values are A (0), B (1)"),
        (param("-1", dt.UINT32, enumeration=("A", "B")), "the values are"),
        (param("[1]", dt.INT32), "a tensor of rank 1, expected a scalar"),
        (param("1", dt.INT32, rank=2), "a scalar, expected a tensor of rank 2"),
        (param("[]", dt.INT32, rank=1), "an empty tensor"),
        (param("[1, 2, 3]", dt.INT32, rank=1, shape="[2]"), "of shape [3], expected [2]"),
        (param("[1 2]", dt.INT32, rank=1), "'1 2', expected a number of int32"),
        (param("[1, [2]]", dt.INT32, rank=None), "its rows differ in depth"),
        (param("[" * 9 + "1" + "]" * 9, dt.INT32, rank=None), "brackets nest deeper than 8"),
        (param("[1]]", dt.INT32, rank=1), "']' follows the last bracket"),
        (param("9" * (1 << 21), dt.STRING), "of 2097152 characters, expected at most"),
    ],
)
def test_what_does_not_fit_is_told(definition, message):
    with pytest.raises(ValueError, match=r"expected|values are|large|rows|bracket|empty") as caught:
        default_value(definition)
    assert message in str(caught.value)


Found = tuple[DType, Any] | None


def default(first: DType, default: str | None, *dtypes: DType, rank: int | None = 1, text: str = "") -> Found:
    """Return type and elements of the second input of an op whose first is [2, 3]."""
    x = TensorDef("x", True, (), 2, "[n, c]")
    definition = OpDef("A", "P", (x, TensorDef("b", False, dtypes, rank, text, default=default)), (), {})
    found = default_inputs(definition, OpView("P", "A", "a", (TensorSpec((2, 3), first),), ()))
    return (found[1].dtype, found[1].numpy().tolist()) if found else None


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (default(FLOAT32, None, FLOAT32), None),
        (default(FLOAT32, "[1, 2]", FLOAT32), (FLOAT32, [1, 2])),
        (default(FLOAT32, "{{1}, {2}}", INT32, rank=2), (INT32, [[1], [2]])),
        (default(FLOAT32, "7", FLOAT32), (FLOAT32, [7])),
        (default(FLOAT32, "7", FLOAT32, rank=None), (FLOAT32, [7])),
        (default(FLOAT32, "7", FLOAT32, rank=3), (FLOAT32, [[[7]]])),
        (default(FLOAT32, "7", FLOAT32, text="[c]"), (FLOAT32, [7, 7, 7])),
        (default(FLOAT32, "7", FLOAT32, text="[c - 1]"), (FLOAT32, [7, 7])),
        (default(FLOAT32, "7", FLOAT32, text="[k]"), (FLOAT32, [7])),
        (default(FLOAT32, "7", INT32, FLOAT32), (FLOAT32, [7])),
        (default(INT32, "7", FLOAT32, INT32), (INT32, [7])),
        (default(INT32, "0.5", INT32, FLOAT32), (FLOAT32, [0.5])),
        (default(FLOAT16, "0.5", FLOAT32, FLOAT16), (FLOAT16, [0.5])),
        (default(UFIXED8, "0.5", UFIXED8), (FLOAT32, [0.5])),
        (default(FLOAT32, "3", UINT8), (FLOAT32, [3])),
        (default(UINT8, "3", UINT8), (UINT8, [3])),
        (default(FLOAT32, "true", BOOL8), (BOOL8, [True])),
        (default(INT32, "3"), (INT32, [3])),
    ],
)
def test_types_and_shapes(found: Found, expected: Found) -> None:
    assert found == expected


@pytest.mark.parametrize(
    ("text", "dtype", "said"),
    [
        ("1.5", INT32, "the default of input 'b' is '1.5', expected an integer of int32"),
        ("0", FLOAT32, r"is one number for the shape \[3000000000\], expected 1 to 4194304 elements"),
    ],
)
def test_what_has_no_form(text: str, dtype: DType, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        default(FLOAT32, text, dtype, text="[1000000000 * c]")


def test_many_defaults_take_no_more_memory_than_one() -> None:
    places = [TensorDef(name, False, (INT32,), 1, "[1048576 * 3]", default="0") for name in "ab"]
    definition = OpDef("A", "P", (TensorDef("x", True, (), 2), *places), (), {})
    view = OpView("P", "A", "a", (TensorSpec((2, 3), FLOAT32),), ())
    with pytest.raises(ModelError, match=r"input 'b' is one number .*, expected 1 to 1048576 elements"):
        default_inputs(definition, view)
