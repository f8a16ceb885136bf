import numpy as np
import pytest

from tests.hta_ops import run_step
from xdlc.errors import ContainerError

X = np.arange(12, dtype=np.uint8).reshape(1, 4, 3)
BOUNDS = np.arange(1, 256, dtype=np.int64)


def totals(shape, axes, **constants):
    held = {"bounds": BOUNDS, **constants}
    return run_step("total", [X], [np.zeros(shape, np.uint8)], held, axes=axes)[0]


def test_sums_along_axes():
    assert totals((1, 3), (1,)).tolist() == [[18, 22, 26]]
    assert totals((1, 4, 1), (2,)).reshape(-1).tolist() == [3, 12, 21, 30]


def test_sums_of_values():
    assert totals((1, 3), (1,), values=np.arange(256, dtype=np.int64) * 2).tolist() == [[36, 44, 52]]


@pytest.mark.parametrize(
    ("shape", "axes", "constants", "problem"),
    [
        ((1, 4), (1,), {}, "to \\[1, 4\\]"),
        ((1, 3), (1, 1), {}, "along \\[1, 1\\]"),
        ((1, 3), (3,), {}, "from 0 to 2"),
        ((1, 3), (1,), {"bounds": BOUNDS[1:]}, "of shape"),
        ((1, 3), (1,), {"values": np.full(256, 1 << 60)}, "become too large"),
    ],
)
def test_what_does_not_fit_is_refused(shape, axes, constants, problem):
    with pytest.raises(ContainerError, match=problem):
        totals(shape, axes, **constants)
