import numpy as np
import pytest

from xdlc.quant import quantize
from xdlc.quant.advice import most_reach
from xdlc.quant.calibration.statistics import Histogram

ADD, SUBTRACT = 0, 18


def warnings(model, samples, **options):
    found = []
    quantize(model, samples, notify=found.append, **options)
    return [line for line in found if "few values" in line]


@pytest.fixture
def inputs(net):
    n = net(1, 8, 8, 16)
    samples = n.samples(4)
    for sample in samples:
        sample["x"][0, 3, 3, 3] = 5000.0
    return n, samples


def test_a_value_that_stretches_a_range_is_a_warning(inputs):
    n, samples = inputs
    model = n.done(n.neuron(n.x, 4, "y"))
    (line,) = warnings(
        model, samples, act_quantizer_calibration="percentile", percentile_calibration_value=100
    )
    assert line.startswith("warning")
    assert "reach 5e+03" in line
    assert "act_bitwidth_of={'y': 16}" in line or "act_bitwidth_of={'x': 16}" in line


def test_an_encoding_that_clips_it_is_none(inputs):
    n, samples = inputs
    model = n.done(n.neuron(n.x, 4, "y"))
    assert not warnings(
        model, samples, act_quantizer_calibration="percentile", percentile_calibration_value=99.0
    )


@pytest.mark.parametrize("bits", [8, 16])
def test_so_is_a_constant(net, bits):
    n = net(1, 4, 4, 8)
    offsets = n.weights("offsets", 8)
    offsets.numpy()[3] = 1e7
    model = n.done(n.binary(n.x, offsets, ADD, "y"))
    (line,) = warnings(model, n.samples(4), act_bitwidth=bits)
    assert "'offsets'" in line
    assert "float_ops=('y_op',)" in line


def test_ordinary_ranges_are_no_warnings(net):
    n = net(1, 8, 8, 3)
    model = n.done(n.neuron(n.conv(n.x, 8, "c"), 4, "r"))
    assert not warnings(model, n.samples(4))


@pytest.mark.parametrize("scale", [0.0, 1e-6])
def test_no_value_stretches_the_least_range(net, scale):
    n = net(1, 8, 8, 16)
    zeros = n.binary(n.x, n.x, SUBTRACT, "zeros")
    model = n.done(n.binary(zeros, n.weights("offsets", 1, 8, 8, 16, scale=scale), ADD, "y"))
    assert not warnings(model, n.samples(4))


def test_the_rest_is_all_but_a_thousandth():
    values = np.float32([0.5] * 9995 + [100.0] * 5)
    assert most_reach(Histogram.of(values)) == pytest.approx(0.5, abs=0.1)
    values = np.float32([0.5] * 995 + [100.0] * 5)
    assert most_reach(Histogram.of(values)) == pytest.approx(100.0, abs=0.1)
