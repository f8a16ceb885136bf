"""Kinds of parameters: what they take, what they refuse, and how they are defined."""

from __future__ import annotations

import numpy as np
import pytest

from xdlc.errors import UsageError
from xdlc.ir.data import ArrayData
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


@pytest.mark.parametrize(
    ("kind", "given", "stored"),
    [
        (Int(), 3, 3),
        (Int(), np.int64(-3), -3),
        (Int(dtype="uint8"), 255, 255),
        (Float(), 2, 2.0),
        (Float(), np.float32(0.5), 0.5),
        (Float(), float("inf"), float("inf")),
        (Float(dtype="float64"), 1e39, 1e39),
        (Bool(), 1, True),
        (Bool(), False, False),
        (Str(), "ä", "ä"),
        (Enum("A", "B"), 1, "B"),
        (Enum("A", "B"), "A", "A"),
        (Enum("A", "B", numbers={1: "A", 2: "B"}), 1, "A"),
        (Ints(), [1, 2], [1, 2]),
        (Ints(), (), []),
        (Ints(), np.array([4, 5]), [4, 5]),
        (Floats(), [1, 0.5], [1.0, 0.5]),
        (Bools(), [0, 1], [False, True]),
        (Strs(), ["a", 'b"'], '["a", "b\\""]'),
        (Strs(), '["a"]', '["a"]'),
    ],
)
def test_values_of_a_kind(kind, given, stored):
    found = kind.check(given)
    assert found == stored
    assert type(found) is type(stored)


@pytest.mark.parametrize(
    ("kind", "given", "problem"),
    [
        (Int(), 1.0, "an integer, found 1.0"),
        (Int(), True, "an integer, found True"),
        (Int(), "1", "an integer"),
        (Int(), 2**31, "not within -2147483648..2147483647 of int32"),
        (Int(dtype="uint32"), -1, "not within 0..4294967295"),
        (Float(), "1", "a number, found '1'"),
        (Float(), None, "a number"),
        (Float(), 1e39, "float32 cannot hold"),
        (Float(dtype="float16"), -7e4, "float16 cannot hold"),
        (Floats(), [1, 1e39], "float32 cannot hold"),
        (Bool(), 2, "true, false, 1 or 0, found 2"),
        (Str(), b"x", "a string"),
        (Str(), "a\0", "a string"),
        (Enum("SUM", "MEAN"), "MEEN", "there is no 'MEEN'"),
        (Enum("SUM", "MEAN"), 2, "there is no 2"),
        (Enum("SUM", "MEAN", numbers={1: "SUM", 2: "MEAN"}), 0, "there is no 0"),
        (Ints(), "12", "a list of integers"),
        (Ints(), [1, 2.5], "an integer, found 2.5"),
        (Floats(), ["a"], "a number"),
        (Bools(), [3], "true, false"),
        (Strs(), ["a", 1], "a list of strings"),
        (Strs(), "[a", "a list of strings"),
        (Tensor(), 3, "a tensor, found 3"),
        (Tensor(), [["a"]], "a tensor"),
        (Tensor(rank=2), [1.0], r"a tensor of 2 axes, found shape \[1\]"),
        (Tensor(dtype="uint8"), [300], "uint8 cannot hold"),
        (Tensor(dtype="int32"), [0.5], "int32 cannot hold"),
    ],
)
def test_values_of_another_kind(kind, given, problem):
    with pytest.raises(UsageError, match=problem):
        kind.check(given)


def test_tensors():
    found = Tensor(dtype="int32", rank=2).check(ArrayData(np.array([[1, 2]], np.int64)))
    assert found.dtype == np.int32
    assert found.tolist() == [[1, 2]]


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
    found = kind.definition("p")
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
