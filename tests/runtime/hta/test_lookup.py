import numpy as np
import pytest

from tests.hta_ops import run_step
from xdlc.errors import ContainerError

X = np.array([[0, 7, 255], [255, 3, 7]], np.uint8)
TABLE = np.arange(256, dtype=np.uint16)[None] * 3


def test_every_integer_goes_through_the_table():
    (y,) = run_step("lookup", [X], [np.zeros(X.shape, np.uint16)], {"table": TABLE})
    np.testing.assert_array_equal(y, X.astype(np.uint16) * 3)


def test_rows_are_chosen_along_axes():
    constants = {"table": np.concatenate([TABLE, TABLE + 1]), "choice": np.array([[0, 1, 0]], np.int32)}
    (y,) = run_step("lookup", [X], [np.zeros(X.shape, np.uint16)], constants)
    np.testing.assert_array_equal(y, X.astype(np.uint16) * 3 + [0, 1, 0])


@pytest.mark.parametrize(
    ("output", "constants", "problem"),
    [
        (np.zeros((2, 3), np.uint16), {}, "has no constant 'table'"),
        (np.zeros((2, 3), np.uint8), {"table": TABLE}, "should be uint8"),
        (np.zeros((3, 2), np.uint16), {"table": TABLE}, r"cannot broadcast \[2, 3\] to \[3, 2\]"),
        (np.zeros((2, 3), np.uint16), {"table": TABLE[:, :255]}, "should have 256 columns"),
        (np.zeros((2, 3), np.uint16), {"table": TABLE[:0]}, "should have 256 columns"),
        (
            np.zeros((2, 3), np.uint16),
            {"table": np.repeat(TABLE, 2, 0), "choice": np.array([2], np.int32)},
            "chooses rows 2 to 2 of a table of 2",
        ),
        (
            np.zeros((2, 3), np.uint16),
            {"table": np.repeat(TABLE, 2, 0), "choice": np.array([-1], np.int32)},
            "chooses rows -1",
        ),
        (
            np.zeros((2, 3), np.uint16),
            {"table": np.repeat(TABLE, 2, 0), "choice": np.zeros(2, np.int32)},
            r"cannot broadcast \[2, 3\] and \[2\] to \[2, 3\]",
        ),
    ],
)
def test_what_does_not_fit_is_refused(output, constants, problem):
    with pytest.raises(ContainerError, match=problem):
        run_step("lookup", [X], [output], constants)


def test_floats_are_not_looked_up():
    with pytest.raises(ContainerError, match="cannot look up float32"):
        run_step("lookup", [X.astype(np.float32)], [np.zeros(X.shape, np.uint16)], {"table": TABLE})
