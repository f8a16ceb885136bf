import math

import numpy as np
import pytest

import xdlc
from tests.quant.conftest import window
from tests.support.htp_models import needs_htp
from xdlc.ir import AxisScaleOffset, BlockScaleOffset, ScaleOffset, f32, static
from xdlc.ir.data import ArrayData
from xdlc.quant import quantize
from xdlc.quant.multipliers import exact, least_before

RELU, RELU_MIN_MAX, SIGMOID = 4, 5, 6


def bits_of(factor):
    """Return the number of significant bits of a factor, float32 errors aside."""
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
@pytest.mark.parametrize(("soc", "bits"), [("qcs6490", 8), ("sm8650", 8), ("sm8650", 16)])
def test_channels_of_tiny_weights(net, soc, bits):
    """HTP returns the lowest value for a factor below 2^-24: scales are larger.

    With 16-bit weights the limit is 2^-32.
    """
    n = net(1, 4, 4, 8)
    model = n.done(n.conv(n.x, 8, "y", bias=False))
    kernel = np.array(model.main.tensors["y_w"].numpy())
    kernel[..., ::2] *= 1e-6
    model.main.tensors["y_w"].data = ArrayData(kernel)
    (feeds,) = n.samples(1, seed=4)
    quantized = quantize(model, n.samples(4), act_bitwidth=16, weights_bitwidth=bits, target=soc)
    found = xdlc.run(quantized, feeds, runtime="htp", soc=soc)["y"]
    assert np.abs(found[..., ::2]).max() < 1e-2


@needs_htp
@pytest.mark.parametrize("soc", ["qcs6490", "sm8550", "sm8650", "sm8750"])
def test_channels_of_tiny_weights_before_prelu(net, soc):
    """HTP fuses both: a tiny factor and a small slope made other numbers."""
    n = net(1, 4, 4, 8)
    product = n.conv(n.x, 8, "p")
    slopes = np.full(8, 0.5, np.float32)
    slopes[::2] = -0.002
    slopes[1] = -1.0
    model = n.done(n.op("Prelu", [product, static("slopes", slopes)], product.shape, "y"))
    kernel, bias = (np.array(model.main.tensors[name].numpy()) for name in ("p_w", "p_b"))
    kernel[..., ::2] *= 1e-6
    bias[::2] = -0.01
    model.main.tensors["p_w"].data, model.main.tensors["p_b"].data = ArrayData(kernel), ArrayData(bias)
    (feeds,) = n.samples(1, seed=4)
    quantized = quantize(model, n.samples(4), act_bitwidth=16, target=soc)
    device = xdlc.run(quantized, feeds, runtime="htp", soc=soc)["y"]
    assert np.abs(device - xdlc.run(quantized, feeds)["y"])[..., ::2].max() < 1e-3


@needs_htp
@pytest.mark.parametrize("soc", ["qcs6490", "sm8550", "sm8650", "sm8750"])
def test_strided_depthwise_convolutions_of_unlike_channels(net, soc):
    """HTP shifts all sums to the least factor, so that large results overflowed."""
    n = net(1, 8, 8, 8)
    weights, bias = n.weights("w", 3, 3, 1, 8, scale=30.0), n.weights("b", 8)
    kernel = np.array(weights.numpy())
    kernel[..., ::2] *= 1e-4
    weights.data = ArrayData(kernel)
    product = n.op("DepthWiseConv2d", [n.x, weights, bias], (1, 4, 4, 8), "p", **window(stride=2, pad=1))
    model = n.done(n.neuron(product, RELU_MIN_MAX, "y", min_value=f32(0.0), max_value=f32(6.0)))
    (feeds,) = n.samples(1, seed=4, scale=3.0)
    quantized = quantize(model, n.samples(4, scale=3.0), act_bitwidth=16, target=soc)
    device = xdlc.run(quantized, feeds, runtime="htp", soc=soc)["y"]
    assert np.abs(xdlc.run(quantized, feeds)["y"] - device).max() < 1e-2


@needs_htp
@pytest.mark.parametrize("soc", ["qcs6490", "sm8550", "sm8650", "sm8750"])
@pytest.mark.parametrize("branches", [0, 1, 2])
def test_prelu_of_16_bits(net, soc, branches):
    """HTP has a kernel with 16-bit slopes only where it fuses a product alone.

    So there is such a product in any case.
    """
    n = net(1, 4, 4, 8)
    source = n.conv(n.x, 8, "p") if branches else n.x
    slopes = static("slopes", np.linspace(-0.3, 0.9, 8, dtype=np.float32))
    result = n.op("Prelu", [source, slopes], source.shape, "y")
    other = [n.neuron(source, SIGMOID, "z")] if branches == 2 else []
    notes = []
    quantized = quantize(
        n.done(result, *other), n.samples(4), act_bitwidth=16, target=soc, notify=notes.append
    )
    assert quantized.main.tensors["slopes"].dtype.bits == 16
    kinds = [op.type for op in quantized.main.ops]
    assert kinds.count("DepthWiseConv2d") == (branches != 1)
    assert sum("Prelu" in note for note in notes) == (branches != 1)
    (feeds,) = n.samples(1, seed=4)
    device = xdlc.run(quantized, feeds, runtime="htp", soc=soc)["y"]
    host = xdlc.run(quantized, feeds)["y"]
    assert np.abs(host - device).max() < 3e-4 * np.abs(host).max()


def test_slopes_with_no_room_for_a_product_have_8_bits(net):
    """HTP compiles these alone."""
    n = net(1, 4, 4, 1)
    slopes = static("slopes", np.linspace(-0.3, 0.9, 16, dtype=np.float32).reshape(4, 4, 1))
    model = n.done(n.op("Prelu", [n.x, slopes], n.x.shape, "y"))
    quantized = quantize(model, n.samples(2), act_bitwidth=16).main
    assert quantized.tensors["slopes"].dtype.bits == 8
    assert [op.type for op in quantized.ops] == ["Prelu"]


def test_the_least_factor_before_a_prelu_is_that_of_its_slopes(net):
    n = net(1, 4, 4, 4)
    slopes = static("slopes", np.float32([[[1.0, -0.25, 1e-3, 0.0]], [[-1.0, 0.5, 1.0, 0.0]]]))
    prelu = n.op("Prelu", [n.x, slopes], (1, 4, 4, 4), "y").producer
    least = least_before(prelu, ScaleOffset(0.5), ScaleOffset(0.25))
    assert least == pytest.approx([2.0**-23, 2.0**-21, 2.0**-17, 0.0])


def test_channels_beyond_32_keep_their_scales(net):
    """Sums of 32 channels are shifted alike: a large one costs the others nothing."""
    n = net(1, 8, 8, 64)
    weights = n.weights("w", 3, 3, 1, 64)
    kernel = np.array(weights.numpy())
    kernel[..., 0] *= 1e4
    weights.data = ArrayData(kernel)
    product = n.op("DepthWiseConv2d", [n.x, weights], (1, 4, 4, 64), "p", **window(stride=2, pad=1))
    model = n.done(n.neuron(product, RELU_MIN_MAX, "y", min_value=f32(0.0), max_value=f32(6.0)))
    scales = np.array(quantize(model, n.samples(2), act_bitwidth=16).main.tensors["w"].encoding.scales)
    own = np.abs(kernel).max(axis=(0, 1, 2)) / 127
    assert scales[32:] == pytest.approx(own[32:], rel=1e-5)
    assert (scales[1:32] > 2 * own[1:32]).all()
