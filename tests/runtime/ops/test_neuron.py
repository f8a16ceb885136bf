"""Tables of Sigmoid and Tanh in fixed point."""

import numpy as np
import pytest

from xdlc.runtime.ops.neuron import table

Q = np.arange(-(1 << 15), 1 << 15)


def results(function, bits):
    return table(function, bits).astype(int) - (1 << 15)


@pytest.mark.parametrize("bits", range(7))
def test_tanh_is_odd_and_near_the_function(bits):
    found = results("Tanh", bits)
    np.testing.assert_array_equal(found[1:], -found[:0:-1])
    np.testing.assert_allclose(found, np.tanh(Q * 2.0 ** (bits - 15)) * 2**15, atol=13)


def test_sigmoid_is_near_the_function_and_as_litert_has_it():
    found = results("Sigmoid", 3)
    np.testing.assert_allclose(found, 2**15 / (1 + np.exp(-Q / 4096)), atol=7)
    assert found[[0, 1 << 15, -1]].tolist() == [11, 1 << 14, 32756]  # exact are 10.99, 16384 and 32757.01
