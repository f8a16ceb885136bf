import numpy as np
import pytest

from tests.hta_ops import run_step
from xdlc.errors import ContainerError

X = np.arange(16, dtype=np.uint8).reshape(1, 4, 4, 1)
WINDOW = {"size": (2, 2), "stride": (2, 2), "start": (0, 0)}
VALUES = np.arange(256, dtype=np.int64)
BOUNDS = (np.arange(1, 256) * 4)[None]  # rounds down
CHOICE = np.zeros((2, 2), np.int32)


def averaged(**constants):
    held = {"values": VALUES, "bounds": BOUNDS, "choice": CHOICE, **constants}
    return run_step("pool_average", [X], [np.zeros((1, 2, 2, 1), np.uint8)], held, zero=0, **WINDOW)[0]


def test_maxima():
    (y,) = run_step("pool_max", [X], [np.zeros((1, 2, 2, 1), np.uint8)], **WINDOW)
    assert y.reshape(-1).tolist() == [5, 7, 13, 15]


def test_averages():
    assert averaged().reshape(-1).tolist() == [2, 4, 10, 12]


def test_each_place_has_its_bounds():
    choice = np.array([[0, 1], [0, 0]], np.int32)
    held = averaged(bounds=np.concatenate([BOUNDS, BOUNDS // 2]), choice=choice)
    assert held.reshape(-1).tolist() == [2, 9, 10, 12]


def test_sums_keep_24_bits():
    values = VALUES << 24
    values[1] += 1  # lost in the sum 0 + (2^24 + 1) + 4 * 2^24 + 5 * 2^24
    limits = np.full((1, 255), np.iinfo(np.int64).max)
    limits[0, :2] = [10 << 24, (10 << 24) + 1]
    assert averaged(values=values, bounds=limits)[0, 0, 0, 0] == 1


@pytest.mark.parametrize(
    ("shape", "changes", "problem"),
    [
        ((1, 2, 2, 2), {}, "pools \\[1, 4, 4, 1\\] to \\[1, 2, 2, 2\\]"),
        ((1, 2, 2), {}, "pools"),
        ((1, 3, 2, 1), {}, "axis 1 that hold nothing"),
        ((1, 2, 2, 1), {"start": (0, 2)}, "axis 2 that hold nothing"),
        ((1, 2, 2, 1), {"stride": (0, 2)}, "from 1 to"),
        ((1, 2, 2, 1), {"size": (2,)}, "list of 2 numbers"),
        ((1, 2, 2, 1), {"size": (1 << 40, 2)}, "from 1 to"),
        ((1, 2, 2, 1), {"size": (1 << 15, 2)}, "the most are 16384 elements"),
    ],
)
def test_windows_that_do_not_fit_are_refused(shape, changes, problem):
    with pytest.raises(ContainerError, match=problem):
        run_step("pool_max", [X], [np.zeros(shape, np.uint8)], **{**WINDOW, **changes})


@pytest.mark.parametrize(
    ("constants", "problem"),
    [
        ({"values": VALUES + 1}, "that of the padding is not 0"),
        ({"values": VALUES << 53}, "sums become too large"),
        ({"bounds": BOUNDS[:, ::-1].copy()}, "do not ascend"),
        ({"bounds": BOUNDS[:, 1:]}, "of shape"),
        ({"choice": CHOICE + 1}, "chooses lists 1 to 1"),
        ({"choice": CHOICE[:1]}, "of shape"),
    ],
)
def test_constants_that_do_not_fit_are_refused(constants, problem):
    with pytest.raises(ContainerError, match=problem):
        averaged(**constants)
