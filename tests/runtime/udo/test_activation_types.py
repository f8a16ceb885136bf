"""Types of outputs whose shape function gives dims only."""

from __future__ import annotations

import pytest

from xdlc.ir.dtype import FLOAT32, INT32, UFIXED8, UINT8, UNDEFINED, DType
from xdlc.opdefs.model import OpDef, TensorDef
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.runtime.udo.build_descriptor import typed


@pytest.mark.parametrize(
    ("allowed", "stated", "expected"),
    [
        ((INT32,), UNDEFINED, INT32),
        ((INT32, FLOAT32), UNDEFINED, FLOAT32),
        ((UFIXED8,), UNDEFINED, FLOAT32),
        ((UINT8,), UNDEFINED, FLOAT32),
        ((), UNDEFINED, FLOAT32),
        ((FLOAT32,), INT32, INT32),
    ],
)
def test_a_type_that_is_not_told_is_one_that_is_allowed(
    allowed: tuple[DType, ...], stated: DType, expected: DType
) -> None:
    place = TensorDef("y", True, allowed, None)
    definition = OpDef("A", "P", (TensorDef("x", True, (FLOAT32,), None),), (place,), {})
    view = OpView("P", "A", "a", (TensorSpec((2,), FLOAT32),), (None,), {})
    (spec,) = typed([TensorSpec((2,), stated)], view, definition) or ()
    assert spec.dtype is expected
