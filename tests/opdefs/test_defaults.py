"""Which value a default's text is follows from the data type."""

import math

import pytest

from xdlc.ir import dtype as dt
from xdlc.opdefs import ParamDef, TensorDef, default_value, parse_default


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
        (param("C", dt.UINT32, enumeration=("A", "B")), "the enumeration has A 0, B 1"),
        (param("-1", dt.UINT32, enumeration=("A", "B")), "the enumeration has"),
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
    with pytest.raises(ValueError, match=r"expected|enumeration|large|rows|bracket|empty") as caught:
        default_value(definition)
    assert message in str(caught.value)
