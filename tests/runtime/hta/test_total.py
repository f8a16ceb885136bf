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


def test_lanes_are_added_in_the_end():
    """Each small summand is lost beside a large one, unless they meet first."""
    values = np.zeros(256, np.int64)
    values[:2] = 1 << 30, 40  # 24 bits of 2^30 are steps of 128
    source = np.array([[0, 1, 1, 1, 1, 1, 1, 1, 1]], np.uint8)
    limits = np.full(255, np.iinfo(np.int64).max)
    limits[0] = (1 << 30) + 128

    def total(lanes):
        constants = {"bounds": limits, "values": values}
        (y,) = run_step("total", [source], [np.zeros(1, np.uint8)], constants, axes=(1,), lanes=lanes)
        return y.item()

    assert (total(1), total(4)) == (0, 1)


def test_steps_are_counted():
    source = np.zeros((1, (1 << 20) + 1), np.uint8)
    constants = {"bounds": BOUNDS, "values": np.zeros(256, np.int64)}
    with pytest.raises(ContainerError, match="takes 1048577 steps"):
        run_step("total", [source], [np.zeros(1, np.uint8)], constants, axes=(1,))
