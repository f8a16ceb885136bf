"""Argument placeholders and their values."""

from __future__ import annotations

import numpy as np
import pytest

from xdlc.errors import UsageError
from xdlc.ir.data import ArrayData
from xdlc.udo.plugin.c_kernel import flattened


def test_letters_and_values_come_in_one_row():
    letters, values = flattened(
        "(i,i,i,i), s, i, s, f, s", ((1, 2, 3, 4), "float16", 1, "SUM", 1, "Reduction")
    )
    assert letters == "iiiisisfs"
    assert values == (1, 2, 3, 4, "float16", 1, "SUM", 1.0, "Reduction")
    assert isinstance(values[7], float)


def test_values_may_come_in_one_row():
    assert flattened("(i,(f,s)),o", (1, 2, "a", np.ones(2)))[0] == "ifso"


def test_no_arguments():
    assert flattened("", ()) == ("", ())


def test_tensors_are_arrays():
    _, values = flattened("o,o", (ArrayData(np.arange(3)), np.float32([[1, 2]]).T))
    assert values[0].tolist() == [0, 1, 2]
    assert values[1].flags.c_contiguous


@pytest.mark.parametrize("text", ["x", "i;f", "i" * 9 + "é"])
def test_letters_that_cannot_be_read(text):
    with pytest.raises(UsageError, match="cannot be read"):
        flattened(text, ())


@pytest.mark.parametrize(
    ("letters", "values", "problem"),
    [
        ("i,i", (1,), "has 2 letters.* is 1\n"),
        ("(i,i),s", ((1,), "a"), "has 3 letters.* is 2\n"),
        ("i", ("a",), "argument 0 .*'i'.* an integer.*'a'"),
        ("i", (1.5,), "an integer of 64 bits"),
        ("i", (2**63,), "an integer of 64 bits"),
        ("f", ("1",), "argument 0 .*'f'.* a number.*'1'"),
        ("s", (b"a",), "argument 0 .*'s'.* a string.*b'a'"),
        ("s", ("a\0b",), "a string"),
        ("o", (object(),), "argument 0 .*'o'.* an array"),
    ],
)
def test_values_that_do_not_fit(letters, values, problem):
    with pytest.raises(UsageError, match=problem):
        flattened(letters, values)
