import numpy as np
import pytest

from tests.hta_ops import run_step
from xdlc.errors import ContainerError

X = np.array([[7, 7, 5], [0, 255, 0]], np.uint8)
HALVES = np.int64(1 << 40) >> np.minimum(np.arange(256), 50)  # half as much with each step
SETTINGS = {"axis": 1, "single": 0, "factor": 256, "shift": 0, "zero": 0}


@pytest.mark.parametrize("single", [0, 1])
def test_quotients(single):
    settings = {**SETTINGS, "single": single}
    (y,) = run_step("softmax", [X], [np.zeros(X.shape, np.uint8)], {"exponentials": HALVES}, **settings)
    assert y.tolist() == [[114, 114, 28], [0, 255, 0]]


def test_float_results():
    (y,) = run_step(
        "softmax", [X], [np.zeros(X.shape, np.float32)], {"exponentials": HALVES}, axis=1, single=0
    )
    np.testing.assert_allclose(y[0], np.array([4, 4, 1]) / 9, rtol=1e-7)


@pytest.mark.parametrize(
    ("table", "changes", "problem"),
    [
        (HALVES * 0, {}, "first that is not positive"),
        (-HALVES, {}, "first that is not positive"),
        (HALVES[::-1].copy(), {}, "larger than the first"),
        (HALVES << 20, {}, "sums become too large"),
        (HALVES, {"factor": 1 << 30}, "numbers that are too large"),
        (HALVES, {"shift": 30}, "numbers that are too large"),
        (HALVES, {"zero": 256}, "setting 'zero'"),
        (HALVES, {"axis": 2}, "setting 'axis'"),
        (HALVES, {"single": 2}, "setting 'single'"),
        (HALVES[1:], {}, "'exponentials'"),
    ],
)
def test_what_does_not_fit_is_refused(table, changes, problem):
    with pytest.raises(ContainerError, match=problem):
        run_step(
            "softmax", [X], [np.zeros(X.shape, np.uint8)], {"exponentials": table}, **{**SETTINGS, **changes}
        )
