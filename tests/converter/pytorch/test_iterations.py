"""Handlers of functions whose number of steps depends on the data."""

import math

import numpy as np
import pytest

from tests.converter.pytorch.programs import results

INF, NAN = math.inf, math.nan


def f32(*values):
    return np.array(values, np.float32)


X, N = f32(-3, 0.5, 2, 2), f32(3, 4, 0, -1)
CASES = [
    ("gcd", (np.array([[12], [-18]]), np.array([18, 0, 5])), np.gcd([[12], [-18]], [18, 0, 5])),
    ("gcd", (np.array(2**40), np.array(3 * 2**20)), np.array(2**20)),
    ("lcm", (np.array([4, 0], np.int32), np.array([-6, 0], np.int32)), np.array([12, 0], np.int32)),
    ("special_zeta", (f32(2, 3, 1, 0.5, 2.5, 2), f32(1, -1.5, 2, 2, -0.5, -1)),
     f32(math.pi**2 / 6, 0.11810219, INF, NAN, NAN, INF)),
    ("igamma", (f32(1, 5, 50, 2, 0), f32(2, 5, 60, INF, 0)),
     f32(1 - math.exp(-2), 0.5595067, 0.9155933, 1, NAN)),
    ("special_gammaincc", (f32(0.5, 5), f32(9, 0)), f32(math.erfc(3), 1)),
    ("special_hermite_polynomial_h", (X, N), f32(-180, 1, 1, 0)),
    ("special_hermite_polynomial_he.n_scalar", (X, 2), f32(8, -0.75, 3, 3)),
    ("special_laguerre_polynomial_l", (f32(2), np.array([3])), f32(-1 / 3)),
    ("special_legendre_polynomial_p.x_scalar", (0.5, f32(1, 3)), f32(0.5, -0.4375)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_computes_what_pytorch_does(tmp_path, case):
    target, arguments, want = case
    got = results(tmp_path, target, *arguments, like=want)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=3e-5)
