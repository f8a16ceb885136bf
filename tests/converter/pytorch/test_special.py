"""Handlers of special functions: ranges, poles, exact small results."""

import math

import numpy as np
import pytest

from tests.converter.pytorch.programs import results
from xdlc.errors import UnsupportedOp

INF, NAN = math.inf, math.nan


def f32(*values):
    return np.array(values, np.float32)


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
    ("gcd", (np.array([[12], [-18]]), np.array([18, 0, 5])), np.gcd([[12], [-18]], [18, 0, 5])),
    ("lcm", (np.array([4, 0], np.int32), np.array([-6, 0], np.int32)), np.array([12, 0], np.int32)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_computes_special_functions(tmp_path, case):
    target, arguments, want = case
    got = results(tmp_path, target, *arguments, like=want)
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-12)


@pytest.mark.parametrize(
    ("target", "arguments"),
    [
        ("i0", ()),
        ("special_i1e", ()),
        ("special_airy_ai", ()),
        ("special_spherical_bessel_j0", ()),
        ("special_scaled_modified_bessel_k1", ()),
        ("special_zeta.other_scalar", (1,)),
        ("igamma", (f32(2),)),
        ("special_gammaincc", (f32(2),)),
        ("special_shifted_chebyshev_polynomial_t.n_scalar", (3,)),
    ],
)
def test_refuses_functions_that_no_layer_uses(tmp_path, target, arguments):
    with pytest.raises(UnsupportedOp, match="special function") as caught:
        results(tmp_path, target, f32(1), *arguments, like=f32(1))
    assert "xdlc udo-config" in caught.value.fix
