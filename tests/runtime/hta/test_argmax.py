import numpy as np
import pytest

from tests.hta_ops import run_step
from xdlc.errors import ContainerError

X = np.array([[1, 9, 9], [4, 2, 3]], np.uint8)


def test_the_first_of_equals():
    (y,) = run_step("argmax", [X], [np.zeros(2, np.int32)], axis=1)
    assert y.tolist() == [1, 0]
    (y,) = run_step("argmax", [X], [np.zeros((1, 3), np.uint32)], axis=0)
    assert y.tolist() == [[1, 0, 0]]


def test_casts():
    (y,) = run_step("cast", [np.array([300, -1], np.int32)], [np.zeros(2, np.float32)])
    assert y.tolist() == [300, -1]


@pytest.mark.parametrize(
    ("source", "target", "axis"),
    [
        (X, np.zeros(3, np.int32), 1),
        (X, np.zeros(2, np.uint8), 1),
        (X.astype(np.float32), np.zeros(2, np.int32), 1),
        (X[:, :0], np.zeros(2, np.int32), 1),
    ],
)
def test_what_does_not_fit_is_refused(source, target, axis):
    with pytest.raises(ContainerError, match="cannot give positions along axis 1"):
        run_step("argmax", [source], [target], axis=axis)


def test_casts_of_floats_are_refused():
    with pytest.raises(ContainerError, match="cannot cast float32"):
        run_step("cast", [np.zeros(2, np.float32)], [np.zeros(2, np.int32)])
