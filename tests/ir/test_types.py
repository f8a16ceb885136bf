"""Data types, encodings and scalars."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xdlc import ir
from xdlc.errors import ModelError
from xdlc.ir import dtype as dt
from xdlc.ir.literals import float_text


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("int8", 0x0008),
        ("int64", 0x0064),
        ("uint32", 0x0132),
        ("float16", 0x0216),
        ("float32", 0x0232),
        ("bfloat16", 0x0226),
        ("sfixed4", 0x0304),
        ("ufixed8", 0x0408),
        ("sfixed32", 0x0332),
        ("bool8", 0x0508),
        ("string", 0x0608),
    ],
)
def test_codes_are_those_of_the_public_header(name, code):
    assert dt.BY_NAME[name].code == code
    assert dt.BY_CODE[code].name == name


def test_sizes_limits_and_kinds():
    assert dt.SFIXED4.nbytes((3,)) == 2
    assert dt.FLOAT32.nbytes((2, 3)) == 24
    assert dt.SFIXED4.limits == (-8, 7)
    assert dt.UFIXED16.limits == (0, 65535)
    assert dt.INT32.is_integer
    assert dt.INT32.is_signed
    assert not dt.INT32.is_fixed
    assert dt.BFLOAT16.is_float
    assert dt.BFLOAT16.numpy.itemsize == 2
    assert dt.SFIXED4.numpy == np.uint8
    assert dt.BOOL8.numpy == np.bool_
    with pytest.raises(ModelError, match="numpy has no type for string"):
        _ = dt.STRING.numpy


def test_numpy_types_map_to_plain_types():
    assert dt.from_numpy(np.bool_) == dt.BOOL8
    assert dt.from_numpy(np.dtype(">i4")) == dt.INT32
    assert dt.from_numpy(dt.BFLOAT16.numpy) == dt.BFLOAT16
    with pytest.raises(TypeError, match="complex64"):
        dt.from_numpy(np.complex64)


def test_encodings_hold_float32_scales():
    assert ir.ScaleOffset(0.1).scale == float(np.float32(0.1))
    assert ir.AxisScaleOffset(0, (0.1, 0.2)).offsets == (0, 0)
    assert ir.AxisScaleOffset(0, (0.1,)) == ir.AxisScaleOffset(0, (float(np.float32(0.1)),), (0,))
    assert ir.BlockScaleOffset((1, 2), (0.1, 0.2)).offsets == (0, 0)
    with pytest.raises(ValueError, match="2 scales need as many offsets, but the encoding has 1"):
        ir.AxisScaleOffset(0, (0.1, 0.2), (0,))


def test_static_tensors_and_scalars():
    weight = ir.static("w", np.zeros((2, 3), np.int16))
    assert (weight.dtype, weight.rank, weight.size, weight.nbytes) == (dt.INT16, 2, 6, 12)
    assert weight.is_static
    assert ir.f32(0.1).value == float(np.float32(0.1))
    assert ir.b8(1).value is True
    with pytest.raises(ValueError, match="'x' is not static"):
        ir.Tensor("x", (1,), dt.FLOAT32).numpy()


@given(st.floats(width=32))
def test_float32_text_is_exact(value):
    again = ir.as_float32(float(float_text(value)))
    assert again == value or (math.isnan(again) and math.isnan(value))
    assert math.copysign(1, again) == math.copysign(1, value) or math.isnan(value)


@given(st.floats())
def test_float64_text_is_close_and_exact_beyond_float32(value):
    again = float(float_text(value))
    if not math.isnan(value) and (abs(value) > 3.5e38 or ir.as_float32(value) != value):
        assert again == value
