import numpy as np
import pytest

from tests.hta_ops import run_step
from xdlc.errors import ContainerError

A, B = np.array([[1, 2]], np.uint8), np.array([[3]], np.uint8)


def test_parts_are_copied_or_looked_up():
    table = (255 - np.arange(256)).astype(np.uint8)
    (y,) = run_step("concat", [A, B], [np.zeros((1, 3), np.uint8)], {"table1": table}, axis=1)
    assert y.tolist() == [[1, 2, 252]]


def test_parts_may_be_constant():
    constants = {"part0": B, "part2": B + 1}
    (y,) = run_step("concat", [A], [np.zeros((1, 4), np.uint8)], constants, axis=1)
    assert y.tolist() == [[3, 1, 2, 4]]
    with pytest.raises(ContainerError, match="constant ones by their numbers"):
        run_step("concat", [A], [np.zeros((1, 4), np.uint8)], {"part0": B, "part3": B}, axis=1)


@pytest.mark.parametrize(
    ("inputs", "shape", "constants", "axis", "problem"),
    [
        ([A, B], (1, 4), {}, 1, "fills 3 of 4 along axis 1"),
        ([A, B], (1, 2), {}, 1, "part 1 is \\[1, 1\\], its place \\[1, 0\\]"),
        ([A, B], (2, 2), {}, 0, "part 1 is \\[1, 1\\]"),
        ([A, B], (1, 3), {}, 2, "setting 'axis'"),
        ([A, B[0]], (1, 3), {}, 1, "joins parts of rank 1"),
        ([A, B.astype(np.uint16)], (1, 3), {}, 1, "copies uint16 to uint8"),
        ([A, B], (1, 3), {"table0": np.zeros(255, np.uint8)}, 1, "should be uint8 of shape \\[256\\]"),
        ([], (1, 3), {}, 1, "one or more parts"),
    ],
)
def test_what_does_not_fit_is_refused(inputs, shape, constants, axis, problem):
    with pytest.raises(ContainerError, match=problem):
        run_step("concat", inputs, [np.zeros(shape, np.uint8)], constants, axis=axis)
