import numpy as np
import pytest

from tests.hta_ops import run_step
from xdlc.errors import ContainerError

X, Z = np.array([0, 7, 255, 16], np.uint8), np.array([3, 7, 0, 4], np.uint8)
NUMBERS = {
    name: values
    for side in ("first", "second")
    for name, values in (
        (side, np.arange(256, dtype=np.int32) << 16),
        (f"{side}_shifts", np.zeros(256, np.int8)),
    )
}
PRODUCTS = {**NUMBERS, "bounds": np.arange(1, 256, dtype=np.int64) << 10}
QUOTIENTS = {**NUMBERS, "bounds": np.arange(1, 256, dtype=np.int64) << 27}


def run(constants, inputs=(X, Z), **settings):
    (y,) = run_step("product", list(inputs), [np.zeros(4, np.uint8)], constants, **settings)
    return y.tolist()


def test_products():
    assert run(PRODUCTS, divides=0) == [0, 49, 0, 64]
    assert run({**PRODUCTS, "operand1": Z}, [X], divides=0) == [0, 49, 0, 64]


def test_quotients():
    assert run(QUOTIENTS, divides=1) == [0, 1, 255, 4]


@pytest.mark.parametrize(
    ("changes", "inputs", "problem"),
    [
        ({"first": NUMBERS["first"] << 2}, (X, Z), "of more than 24 bits"),
        ({"second_shifts": NUMBERS["second_shifts"] - 1}, (X, Z), "shifts below 0"),
        ({"second_shifts": NUMBERS["second_shifts"] + 33}, (X, Z), "shifts by more than 32 bits"),
        ({"second": NUMBERS["second"][1:]}, (X, Z), "'second'"),
        ({}, (X,), "takes two inputs"),
        ({}, (X, Z.astype(np.int32)), "computes on int32"),
        ({}, (X, Z[:3]), "cannot broadcast"),
        ({"operand1": Z.astype(np.int64)}, (X,), "computes on int64"),
    ],
)
def test_what_does_not_fit_is_refused(changes, inputs, problem):
    with pytest.raises(ContainerError, match=problem):
        run({**PRODUCTS, **changes}, inputs, divides=0)


def test_divides_is_said():
    with pytest.raises(ContainerError, match="setting 'divides'"):
        run(PRODUCTS)
