import numpy as np
import pytest

from xdlc.ir import static, u32
from xdlc.quant import quantize
from xdlc.runtime.cpu import CpuSession


def mean_error(model, samples):
    samples = list(samples)
    real, rounded = CpuSession(model.main), CpuSession(quantize(model, samples).main)
    error = sum(rounded.run(s)["y"].astype(float) - real.run(s)["y"] for s in samples) / len(samples)
    channels = error.reshape(-1, error.shape[-1]).mean(axis=0)
    return np.abs(channels).max() / rounded.graph.outputs[0].encoding.scale


def positive(net, count):
    """Inputs as behind a Relu: their mean is far from zero."""
    for _ in range(count):
        yield {"x": np.abs(net.rng.standard_normal(net.x.shape)).astype(np.float32) + 1}


@pytest.mark.parametrize("groups", [1, 4, 16])
def test_the_mean_of_each_channel_stays(net, groups, monkeypatch):
    n = net(1, 12, 12, 16)
    weight = static("w", n.rng.standard_normal((3, 3, 16 // groups, 32)).astype(np.float32))
    bias = static("b", n.rng.standard_normal(32).astype(np.float32))
    pair = static("pair", np.array([2, 1], np.uint32))
    pads = static("pads", np.array([[1, 1], [0, 2]], np.uint32))
    kind = {"group": u32(groups)} if groups < 16 else {}
    type = "Conv2d" if groups < 16 else "DepthWiseConv2d"
    n.op(type, [n.x, weight, bias], (1, 6, 12, 32), "y", stride=pair, pad_amount=pads, **kind)
    model = n.done(n.graph.tensors["y"])
    samples = list(positive(n, 8))
    corrected = mean_error(model, samples)
    monkeypatch.setattr("xdlc.quant.plan.correct_biases", lambda *given: None)
    assert corrected < 0.2 < mean_error(model, samples)


@pytest.mark.parametrize("stride", [1, 2])
def test_transposed(net, monkeypatch, stride):
    n = net(1, 8, 8, 16)
    weight, bias = n.weights("w", 3, 3, 16, 8), n.weights("b", 8)
    pair = static("pair", np.full(2, stride, np.uint32))
    pads = static("pads", np.array([[1, 0], [0, 1]], np.uint32))
    dim = 7 * stride + 3 - 1
    params = {"stride": pair, "pad_amount": pads, "group": u32(1)}
    model = n.done(n.op("TransposeConv2d", [n.x, weight, bias], (1, dim, dim, 8), "y", **params))
    samples = list(positive(n, 8))
    corrected = mean_error(model, samples)
    monkeypatch.setattr("xdlc.quant.plan.correct_biases", lambda *given: None)
    assert corrected < 0.6 * mean_error(model, samples)


def test_fully_connected(net, monkeypatch):
    n = net(8, 64)
    weight, bias = n.weights("w", 10, 64), n.weights("b", 10)
    model = n.done(n.op("FullyConnected", [n.x, weight, bias], (8, 10), "y"))
    samples = list(positive(n, 16))
    corrected = mean_error(model, samples)
    monkeypatch.setattr("xdlc.quant.plan.correct_biases", lambda *given: None)
    assert corrected < mean_error(model, samples)


def test_a_bias_that_two_ops_read_stays(net):
    n = net(1, 8, 8, 4)
    weight, bias = n.weights("w", 1, 1, 4, 4), n.weights("b", 4)
    params = {
        "stride": static("s", np.ones(2, np.uint32)),
        "pad_amount": static("p", np.zeros((2, 2), np.uint32)),
    }
    first = n.op("Conv2d", [n.x, weight, bias], n.x.shape, "first", **params)
    second = n.op("Conv2d", [first, n.weights("v", 1, 1, 4, 4), bias], n.x.shape, "y", **params)
    model = n.done(second)
    stored = quantize(model, list(positive(n, 2))).main
    for op in stored.ops:
        kept = op.inputs[2]
        real = kept.numpy() * np.asarray(kept.encoding.scales)
        np.testing.assert_allclose(real, bias.numpy(), atol=max(kept.encoding.scales))
