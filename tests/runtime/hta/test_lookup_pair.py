import numpy as np
import pytest

from tests.hta_ops import run_step
from xdlc.errors import ContainerError

X, Z = np.array([[0, 7], [255, 3]], np.uint8), np.array([9, 200], np.uint8)
TABLE = (np.arange(256)[:, None] * 256 + np.arange(256)).astype(np.uint16)


def test_pairs_broadcast():
    (y,) = run_step("lookup_pair", [X, Z], [np.zeros((2, 2), np.uint16)], {"table": TABLE})
    np.testing.assert_array_equal(y, X.astype(int) * 256 + Z)


@pytest.mark.parametrize(
    ("second", "table", "problem"),
    [
        (np.zeros(3, np.uint8), TABLE, "cannot broadcast \\[2, 2\\] and \\[3\\]"),
        (Z.astype(np.uint16), TABLE, "takes two inputs of uint8"),
        (Z, TABLE[:255], "of shape \\[255, 256\\]"),
        (Z, TABLE.astype(np.uint8), "should be uint16"),
    ],
)
def test_what_does_not_fit_is_refused(second, table, problem):
    with pytest.raises(ContainerError, match=problem):
        run_step("lookup_pair", [X, second], [np.zeros((2, 2), np.uint16)], {"table": table})
