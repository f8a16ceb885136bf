import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from xdlc.errors import ModelError, UsageError
from xdlc.ir import AxisScaleOffset, BlockwiseExpansion, ScaleOffset, static
from xdlc.ir.quantization import to_float
from xdlc.quant.options import QuantOptions
from xdlc.quant.range_methods import Steps, find_range_method, known_range_methods, range_method
from xdlc.quant.ranges import to_quantized, weight_type
from xdlc.quant.weights import (
    bias_encoding,
    channel_ranges,
    channel_scales,
    clipped_biases,
    weight_encoding,
    weight_steps,
)

OPTIONS = QuantOptions()
METHODS = tuple(name for name in known_range_methods(weights=True) if name != "auto")
floats = st.floats(-1e6, 1e6, width=32)
weights = hnp.arrays(np.float32, hnp.array_shapes(min_dims=2, max_dims=4, max_side=5), elements=floats)
widths = st.sampled_from([2, 4, 8, 16])
methods = st.sampled_from(METHODS)


def encoded(array, axis, bits, method="min-max", floor=None):
    steps = weight_steps(bits, OPTIONS)
    scales = channel_scales(static("w", array), axis, steps, find_range_method(method, weights=True).fit)
    return weight_encoding(scales, axis, bits, floor)


def rounded(array, encoding, bits):
    stored = to_quantized(array, encoding, weight_type(bits))
    return stored, to_float(stored, encoding, where="here").astype(np.float64)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("method", METHODS)
def test_bad_weights_are_named(bad, axis, method):
    array = np.ones((2, 3), np.float32)
    array[1, 2] = bad
    with pytest.raises(ModelError, match="holds NaN or infinite values"):
        channel_ranges(static("kernel", array), axis)
    with pytest.raises(ModelError, match="holds NaN or infinite values"):
        channel_scales(
            static("kernel", array), axis, Steps(-8, 7, 99.99), find_range_method(method, weights=True).fit
        )


@given(weights, widths, st.data())
def test_min_max_is_off_by_half_a_step_at_most(array, bits, data):
    axis = data.draw(st.none() | st.integers(0, array.ndim - 1))
    encoding = encoded(array, axis, bits)
    _, back = rounded(array, encoding, bits)
    scales = [encoding.scale] if axis is None else encoding.scales
    step = np.float64(scales).reshape([-1 if at == axis else 1 for at in range(array.ndim)])
    assert (np.abs(back - array) <= step / 2 + 4e-7 * np.abs(array).max()).all()


@given(weights, widths, methods, st.data())
def test_per_channel_is_per_tensor_on_each_channel_alone(array, bits, method, data):
    axis = data.draw(st.integers(0, array.ndim - 1))
    together = encoded(array, axis, bits, method)
    for index in range(array.shape[axis]):
        part = np.ascontiguousarray(array.take(index, axis))
        if part.any():
            assert encoded(part, None, bits, method).scale == together.scales[index]


@given(weights, widths, methods)
def test_every_method_keeps_zero_and_no_wider_a_range_than_the_data(array, bits, method):
    array[0, 0] = 0
    encoding = encoded(array, 0, bits, method)
    stored, back = rounded(array, encoding, bits)
    assert not back[array == 0].any()
    widest = encoded(array, 0, bits)
    assert all(0 < a <= b for a, b in zip(encoding.scales, widest.scales, strict=True))
    limit = 1 << (bits - 1)
    assert -limit <= stored.min()
    assert stored.max() < limit


@given(hnp.arrays(np.float32, (3, 20), elements=floats), widths)
def test_mse_is_never_worse_than_min_max(array, bits):
    def error(method):
        back = rounded(array, encoded(array, 0, bits, method), bits)[1]
        return np.square(back - array).sum()

    assert error("mse") <= error("min-max") * (1 + 1e-4) + 1e-30


@pytest.mark.parametrize("method", ["mse", "sqnr", "percentile", "entropy"])
def test_an_outlier_is_clipped_at_four_bits(method):
    array = np.random.default_rng(0).standard_normal((2, 30_000)).astype(np.float32)
    array[0, 7] = 20.0
    outlier, plain = encoded(array, 0, 4, method).scales
    assert outlier < 1.5 * plain
    assert encoded(array, 0, 4).scales[0] == pytest.approx(20 / 7)


def test_sampled_rows_find_what_whole_rows_do():
    array = np.random.default_rng(0).standard_normal(200_000).astype(np.float32)
    method = find_range_method("mse", weights=True).fit
    whole = method(array[None, :60_000], Steps(-8, 7, 99.99))
    assert method(array[None], Steps(-8, 7, 99.99)) == pytest.approx(whole, rel=0.05)


def test_rows_in_pieces_are_rows_at_once(monkeypatch):
    array = np.random.default_rng(0).standard_normal((5, 3, 7)).astype(np.float32)
    whole = encoded(array, 2, 4, "mse")
    monkeypatch.setattr("xdlc.quant.weights._CHUNK", 20)
    assert encoded(array, 2, 4, "mse") == whole


def test_a_channel_of_zeros_takes_the_largest_scale():
    array = np.float32([[0, 0], [1, -2]])
    assert encoded(array, 0, 8) == AxisScaleOffset(0, (2 / 127, 2 / 127))


@pytest.mark.parametrize("method", METHODS)
def test_all_zero_and_empty_weights_have_a_positive_scale(method):
    for shape in [(2, 3), (2, 0)]:
        found = encoded(np.zeros(shape, np.float32), 0, 8, method)
        assert len(found.scales) == 2
        assert all(scale > 0 for scale in found.scales)


@pytest.mark.parametrize("method", METHODS)
def test_constant_channels_stay_within_half_a_step(method):
    array = np.float32([[0.3] * 5, [-7.0] * 5])
    encoding = encoded(array, 0, 8, method)
    _, back = rounded(array, encoding, 8)
    assert (np.abs(back - array) <= np.float64(encoding.scales)[:, None] / 2 + 1e-6).all()


def test_fewer_than_eight_bits_are_marked_and_use_the_lowest_integer():
    assert encoded(np.float32([[7, -8]]), 0, 4) == AxisScaleOffset(0, (1.0,), bits=4)
    assert encoded(np.float32([[1, -2]]), 0, 2) == AxisScaleOffset(0, (1.0,), bits=2)
    assert rounded(np.float32([[1, -2]]), ScaleOffset(1.0, 0, 2), 2)[0].tolist() == [[1, -2]]


@pytest.mark.parametrize(
    ("bits", "given", "expected"),
    [
        (8, None, (-127, 127)),
        (4, None, (-8, 7)),
        (16, None, (-0x7F7F, 0x7F7F)),
        (16, (-0x8000, 0x7F7F), (-0x8000, 0x7F7F)),
        (8, (-0x80, 0x7F), (-128, 127)),
        (4, (-0x80, 0x7F), (-8, 7)),
        (8, (-3, 5), (-3, 5)),
    ],
)
def test_steps(bits, given, expected):
    steps = weight_steps(bits, QuantOptions(restrict_quantization_steps=given))
    assert (steps.low, steps.high) == expected


@pytest.mark.parametrize(
    "given",
    [
        {"restrict_quantization_steps": (0, 127)},
        {"restrict_quantization_steps": (-128,)},
        {"weights_block_size": 0},
        {"use_lpbq": True},
    ],
)
def test_options_without_a_meaning_are_refused(given):
    with pytest.raises(UsageError):
        QuantOptions(**given)


@pytest.mark.parametrize(("bits", "chosen"), [(2, "mse"), (4, "mse"), (8, "min-max"), (16, "min-max")])
def test_auto_clips_few_bits_alone(bits, chosen):
    array = np.random.default_rng(0).standard_normal((3, 500)).astype(np.float32)
    assert encoded(array, 0, bits, "auto") == encoded(array, 0, bits, chosen)


def test_method_names():
    names = {"tf": "min-max", "adjusted": "mse", "enhanced": "sqnr", "moving-average": "min-max"}
    assert {name: find_range_method(name, weights=True).name for name in names} == names
    with pytest.raises(UsageError, match="known: auto, entropy, min-max, mse, percentile, sqnr"):
        find_range_method("msee", weights=True)
    with pytest.raises(ValueError, match="there is a range method of mse already"):
        range_method("mse")


def test_a_large_bias_raises_the_scale_of_its_channel_alone():
    bias = channel_ranges(static("b", np.float32([100.0, 1.0])), 0)
    array = np.float32([[1e-9], [1.0]])
    found = encoded(array, 0, 8, floor=bias.largest / (0.01 * 2.0**30))
    held = bias_encoding(bias, 2, 0.01, found)
    assert found.scales[1] == pytest.approx(1 / 127)
    assert 100.0 / held.scales[0] < 2**31
    assert clipped_biases(bias, held) == 0
    assert clipped_biases(bias, bias_encoding(bias, 2, 0.01, encoded(array, 0, 8))) == 1


def test_bias_scales_are_those_of_the_accumulator():
    bias = channel_ranges(static("b", np.float32([1, 2, 3, 4])), 0)
    weight = AxisScaleOffset(3, (0.5, 0.25))
    assert bias_encoding(bias, 2, 0.5, weight) == AxisScaleOffset(0, (0.25, 0.125))
    assert bias_encoding(bias, 4, 0.5, ScaleOffset(0.5, -3)) == ScaleOffset(0.25)
    assert bias_encoding(bias, 4, None, weight) == ScaleOffset(4 / (2**31 - 1))
    blocks = BlockwiseExpansion(0, (0.5, 0.25), (0, 0), 1, 4, (3, 16))
    assert bias_encoding(bias, 2, 0.5, blocks) == AxisScaleOffset(0, (0.25, 0.125))
