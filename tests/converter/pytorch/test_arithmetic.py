"""Handlers of element-wise arithmetic: odd values and type promotion."""

import math

import numpy as np
import pytest

from tests.converter.pytorch.programs import TinyProgram, results
from tests.support.htp_models import needs_htp
from tests.support.running import run
from xdlc.errors import ModelError

INF, NAN = math.inf, math.nan


def f32(*values):
    return np.array(values, np.float32)


def i64(*values):
    return np.array(values, np.int64)


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


@pytest.mark.parametrize("case", UNARY + BINARY, ids=lambda case: case[0])
def test_computes_what_pytorch_does(tmp_path, case):
    target, arguments, *named, want = case
    got = results(tmp_path, target, *arguments, like=want, **(named[0] if named else {}))
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=0)
    if target.startswith("copysign"):
        assert np.array_equal(np.signbit(got), np.signbit(want))


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
