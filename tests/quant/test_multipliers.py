import numpy as np
import pytest

from xdlc.quant.multipliers import exact_scales


def htp_result(accumulator, multiplier):
    """What the emulation makes of an accumulator, as the module describes it."""
    grain = 2.0 ** (-4 - np.floor(np.log2(multiplier)))
    coarse = np.rint(multiplier * grain * 2**15) / 2**15
    return np.floor(coarse * (np.floor(accumulator / grain) + 0.5) + 0.5)


@pytest.mark.parametrize("least", [1e-3, 1.3e-3, 1.77e-3, 0.9e-3, 3.1e-4])
def test_htp_rounds_as_exact_arithmetic_does(least):
    accumulator = np.arange(-40000, 40000)
    before = least * 0.02 / 0.005
    (scale,) = np.float32(exact_scales([least], 0.02, 0.005))
    multiplier = float(scale) * 0.02 / 0.005
    inside = np.abs(accumulator * multiplier) < 255
    differ = htp_result(accumulator, multiplier) != np.rint(accumulator * multiplier)
    # Halfway negative results are what remains.
    assert np.mean(differ[inside & (accumulator > 0)]) == 0
    assert np.mean(differ[inside]) < 0.01
    assert np.mean((htp_result(accumulator, before) != np.rint(accumulator * before))[inside]) > 0.01


def test_scales_grow_by_a_quarter_at_most_and_lose_half_a_step_at_most():
    least = np.geomspace(1e-6, 1, 1000)
    chosen = exact_scales(least, 0.013, 0.7)
    assert np.all(chosen <= least * 1.2501)
    assert np.all(127 * least / chosen <= 127.5)


def test_exact_scales_stay():
    once = exact_scales(np.geomspace(1e-4, 1, 50), 0.013, 0.7)
    np.testing.assert_allclose(exact_scales(once, 0.013, 0.7), once, rtol=1e-5)
