"""What kernels are told of operands."""

from __future__ import annotations

import numpy as np
import pytest

from xdlc.ir import Op, ScaleOffset, Tensor, static
from xdlc.ir.dtype import FLOAT16, FLOAT32, INT32, UFIXED8, DType
from xdlc.opdefs.model import OpDef, TensorDef
from xdlc.runtime.udo.build_descriptor import form_of

TYPES = (FLOAT16, UFIXED8, INT32)


def form_dtype(constant: Tensor, *, is_static: bool) -> int:
    place = TensorDef("w", True, TYPES, None, is_static=is_static)
    definition = OpDef("A", "P", (place,), (), {})
    form, _ = form_of(Op("A", [constant], [], name="a", package="P"), definition)
    return form.inputs[0].dtype


@pytest.mark.parametrize(
    ("constant", "as_activation"),
    [
        (static("c", np.array([1, 2], np.uint8), UFIXED8, ScaleOffset(0.5, 0, 8)), FLOAT32),
        (static("c", np.array([1, 2], np.float16)), FLOAT32),
        (static("c", np.array([1, 2], np.int32)), INT32),
    ],
)
def test_a_constant_comes_as_the_activation_it_stands_for(constant: Tensor, as_activation: DType) -> None:
    assert form_dtype(constant, is_static=False) == as_activation.code
    assert form_dtype(constant, is_static=True) == constant.dtype.code
