"""Defaults of inputs as static tensors."""

from __future__ import annotations

from typing import Any

import pytest

from xdlc.errors import ModelError
from xdlc.ir.dtype import BOOL8, FLOAT16, FLOAT32, INT32, UFIXED8, UINT8, DType
from xdlc.opdefs.input_defaults import default_inputs
from xdlc.opdefs.model import OpDef, TensorDef
from xdlc.opdefs.op_view import OpView, TensorSpec

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
