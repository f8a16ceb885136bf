"""Handlers of comparisons and activations: promotion, NaN, options."""

import math

import numpy as np
import pytest

from tests.converter.pytorch.programs import results

INF, NAN = math.inf, math.nan


def f32(*values):
    return np.array(values, np.float32)


def i64(*values):
    return np.array(values, np.int64)


def flags(text):
    return np.array([letter == "1" for letter in text])


ODD = f32(-INF, -1, -0.0, 0, 2, INF, NAN)
CASES = [
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
    ("isclose", (ODD, ODD), flags("1111110")),
    ("isclose", (ODD, ODD), {"equal_nan": True}, flags("1111111")),
    ("isclose", (i64(100, 7), i64(101, 7)), {"rtol": 0.1}, flags("11")),
    ("isfinite", (ODD,), flags("0111100")),
    ("isin.Tensor_Tensor", (i64(1, 5, 7), i64(7, 1)), flags("101")),
    ("isin.Tensor_Scalar", (i64(1, 5, 7), 5), {"invert": True}, flags("101")),
    ("isinf", (ODD,), flags("1000010")),
    ("isnan", (ODD,), flags("0000001")),
    ("isnan", (i64(1, 2),), flags("00")),
    ("lt.Tensor", (flags("0011"), flags("0101")), flags("0100")),
    ("logical_and", (f32(0, 0.5), i64(1, 1)), flags("01")),
    ("masked_fill.Scalar", (i64(1, 2), flags("01"), 9), i64(1, 9)),
    ("ne.Tensor", (ODD, ODD), flags("0000001")),
    ("searchsorted.Tensor", (np.array([[1, 3, 5], [2, 4, 6]], np.float32), f32(3, 4).reshape(2, 1)),
     i64(1, 1).reshape(2, 1)),
    ("searchsorted.Tensor", (f32(5, 1, 3), f32(3)), {"side": "right", "sorter": i64(1, 2, 0)}, i64(2)),
    ("signbit", (f32(-1, -0.0, 0, 1),), flags("1100")),
    ("where.ScalarOther", (flags("01"), f32(1, 2), 5), f32(5, 2)),
    # activations
    ("celu", (f32(-1, 2), 2.0), f32(2 * np.expm1(-0.5), 2)),
    ("elu", (f32(-1, 2), 2.0, 3.0, 0.5), f32(6 * np.expm1(-0.5), 6)),
    ("gelu", (f32(-1, 2),), {"approximate": "tanh"}, f32(-0.15880801, 1.9545977)),
    ("glu", (f32(1, 2, 0, 0),), f32(0.5, 1)),
    ("hardshrink", (ODD, 1.0), f32(-INF, 0, 0, 0, 2, INF, NAN)),
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


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_computes_what_pytorch_does(tmp_path, case):
    target, arguments, *named, want = case
    got = results(tmp_path, target, *arguments, like=want, **(named[0] if named else {}))
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-30)


def test_refuses_dropout_of_training(tmp_path):
    with pytest.raises(Exception, match=r"model\.eval"):
        results(tmp_path, "dropout", f32(1, 2), 0.5, True, like=f32(1, 2))
