"""Kinds of parameters: what they take, what they refuse, and how they are defined."""

from __future__ import annotations

import numpy as np
import pytest

from xdlc.errors import UsageError
from xdlc.ir.data import ArrayData
from xdlc.ir.tensor import Tensor as IrTensor
from xdlc.opdefs.values import parameter
from xdlc.udo.plugin import (
    Bool,
    Bools,
    Enum,
    Float,
    Floats,
    Int,
    Ints,
    Str,
    Strs,
    Tensor,
    enum_map,
)


def stored(kind, value):
    """Return the value that an op stores for an attribute."""
    param = parameter(kind.named("p"), kind.to_value(value))
    return param.numpy().tolist() if isinstance(param, IrTensor) else param.value


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        (Int(), np.int64(-3), -3),
        (Int(dtype="uint8"), 255, 255),
        (Float(dtype="float64"), 1e39, 1e39),
        (Bool(), 1, True),
        (Enum("A", "B"), 1, 1),
        (Enum("A", "B", numbers={1: "A", 2: "B"}), 1, 0),
        (Ints(), np.array([4, 5]), [4, 5]),
        (Bools(), [0, 1], [False, True]),
        (Strs(), ["a", 'b"'], '["a", "b\\""]'),
        (Strs(), '["a"]', '["a"]'),
    ],
)
def test_values_of_a_kind(kind, given, expected):
    found = stored(kind, given)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Int(), 1.5),
        (Int(dtype="uint32"), -1),
        (Float(dtype="float16"), -7e4),
        (Floats(), [1, 1e39]),
        (Bool(), 2),
        (Str(), "a\0"),
        (Enum("SUM", "MEAN"), 2),
        (Enum("SUM", "MEAN", numbers={1: "SUM", 2: "MEAN"}), 0),
        (Ints(), "12"),
        (Strs(), ["a", 1]),
        (Strs(), "[a"),
        (Tensor(rank=2), [1.0]),
        (Tensor(dtype="uint8"), [300]),
    ],
)
def test_values_of_another_kind(kind, value):
    with pytest.raises((UsageError, ValueError)):
        stored(kind, value)


def test_tensors():
    param = parameter(Tensor(dtype="int32", rank=2).named("p"), ArrayData(np.array([[1, 2]], np.int64)))
    assert param.dtype.numpy == np.int32
    assert param.numpy().tolist() == [[1, 2]]


def test_lists_are_lists_again_when_an_op_is_read():
    assert Ints().read(np.array([1, 2], np.int32)) == [1, 2]
    assert Strs().read('["a", "b"]') == ["a", "b"]


@pytest.mark.parametrize(
    ("kind", "mandatory", "dtype", "rank", "default"),
    [
        (Int(), True, "int32", 0, None),
        (Int(None), False, "int32", 0, None),
        (Int(3, dtype="uint32"), False, "uint32", 0, "3"),
        (Float(1), False, "float32", 0, "1.0"),
        (Bool(True), False, "bool8", 0, "1"),
        (Str("x"), False, "string", 0, "x"),
        (Str(""), False, "string", 0, None),
        (Str(" x"), False, "string", 0, None),
        (Enum("A", "B", default="B"), False, "uint32", 0, "B"),
        (Enum("A", "B", default=1), False, "uint32", 0, "B"),
        (Ints([1, 2]), False, "int32", 1, "[1, 2]"),
        (Bools([True]), False, "bool8", 1, "[1]"),
        (Strs(["a"]), False, "string", 0, '["a"]'),
        (Tensor([[1, 2], [3, 4]], rank=2), False, "float32", 2, "[[1.0, 2.0], [3.0, 4.0]]"),
        (Tensor(), True, "float32", None, None),
    ],
)
def test_definitions(kind, mandatory, dtype, rank, default):
    found = kind.named("p")
    assert (found.mandatory, found.dtypes[0].name, found.rank, found.default) == (
        mandatory,
        dtype,
        rank,
        default,
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: Int("a"),
        lambda: Int(dtype="float32"),
        lambda: Int(dtype="int33"),
        lambda: Float(dtype="int32"),
        lambda: Enum(),
        lambda: Enum("A", "A"),
        lambda: Enum("A B"),
        lambda: Enum("A", default="B"),
        lambda: Enum("A", numbers={1: "B"}),
        lambda: Tensor(rank=0),
        lambda: Tensor([1.0], rank=2),
        lambda: Ints("3"),
    ],
)
def test_kinds_that_cannot_be(make):
    with pytest.raises(UsageError):
        make()


def test_enum_map_tells_of_all_numbers():
    names = enum_map({1: "SUM", 4: "MEAN"})
    assert names(4) == "MEAN"
    with pytest.raises(UsageError, match="there is no 2") as caught:
        names(2)
    assert caught.value.fix == "use one of 1 (SUM), 4 (MEAN)"
    with pytest.raises(UsageError, match="there is no True"):
        names(True)
