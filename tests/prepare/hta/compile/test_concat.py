import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hta_ops import activation, check_equal, encodings, few, one_op, seeds
from xdlc.ir import ScaleOffset, static, u32
from xdlc.ir.dtype import UFIXED8


@pytest.mark.parametrize("axis", [1, 2, 3])
@given(st.data(), seeds)
@few
def test_parts_come_in_encodings_of_their_own(axis, data, seed):
    bits = data.draw(st.sampled_from([8, 16]))
    common = data.draw(encodings(bits))
    parts, extents = [], [2, 5, 1]
    for index, extent in enumerate(extents):
        shape = [1, 4, 3, 6]
        shape[axis] = extent
        encoding = data.draw(st.one_of(st.just(common), encodings(bits)))
        parts.append(activation(f"x{index}", shape, encoding, bits))
    result = [1, 4, 3, 6]
    result[axis] = sum(extents)
    check_equal(one_op("Concat", parts, activation("y", result, common, bits), {"axis": u32(axis)}), seed)


def test_widths_may_differ():
    parts = [
        activation("a", (1, 4), ScaleOffset(0.02, -7)),
        activation("b", (1, 3), ScaleOffset(0.0001, -30000), 16),
    ]
    check_equal(
        one_op("Concat", parts, activation("y", (1, 7), ScaleOffset(0.0002, -9000), 16), {"axis": u32(1)})
    )
    check_equal(one_op("Concat", parts, activation("y", (1, 7), ScaleOffset(0.02, -90)), {"axis": u32(1)}))


def test_parts_may_be_static():
    other, common = ScaleOffset(0.05, -90), ScaleOffset(0.02, -7)
    for index, encoding in enumerate((common, other)):
        parts = [
            activation("a", (1, 4), common),
            static("w", np.array([[0, 100, 255]], np.uint8), UFIXED8, encoding),
            activation("b", (1, 2), other),
        ]
        check_equal(one_op("Concat", parts, activation("y", (1, 9), common), {"axis": u32(1)}), index)
