import math

import numpy as np
import pytest

import xdlc
from tests.htp_models import needs_htp
from xdlc.ir import AxisScaleOffset, BlockScaleOffset, ScaleOffset
from xdlc.ir.data import ArrayData
from xdlc.quant import quantize
from xdlc.quant.multipliers import exact

RELU, SIGMOID = 4, 6


def bits_of(factor):
    """Return how many significant bits a factor has, but for what float32 numbers are off."""
    fraction, _ = math.frexp(factor)
    fits = (bits for bits in range(1, 25) if abs(math.ldexp(fraction, bits) % 1.0 - 0.5) > 0.49)
    return next(fits, 25)


def test_scales_grow_to_the_next_exact_factor():
    assert exact(ScaleOffset(0.75, -3), 1.0) == ScaleOffset(0.75, -3)
    grown = exact(AxisScaleOffset(0, (0.01, 0.02), (0, 0)), 0.37)
    for before, after in zip((0.01, 0.02), grown.scales, strict=True):
        assert before <= after <= before * 1.001
        assert bits_of(after * 0.37) <= 11
    blocks = BlockScaleOffset((1, 2), (0.1,), (0,))
    assert exact(blocks, 0.37) is blocks
    assert exact(ScaleOffset(0.1, 0), 0.0) == ScaleOffset(0.1, 0)


@pytest.mark.parametrize("scale", [0.25, 0.2499999, 0.5, 2.0**-16])
def test_no_factor_is_a_power_of_two(scale):
    found = exact(ScaleOffset(scale, 0), 1.0).scale
    assert scale < found <= scale * 1.002
    assert round(2048 * math.frexp(found)[0]) == 1025


@pytest.mark.parametrize(("target", "is_exact"), [("qcs6490", True), ("sm8450", True), ("sm8550", False)])
def test_products_of_old_generations(net, target, is_exact):
    n = net(1, 4, 8)
    flat = n.reshape(n.x, (4, 8), "flat")
    product = n.op("FullyConnected", [flat, n.weights("w", 8, 8), n.weights("b", 8)], (4, 8), "p")
    other = n.neuron(flat, SIGMOID, "s")
    square = n.op("MatMul", [n.reshape(product, (8, 4), "turned"), other], (8, 8), "y")
    model = n.done(square)
    tensors = quantize(model, n.samples(2), act_bitwidth=16, target=target).main.tensors
    rest = tensors["flat"].encoding.scale / tensors["p"].encoding.scale
    factors = [scale * rest for scale in tensors["w"].encoding.scales]
    biases = [scale / tensors["flat"].encoding.scale for scale in tensors["b"].encoding.scales]
    assert biases == pytest.approx(tensors["w"].encoding.scales)
    if is_exact:
        rest = tensors["turned"].encoding.scale / tensors["y"].encoding.scale
        factors.append(tensors["s_8_bits"].encoding.scale * rest)
    assert all(bits_of(factor) <= 11 for factor in factors) is is_exact


def test_products_of_8_bits_stay(net):
    n = net(4, 8)
    model = n.done(n.op("FullyConnected", [n.x, n.weights("w", 8, 8)], (4, 8), "y"))
    found = [quantize(model, n.samples(2), target=target).main for target in ("sm8450", "sm8550")]
    assert found[0].tensors["w"].encoding == found[1].tensors["w"].encoding


@needs_htp
@pytest.mark.parametrize("soc", ["qcs6490", "sm8650"])
def test_channels_of_tiny_weights(net, soc):
    """A factor below 2^-24 makes HTP give the lowest value: such weights have larger scales."""
    n = net(1, 4, 4, 8)
    model = n.done(n.conv(n.x, 8, "y", bias=False))
    kernel = np.array(model.main.tensors["y_w"].numpy())
    kernel[..., ::2] *= 1e-6
    model.main.tensors["y_w"].data = ArrayData(kernel)
    (feeds,) = n.samples(1, seed=4)
    quantized = quantize(model, n.samples(4), act_bitwidth=16, target=soc)
    found = xdlc.run(quantized, feeds, runtime="htp", soc=soc)["y"]
    assert np.abs(found[..., ::2]).max() < 1e-2
