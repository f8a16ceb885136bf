"""Handlers of special functions: both sides of their ranges, poles, and exactness of small results."""

import math

import numpy as np
import pytest

from tests.converter.pytorch.programs import results

INF, NAN = math.inf, math.nan


def f32(*values):
    return np.array(values, np.float32)


X = f32(-3, 0.5, 2, 2)
CASES = [
    ("digamma", (f32(1, -1.5, 0, -0.0, -3, INF),), f32(-0.5772157, 0.7031566, -INF, INF, NAN, INF)),
    ("erfinv", (f32(-1, 0.5, 1, 2),), f32(-INF, 0.47693628, INF, NAN)),
    ("lgamma", (f32(-2.5, 0, 0.5, 10, INF),), f32(-0.05624372, INF, math.lgamma(0.5), math.lgamma(10), INF)),
    ("lgamma", (f32(1, 2),), f32(0, 0)),  # exactly, as of every bool
    ("mvlgamma", (f32(4), 2), f32(math.lgamma(4) + math.lgamma(3.5) + math.log(math.pi) / 2)),
    ("polygamma", (1, f32(1, -0.5)), f32(math.pi**2 / 6, 8.934802)),
    ("polygamma", (3, f32(1, -0.5)), f32(math.pi**4 / 15, 193.40909)),
    ("special_entr", (f32(-1, 0, 0.5),), f32(-INF, 0, -0.5 * math.log(0.5))),
    ("special_erfc", (f32(-INF, -1, 0.5, 9, INF),), f32(2, math.erfc(-1), math.erfc(0.5), 4.1370317e-37, 0)),
    ("special_erfcx", (f32(-1, 0, 30),), f32(math.exp(1) * math.erfc(-1), 1, 0.018795888)),
    ("special_log_ndtr", (f32(-20, 0, 6),), f32(-203.91716, math.log(0.5), -9.865877e-10)),
    ("special_ndtri", (f32(1e-10, 0.5, 0.9),), f32(-6.3613409, 0, 1.2815516)),
    ("special_xlog1py", (f32(0, 0, 2), f32(-1, NAN, 1e-8)), f32(0, NAN, 2e-8)),
    ("xlogy.Scalar_Other", (f32(0, 2), 3), f32(0, 2 * math.log(3))),
    # both ranges of Bessel and Airy functions
    ("i0", (f32(0, -3, 20, NAN),), f32(1, 4.8807926, 43558282.6, NAN)),
    ("special_airy_ai", (f32(-9, 0, 3, INF),), f32(-0.02213372, 0.35502805, 0.006591139, NAN)),
    ("special_bessel_j0", (f32(0, -5, 20),), f32(1, -0.17759677, 0.16702466)),
    ("special_bessel_j1", (f32(0, -5, 20),), f32(0, 0.32757914, 0.06683312)),
    ("special_bessel_y0", (f32(-1, 0, 1, 20),), f32(NAN, -INF, 0.08825696, 0.06264060)),
    ("special_bessel_y1", (f32(1, 20),), f32(-0.78121282, -0.16551161)),
    ("special_i1e", (f32(-1e-3, 3, 200),), f32(-4.9950031e-4, 0.19682671, 0.02815615)),
    ("special_modified_bessel_k0", (f32(0, 1, 10),), f32(INF, 0.42102444, 1.7780062e-5)),
    ("special_scaled_modified_bessel_k1", (f32(1, 100),), f32(1.6361535, 0.12579995)),
    # recurrences and series
    ("gcd", (np.array([[12], [-18]]), np.array([18, 0, 5])), np.gcd([[12], [-18]], [18, 0, 5])),
    ("lcm", (np.array([4, 0], np.int32), np.array([-6, 0], np.int32)), np.array([12, 0], np.int32)),
    (
        "special_zeta",
        (f32(2, 3, 1, 0.5, 2.5, 2), f32(1, -1.5, 2, 2, -0.5, -1)),
        f32(math.pi**2 / 6, 0.11810219, INF, NAN, NAN, INF),
    ),
    (
        "igamma",
        (f32(1, 5, 50, 2, 0, 1e4), f32(2, 5, 60, INF, 0, 1e4)),
        f32(1 - math.exp(-2), 0.5595067, 0.9155933, 1, NAN, 0.5013298),
    ),
    ("special_gammaincc", (f32(0.5, 5, 1e4), f32(9, 0, 10100)), f32(math.erfc(3), 1, 0.15865125)),
    ("special_hermite_polynomial_h", (X, f32(3, 4, 0, -1)), f32(-180, 1, 1, 0)),
    ("special_hermite_polynomial_he.n_scalar", (X, 2), f32(8, -0.75, 3, 3)),
    ("special_laguerre_polynomial_l", (f32(2), np.array([3])), f32(-1 / 3)),
    ("special_legendre_polynomial_p.x_scalar", (0.5, f32(1, 3)), f32(0.5, -0.4375)),
    ("special_chebyshev_polynomial_t", (X, f32(1, 9, 2, -1)), f32(-3, -1, 7, 0)),
    ("special_chebyshev_polynomial_w", (f32(1, -1, -2), f32(3, 3, 1)), f32(7, -1, -3)),
    ("special_shifted_chebyshev_polynomial_v.n_scalar", (f32(0, 0.75, 1), 2), f32(5, -1, 1)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_computes_special_functions(tmp_path, case):
    target, arguments, want = case
    got = results(tmp_path, target, *arguments, like=want)
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=3e-7 if "bessel_j" in target else 1e-12)
