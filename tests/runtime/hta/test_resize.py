import numpy as np
import pytest

from tests.hta_ops import run_step
from xdlc.errors import ContainerError

X = np.array([[10, 20], [30, 50]], np.uint8).reshape(1, 2, 2, 1)
NEAREST = {"rows": np.array([0, 0, 1], np.int32), "columns": np.array([1, 0], np.int32)}
HALF, ONE = 1 << 23, 1 << 24
LINEAR = {
    "values": np.arange(256, dtype=np.int32) << 16,
    "values_shifts": np.zeros(256, np.int8),
    "rows": np.array([[0], [1]], np.int32),
    "columns": np.array([[0], [1]], np.int32),
    "row_weights": np.full((2, 1), HALF, np.int32),
    "row_weights_shifts": np.zeros((2, 1), np.int8),
    "column_weights": np.full((2, 1), HALF, np.int32),
    "column_weights_shifts": np.zeros((2, 1), np.int8),
    "bounds": np.arange(1, 256, dtype=np.int64) << 20,
}


def test_nearest():
    (y,) = run_step("resize_nearest", [X], [np.zeros((1, 3, 2, 1), np.uint8)], NEAREST)
    assert y[0, :, :, 0].tolist() == [[20, 10], [20, 10], [50, 30]]


def test_linear():
    (y,) = run_step("resize_linear", [X], [np.zeros((1, 1, 1, 1), np.uint8)], LINEAR)
    assert y.item() == (10 + 20 + 30 + 50) // 4


def test_rows_as_images():
    constants = {**LINEAR, "columns": LINEAR["columns"] * 0}
    source = np.array([[10, 20], [30, 50]], np.uint8).reshape(1, 2, 2, 1)
    (y,) = run_step("resize_linear", [source], [np.zeros((1, 2, 1, 1), np.uint8)], constants, planes=1)
    assert y.reshape(-1).tolist() == [15, 40]


@pytest.mark.parametrize(
    ("shape", "changes", "problem"),
    [
        ((1, 3, 2, 2), {}, "cannot resize"),
        ((1, 2, 2, 1), {}, "'rows'"),
        ((1, 3, 2, 1), {"rows": NEAREST["rows"] + 1}, "takes rows 1 to 2 of 2"),
        ((1, 3, 2, 1), {"columns": NEAREST["columns"] - 1}, "takes columns -1 to 0 of 2"),
    ],
)
def test_what_nearest_refuses(shape, changes, problem):
    with pytest.raises(ContainerError, match=problem):
        run_step("resize_nearest", [X], [np.zeros(shape, np.uint8)], {**NEAREST, **changes})


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"values": LINEAR["values"] << 2}, "'values' of more than 24 bits"),
        ({"row_weights_shifts": LINEAR["row_weights_shifts"] - 1}, "shifts below 0"),
        ({"values_shifts": LINEAR["values_shifts"] + 33}, "shifts by more than 32 bits"),
        ({"bounds": LINEAR["bounds"][::-1].copy()}, "do not ascend"),
        ({"columns": LINEAR["columns"] + 1}, "takes columns 1 to 2 of 2"),
    ],
)
def test_what_linear_refuses(changes, problem):
    with pytest.raises(ContainerError, match=problem):
        run_step("resize_linear", [X], [np.zeros((1, 1, 1, 1), np.uint8)], {**LINEAR, **changes})


def test_nothing_is_no_image():
    empty = np.zeros((1, 0, 2, 1), np.uint8)
    with pytest.raises(ContainerError):
        run_step("resize_linear", [empty], [np.zeros((1, 1, 1, 1), np.uint8)], LINEAR, planes=1)
    with pytest.raises(ContainerError):
        run_step("resize_linear", [X], [np.zeros((1, 2, 0, 1), np.uint8)], LINEAR, planes=1)
