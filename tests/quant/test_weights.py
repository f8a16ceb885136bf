import numpy as np
import pytest

from xdlc.errors import ModelError
from xdlc.ir import AxisScaleOffset, ScaleOffset, static
from xdlc.quant.weights import bias_encoding, channel_ranges, weight_encoding


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_bad_weights_are_named(bad, axis):
    array = np.ones((2, 3), np.float32)
    array[1, 2] = bad
    with pytest.raises(ModelError, match="holds NaN or infinite values"):
        channel_ranges(static("kernel", array), axis)


def test_a_channel_of_zeros_takes_the_largest_scale():
    array = np.float32([[0, 0], [1, -2]])
    encoding = weight_encoding(channel_ranges(static("w", array), 0), 0, 8)
    assert encoding == AxisScaleOffset(0, (2 / 127, 2 / 127))


def test_all_zero_and_empty_weights_have_a_positive_scale():
    for shape in [(2, 3), (2, 0)]:
        found = weight_encoding(channel_ranges(static("w", np.zeros(shape, np.float32)), 0), 0, 8)
        assert all(scale > 0 for scale in found.scales)


def test_four_bits_are_marked():
    channels = channel_ranges(static("w", np.float32([[7, -7]])), 0)
    assert weight_encoding(channels, 0, 4) == AxisScaleOffset(0, (1.0,), bits=4)


def test_a_large_bias_raises_the_scale_of_its_channel_alone():
    channels = channel_ranges(static("w", np.float32([[1e-9], [1.0]])), 0)
    bias = channel_ranges(static("b", np.float32([100.0, 1.0])), 0)
    found = weight_encoding(channels, 0, 8, bias.largest / (0.01 * 2.0**30))
    held = bias_encoding(bias, 2, 0.01, found)
    assert found.scales[1] == pytest.approx(1 / 127)
    assert 100.0 / held.scales[0] < 2**31


def test_bias_scales_are_those_of_the_accumulator():
    bias = channel_ranges(static("b", np.float32([1, 2, 3, 4])), 0)
    weight = AxisScaleOffset(3, (0.5, 0.25))
    assert bias_encoding(bias, 2, 0.5, weight) == AxisScaleOffset(0, (0.25, 0.125))
    assert bias_encoding(bias, 4, 0.5, ScaleOffset(0.5, -3)) == ScaleOffset(0.25)
    assert bias_encoding(bias, 4, None, weight) == ScaleOffset(4 / (2**31 - 1))
