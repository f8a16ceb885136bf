import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from xdlc.ir import AxisScaleOffset, BlockwiseExpansion, ScaleOffset
from xdlc.ir.dtype import SFIXED8, SFIXED32, UFIXED8
from xdlc.ir.quantization import to_float
from xdlc.quant.ranges import (
    MIN_WIDTH,
    NOTHING,
    Range,
    activation_type,
    asymmetric,
    centred,
    range_of,
    representable,
    softmax_top,
    symmetric_scale,
    to_quantized,
    unit_encoding,
    weight_type,
)

floats = st.floats(-1e6, 1e6, width=32)
arrays = hnp.arrays(np.float32, hnp.array_shapes(max_dims=3, max_side=6), elements=floats)
bits = st.sampled_from([8, 16])


def real(stored, encoding):
    return to_float(stored, encoding, where="here").astype(np.float64)


@given(floats, floats, bits)
def test_zero_is_exact_and_the_offset_not_positive(a, b, width):
    encoding = asymmetric(Range(min(a, b), max(a, b)), width)
    steps = (1 << width) - 1
    assert -steps <= encoding.offset <= 0
    stored = to_quantized(np.zeros(3, np.float32), encoding, activation_type(width))
    assert not real(stored, encoding).any()


@given(arrays, bits)
def test_round_trip_is_off_by_half_a_step_at_most(array, width):
    dtype = activation_type(width)
    encoding = asymmetric(range_of(array), width)
    back = real(to_quantized(array, encoding, dtype), encoding)
    slack = 4e-7 * np.abs(array).max()  # float32 rounding of the scale and of the result
    assert np.abs(back - array).max() <= encoding.scale / 2 + slack


@given(arrays, bits)
def test_a_centred_encoding_has_an_exact_zero_and_is_off_by_half_a_step(array, width):
    dtype = activation_type(width)
    encoding = centred(range_of(array), width)
    assert encoding.offset == -(1 << (width - 1))
    values = np.append(array, np.float32(0.0))
    back = real(to_quantized(values, encoding, dtype), encoding)
    assert back[-1] == 0.0
    assert np.abs(back - values).max() <= encoding.scale / 2 + 4e-7 * np.abs(array).max()


@given(arrays, st.sampled_from([4, 8, 16]))
def test_symmetric_round_trip(array, width):
    dtype = weight_type(width)
    encoding = ScaleOffset(symmetric_scale(float(np.abs(array).max()), width), bits=4 if width == 4 else None)
    stored = to_quantized(array, encoding, dtype)
    limit = (1 << (width - 1)) - 1
    assert np.abs(stored.astype(int)).max() <= limit
    slack = 4e-7 * np.abs(array).max()
    assert np.abs(real(stored, encoding) - array).max() <= encoding.scale / 2 + slack


@given(arrays, arrays)
def test_merging_equals_one_pass(one, two):
    both = np.concatenate([one.ravel(), two.ravel()])
    assert range_of(one).merge(range_of(two)) == range_of(both)


@given(st.lists(st.one_of(floats, st.just(math.nan), st.just(math.inf)), min_size=3, max_size=3))
def test_merging_is_associative_and_commutative(values):
    a, b, c = (range_of(np.float32([value])) for value in values)
    for one, two in ((a.merge(b).merge(c), a.merge(b.merge(c))), (a.merge(b), b.merge(a))):
        np.testing.assert_array_equal([one.low, one.high], [two.low, two.high])  # NaN equals NaN, -0 equals 0


def test_empty_data_counts_as_zero():
    empty = range_of(np.zeros((0, 3), np.float32))
    assert empty == NOTHING
    assert empty.merge(Range(1, 2)) == Range(1, 2)
    assert asymmetric(empty, 8) == asymmetric(Range(0, 0), 8)


@pytest.mark.parametrize("value", [0.0, 1e-9, -1e-9, 3.5, -3.5])
def test_constants(value):
    encoding = asymmetric(Range(value, value), 8)
    assert encoding.scale * 255 == pytest.approx(max(abs(value), MIN_WIDTH))
    back = real(to_quantized(np.float32([value]), encoding, UFIXED8), encoding)
    assert abs(back[0] - value) <= encoding.scale / 2


def test_vendors_example():
    ends = representable(asymmetric(Range(-5.1, 5.1), 8), UFIXED8)
    assert (ends.low, ends.high) == (pytest.approx(-5.12), pytest.approx(5.08))


def test_one_sided_ranges_reach_to_zero():
    assert asymmetric(Range(2.0, 4.0), 8).offset == 0
    assert asymmetric(Range(-4.0, -2.0), 8).offset == -255


@pytest.mark.parametrize(
    ("low", "width", "expected"),
    [
        (0, 8, ScaleOffset(1 / 256, 0)),
        (0, 16, ScaleOffset(1 / 65536, 0)),
        (-1, 8, ScaleOffset(1 / 128, -128)),
        (-1, 16, ScaleOffset(1 / 32768, -32768)),
    ],
)
def test_unit_ranges(low, width, expected):
    assert unit_encoding(low, width) == expected


def test_values_beyond_the_ends_are_clipped():
    stored = to_quantized(np.float32([-9, 9]), ScaleOffset(0.01, -100), UFIXED8)
    assert stored.tolist() == [0, 255]
    stored = to_quantized(np.float32([-1e12, 1e12]), ScaleOffset(1e-3), SFIXED32)
    assert stored.tolist() == [-(2**31), 2**31 - 1]


def test_scalars_and_axes_keep_their_shape():
    assert to_quantized(np.float32(1.0), ScaleOffset(0.5), SFIXED8).shape == ()
    turned = np.arange(6, dtype=np.float32).reshape(2, 3).T
    stored = to_quantized(turned, AxisScaleOffset(1, (1.0, 0.5)), SFIXED8)
    assert stored.tolist() == [[0, 6], [1, 8], [2, 10]]
    assert stored.flags.c_contiguous


@pytest.mark.parametrize(
    ("largest", "top"),
    [(1.0, 1.0), (0.0625, 1.0), (0.06, 0.0625), (0.003, 2.0**-8), (1e-5, 2.0**-8), (0.0, 1.0)],
)
def test_softmax_range_follows_tiny_results(largest, top):
    assert softmax_top(largest, 8) == top
    assert softmax_top(largest, 16) == 1.0
    assert unit_encoding(0, 8, top) == ScaleOffset(top / 256)


@pytest.mark.parametrize(("shape", "axis"), [((6, 8), 0), ((1, 1, 8, 6), 3)])
def test_blocks_with_integer_scales_are_rounded_by_their_products(shape, axis):
    rng = np.random.default_rng(0)
    scales, integers = rng.uniform(0.01, 0.1, 6).astype(np.float32), rng.integers(1, 17, (6, 4))
    encoding = BlockwiseExpansion(axis, scales.tolist(), (0,) * 6, 4, 4, integers.reshape(-1).tolist())
    products = (scales[:, None] * integers.astype(np.float32)).repeat(2, axis=1)
    products = products if axis == 0 else products.T[None, None]
    values = rng.standard_normal(shape).astype(np.float32)
    stored = to_quantized(values, encoding, SFIXED8)
    np.testing.assert_array_equal(stored, np.clip(np.rint(values / products), -8, 7).astype(np.int8))
    np.testing.assert_array_equal(to_float(stored, encoding, where="w"), stored * products)
