"""Handlers of element-wise operators: odd values, promotion, poles, options."""

import math

import numpy as np
import pytest

from tests.converter.pytorch.cases import INF, NAN, check, f32, flags, i64, rows
from tests.converter.pytorch.programs import TinyProgram, results
from tests.support.htp_models import needs_htp
from tests.support.running import run
from xdlc.errors import ModelError, UnsupportedOp

ODD = f32(-INF, -7.5, -2.5, -0.0, 0.0, 0.5, 1.5, INF, NAN)
TINY = f32(1e-8, -1e-8)

UNARY = [
    ("acosh", (f32(0.5, 1, 2, 1e20, INF, -5),), f32(NAN, 0, 1.3169579, 46.74485, INF, NAN)),
    ("angle", (f32(-2, 0, 3, NAN),), f32(math.pi, 0, 0, NAN)),
    ("asinh", (f32(-1e20, 1e-8, 2, INF),), f32(-46.74485, 1e-8, 1.4436355, INF)),
    ("atanh", (f32(1e-8, 0.5, 1, 2),), f32(1e-8, 0.54930615, INF, NAN)),
    ("celu", (f32(-3, -1e-3, 0.1), -0.3), f32(-6607.64, -0.00100167, 0.1)),
    ("celu", (f32(-3, -1e-3, 0.1), 1e6), f32(-2.9999955, -1e-3, 0.1)),
    ("expm1", (TINY,), TINY),
    ("frac", (f32(-1.5, 1.25),), f32(-0.5, 0.25)),
    ("log1p", (f32(1e-8, -1e-8, 2, INF, -1),), f32(1e-8, -1e-8, 1.0986123, INF, -INF)),
    ("logit", (f32(0.2, 0.9), 1.0), f32(INF, INF)),
    ("logit", (f32(0.2, 0.9), 0.75), f32(1.0986123, -1.0986123)),
    ("logit", (f32(0, 0.2, 1), 0.25), f32(-1.0986123, -1.0986123, 1.0986123)),
    ("nan_to_num", (ODD,), np.nan_to_num(ODD)),
    ("nan_to_num", (ODD, 3.0, 7.0, -7.0), np.nan_to_num(ODD, nan=3, posinf=7, neginf=-7)),
    ("round", (f32(-2.5, -0.5, 0.5, 1.5, 2.5),), f32(-2, 0, 0, 2, 2)),
    ("round.decimals", (f32(1.125, 12.34), 2), f32(1.12, 12.34)),
    ("round.decimals", (f32(149, 151), -2), f32(100, 200)),
    ("sgn", (ODD,), f32(-1, -1, -1, 0, 0, 1, 1, 1, 0)),
    ("sinc", (f32(0, 0.5),), f32(1, 2 / math.pi)),
    ("sinh", (f32(1e-8, 89, -2),), f32(1e-8, 2.24480e38, -3.6268604)),
    ("softplus", (f32(-1, 0.1, 3), 2.0, 0.0), f32(0.063464, 0.1, 3)),
    ("softplus", (f32(-3, -0.5, 1), 1.0, -1.0), f32(0.04858735, -0.5, 1)),
    ("softplus", (f32(-3, 2, 30), 1.0, 1.5), f32(0.04858735, 2, 30)),
    ("sqrt", (i64(4, 9),), f32(2, 3)),
    ("trunc", (f32(-1.5, 1.5, -INF, NAN),), f32(-1, 1, -INF, NAN)),
]
BINARY = [
    ("add.Tensor", (i64(1, 2), 2.5), f32(3.5, 4.5)),
    ("add.Tensor", (np.array([True, False]), np.array([True, True])), np.array([True, True])),
    ("add.Tensor", (i64(1, 2), i64(3, 4)), {"alpha": 2}, i64(7, 10)),
    ("atan2", (f32(0.0, -0.0, 0.0, 1, INF), f32(-1, -1, 0, 0, INF)),
     f32(math.pi, -math.pi, 0, math.pi / 2, math.pi / 4)),
    ("clamp_min", (ODD, 0.5), np.maximum(ODD, np.float32(0.5))),
    ("clamp", (ODD, -INF, 1.0), np.minimum(ODD, np.float32(1.0))),
    ("clamp", (f32(-3, 0, 3), 2.0, 1.0), f32(1, 1, 1)),
    ("clamp", (i64(-3, 0, 3), -1, None), i64(-1, 0, 3)),
    ("clamp.Tensor", (f32(-3, 3), f32(-1, -1), f32(1, 2)), f32(-1, 2)),
    ("copysign.Tensor", (f32(1, -1, 0), f32(-0.0, 0.0, -3)), f32(-1, 1, -0.0)),
    ("div.Tensor", (i64(7, -7), i64(2, 2)), f32(3.5, -3.5)),
    ("div.Tensor_mode", (i64(7, -7), i64(2, 2)), {"rounding_mode": "floor"}, i64(3, -4)),
    ("div.Tensor_mode", (i64(7, -7), i64(2, 2)), {"rounding_mode": "trunc"}, i64(3, -3)),
    ("floor_divide", (f32(1, -1, 7, 1, 5), f32(0.1, 0.3, -2, 0, INF)), f32(9, -4, -4, INF, 0)),
    ("fmax", (f32(NAN, 1, NAN), f32(2, NAN, NAN)), f32(2, 1, NAN)),
    ("fmod.Tensor", (f32(-7, 7), f32(3, -3)), f32(-1, 1)),
    ("heaviside", (f32(-1, 0, 2), f32(5, 6, 7)), f32(0, 6, 1)),
    ("hypot", (f32(3e30, 0, INF), f32(4e30, 0, NAN)), f32(5e30, 0, INF)),
    ("logaddexp", (f32(-INF, INF, 1000), f32(-INF, INF, 1000)), f32(-INF, INF, 1000.6931)),
    ("mul.Tensor", (np.array([True, True]), np.array([True, False])), np.array([True, False])),
    ("nextafter", (f32(1, 0, -1), f32(2, 1, -1)), np.nextafter(f32(1, 0, -1), f32(2, 1, -1))),
    ("pow.Scalar", (2, i64(3, 5)), i64(8, 32)),
    ("pow.Tensor_Scalar", (f32(-2, 3), 2), f32(4, 9)),
    ("pow.Tensor_Tensor", (f32(2, 9), f32(-1, 0.5)), f32(0.5, 3)),
    ("remainder.Tensor", (f32(-7, 7, -1), f32(3, -3, INF)), f32(2, -2, INF)),
    ("remainder.Scalar", (i64(-7, 7), 3), i64(2, 1)),
    ("rsub.Scalar", (f32(1, 2), 10, 2), f32(8, 6)),
    ("sub.Tensor", (np.array([1, 2], np.uint8), np.array([2, 1], np.uint8)), np.array([255, 1], np.uint8)),
]  # fmt: skip


VALUES = f32(-INF, -1, -0.0, 0, 2, INF, NAN)
COMPARISONS = [
    ("__and__.Tensor", (i64(6, -1), i64(3, 5)), i64(2, 5)),
    ("bitwise_not", (i64(0, -3),), i64(-1, 2)),
    ("bitwise_not", (np.array([0, 7], np.uint8),), np.array([255, 248], np.uint8)),
    ("bitwise_right_shift.Tensor", (i64(-8, -1, 9), i64(1, 70, 1)), i64(-4, -1, 4)),
    ("bitwise_xor.Tensor", (flags("0011"), flags("0101")), flags("0110")),
    ("bucketize.Tensor", (f32(1, 2, NAN), f32(1, 2, 3)), i64(0, 1, 3)),
    ("bucketize.Tensor", (f32(1, 2, NAN), f32(1, 2, 3), True, True), np.array([1, 2, 3], np.int32)),
    ("eq.Scalar", (i64(2, 3), 2.5), flags("00")),
    ("equal", (i64(2, 3), i64(2, 3)), np.array(True)),
    ("gt.Tensor", (i64(2, 3), f32(2.5)), flags("01")),
    ("isclose", (VALUES, VALUES), flags("1111110")),
    ("isclose", (VALUES, VALUES), {"equal_nan": True}, flags("1111111")),
    ("isclose", (i64(100, 7), i64(101, 7)), {"rtol": 0.1}, flags("11")),
    ("isfinite", (VALUES,), flags("0111100")),
    ("isin.Tensor_Tensor", (i64(1, 5, 7), i64(7, 1)), flags("101")),
    ("isin.Tensor_Scalar", (i64(1, 5, 7), 5), {"invert": True}, flags("101")),
    ("isinf", (VALUES,), flags("1000010")),
    ("isnan", (VALUES,), flags("0000001")),
    ("isnan", (i64(1, 2),), flags("00")),
    ("lt.Tensor", (flags("0011"), flags("0101")), flags("0100")),
    ("logical_and", (f32(0, 0.5), i64(1, 1)), flags("01")),
    ("masked_fill.Scalar", (i64(1, 2), flags("01"), 9), i64(1, 9)),
    ("ne.Tensor", (VALUES, VALUES), flags("0000001")),
    ("searchsorted.Tensor", (np.array([[1, 3, 5], [2, 4, 6]], np.float32), f32(3, 4).reshape(2, 1)),
     i64(1, 1).reshape(2, 1)),
    ("searchsorted.Tensor", (f32(5, 1, 3), f32(3)), {"side": "right", "sorter": i64(1, 2, 0)}, i64(2)),
    ("signbit", (f32(-1, -0.0, 0, 1),), flags("1100")),
    ("where.ScalarOther", (flags("01"), f32(1, 2), 5), f32(5, 2)),
]  # fmt: skip
ACTIVATIONS = [
    ("celu", (f32(-1, 2), 2.0), f32(2 * np.expm1(-0.5), 2)),
    ("elu", (f32(-1, 2), 2.0, 3.0, 0.5), f32(6 * np.expm1(-0.5), 6)),
    ("gelu", (f32(-1, 2),), {"approximate": "tanh"}, f32(-0.15880801, 1.9545977)),
    ("glu", (f32(1, 2, 0, 0),), f32(0.5, 1)),
    ("hardshrink", (VALUES, 1.0), f32(-INF, 0, 0, 0, 2, INF, NAN)),
    ("hardsigmoid", (f32(-4, 0, 3),), f32(0, 0.5, 1)),
    ("hardtanh", (i64(-3, 0, 3), -1, 2), i64(-1, 0, 2)),
    ("leaky_relu", (f32(-1, 2), 0.5), f32(-0.5, 2)),
    ("log_sigmoid", (f32(-200, 0, 200),), f32(-200, -math.log(2), 0)),
    ("logit", (f32(0, 0.5), 0.25), f32(-math.log(3), 0)),
    ("prelu", (f32(-1, -1, 1, -1).reshape(1, 2, 2), f32(2, 3)), f32(-2, -2, 1, -3).reshape(1, 2, 2)),
    ("relu6", (i64(-1, 9),), i64(0, 6)),
    ("rrelu", (f32(-8, 8), 0.125, 0.375), f32(-2, 8)),
    ("silu", (f32(0, 2),), f32(0, 2 / (1 + math.exp(-2)))),
    ("softplus", (f32(-1, 1), 2.0, 1.0), f32(math.log1p(math.exp(-2)) / 2, 1)),
    ("softshrink", (f32(-1, 0.2, 1), 0.5), f32(-0.5, 0, 0.5)),
    ("threshold", (f32(1, 2), 1, 7), f32(7, 2)),
]  # fmt: skip
SPECIAL = [
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


@rows(UNARY, BINARY)
def test_computes_what_pytorch_does(tmp_path, case):
    (found,) = check(tmp_path, case)
    if case[0].startswith("copysign"):
        assert np.array_equal(np.signbit(found), np.signbit(case[-1]))


@rows(SPECIAL)
def test_special_functions_are_exact_near_zero_and_poles(tmp_path, case):
    check(tmp_path, case, rtol=2e-5, atol=1e-12)


@rows(COMPARISONS, ACTIVATIONS)
def test_compares_and_activates_as_pytorch_does(tmp_path, case):
    check(tmp_path, case, atol=1e-30)


def test_reads_mantissa_and_exponent_from_the_bits(tmp_path):
    values = f32(0, 1, -3.5, 1e-40, INF)
    want = [f32(0, 0.5, -0.875, np.frexp(np.float32(1e-40))[0], INF), np.array([0, 1, 2, -132, 0], np.int32)]
    mantissa, exponent = results(tmp_path, "frexp.Tensor", values, like=want)
    np.testing.assert_array_equal(mantissa, want[0])
    np.testing.assert_array_equal(exponent, want[1])


@pytest.mark.vendor
@needs_htp
def test_the_angle_of_points_on_an_axis_is_right_on_htp(tmp_path):
    """Quotients are at most 1: HTP has no infinite ones, and none above 65504."""
    y, x = f32(1, -1, 0, 0, 5, -1e4), f32(0, 0, 0, -1, 1e-4, 1e4)
    want = f32(math.pi / 2, -math.pi / 2, 0, math.pi, math.pi / 2, -math.pi / 4)
    program = TinyProgram()
    program.op("atan2", program.input("y", y.shape), program.input("x", x.shape))
    (angles,) = run(program.convert(tmp_path), {"y": y, "x": x}, runtime="htp").values()
    np.testing.assert_allclose(angles, want, rtol=0, atol=4e-3)


M = np.arange(12, dtype=np.float32).reshape(3, 4)
INVALID = [
    ("div.Tensor_mode", (M, M), {"rounding_mode": "zeros"}, M),
    ("glu", (M, 0), {}, M),
    ("tensordot", (M, M, [1], [0]), {}, M),
    ("tensordot", (M, M, [0, 0], [0, 0]), {}, M),
    ("scatter.src", (M, 0, np.zeros((3, 5), np.int64), np.zeros((3, 5), np.float32)), {}, M),
    ("histc", (M, 4, 3.0, 2.0), {}, M[0]),
    ("quantile.scalar", (M, -0.3), {}, M[0, 0]),
    ("sum.dim_IntList", (M, [0, -2]), {}, M[0]),
    ("any.dims", (M, [1, 1]), {}, M[:, 0] > 0),
    ("grid_sampler", (M.reshape(1, 1, 3, 4), np.zeros((1, 2, 2, 2), np.float32), -1, 0, False), {},
     np.zeros((1, 1, 2, 2), np.float32)),
    ("grid_sampler", (M.reshape(1, 1, 3, 4), np.zeros((1, 2, 2, 2), np.float32), 0, 3, False), {},
     np.zeros((1, 1, 2, 2), np.float32)),
    ("to.dtype", (M, np.dtype("float32")), {}, M.astype(np.int32)),
    ("sum", (M,), {"dtype": np.dtype("int32")}, M[0, 0]),
]  # fmt: skip


@pytest.mark.parametrize("case", INVALID, ids=lambda case: case[0])
def test_refuses_what_pytorch_does(tmp_path, case):
    target, arguments, named, like = case
    with pytest.raises(ModelError):
        results(tmp_path, target, *arguments, like=like, named=named)


@pytest.mark.parametrize("size", [[2, 0], [0, 0], [1, 2], [2, 4]])
def test_pools_to_any_size(tmp_path, size):
    x = M[:2].reshape(1, 1, 2, 4)
    want = np.zeros((1, 1, *size), np.float32)
    if size == [1, 2]:
        want = x.reshape(1, 1, 2, 2, 2).mean((2, 4))[:, :, None]
    elif all(size):
        want = x
    got = results(tmp_path, "adaptive_avg_pool2d", x, size, like=want)
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_refuses_dropout_of_training(tmp_path):
    with pytest.raises(Exception, match=r"model\.eval"):
        results(tmp_path, "dropout", f32(1, 2), 0.5, True, like=f32(1, 2))


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
