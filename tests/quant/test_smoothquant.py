import numpy as np
import pytest

from xdlc.ir import f32, static
from xdlc.quant import quantize
from xdlc.quant.equalization_chains import find_chains, rescale
from xdlc.runtime.cpu import CpuSession


def norm(n, x, name, type="LayerNorm", gamma=None):
    count = x.shape[-1]
    gamma = n.weights(f"{name}_g", count) if gamma is None else static(f"{name}_g", gamma)
    axes = static("axes", np.uint32([len(x.shape) - 1]))
    return n.op(type, [x, gamma, n.weights(f"{name}_b", count)], x.shape, name, axes=axes, epsilon=f32(1e-5))


def linear(n, x, units, name):
    inputs = [x, n.weights(f"{name}_w", units, x.shape[-1]), n.weights(f"{name}_b", units)]
    return n.op("FullyConnected", inputs, (x.size // x.shape[-1], units), name)


def transpose(n, x, order, name):
    shape = tuple(x.shape[axis] for axis in order)
    return n.op("Transpose", [x], shape, name, perm=static("perm", np.uint32(order)))


def attention(n, gamma=None):
    """Build an attention layer: 6 tokens of 8 channels in 2 heads.

    A product lies between the values and the weights after them.
    """
    x = norm(n, n.x, "norm", gamma=gamma)
    heads = [n.reshape(linear(n, x, 8, key), (1, 6, 2, 4), f"{key}_heads") for key in "qkv"]
    q = transpose(n, heads[0], (0, 2, 1, 3), "q_t")
    k = transpose(n, heads[1], (0, 2, 3, 1), "k_t")
    v = transpose(n, heads[2], (0, 2, 1, 3), "v_t")
    chances = n.op("Softmax", [n.op("MatMul", [q, k], (1, 2, 6, 6), "qk")], (1, 2, 6, 6), "p")
    mixed = transpose(n, n.op("MatMul", [chances, v], (1, 2, 6, 4), "pv"), (0, 2, 1, 3), "mixed")
    return n.done(linear(n, n.reshape(mixed, (1, 6, 8), "joined"), 8, "y"))


def check_equal(n, model, names):
    chains = find_chains(model.main, lambda op: True)
    assert [chain.source.name for chain in chains] == names
    samples = n.samples(2)
    before = [CpuSession(model).run(sample)["y"] for sample in samples]
    for chain in chains:
        rescale(model.main, chain, np.exp(n.rng.uniform(-3, 3, chain.count)))
    for sample, wanted in zip(samples, before, strict=True):
        found = CpuSession(model).run(sample)["y"]
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4 * np.abs(wanted).max())


def test_a_norm_and_values_of_attention(net):
    n = net(1, 6, 8)
    check_equal(n, attention(n), ["norm_op", "v_op"])


@pytest.mark.parametrize("type", ["LayerNorm", "RmsNorm"])
def test_norms_before_layers(net, type):
    n = net(4, 8)
    x = norm(n, n.x, "norm", type)
    x = n.neuron(linear(n, x, 16, "a"), 4, "r")
    check_equal(n, n.done(linear(n, x, 3, "y")), ["norm_op", "a_op"])


def test_a_norm_that_a_residual_reads_stays(net):
    n = net(4, 8)
    x = norm(n, n.x, "norm")
    model = n.done(n.binary(linear(n, x, 8, "a"), x, 0, "y"))
    assert not find_chains(model.main, lambda op: True)


def error(model, samples, **options):
    rounded, real = CpuSession(quantize(model, samples, **options).main), CpuSession(model.main)
    return sum(((rounded.run(s)["y"] - real.run(s)["y"]) ** 2).mean() for s in samples)


def test_channels_that_stand_out_gain(net):
    n = net(64, 16)
    gamma = np.ones(16, np.float32)
    gamma[3] = 60.0
    x = norm(n, n.x, "norm", gamma=gamma)
    weight = n.weights("w", 8, 16)
    weight.data = weight.data.transform(lambda array: array / gamma)
    model = n.done(n.op("FullyConnected", [x, weight, n.weights("b", 8)], (64, 8), "y"))
    samples = n.samples(8)
    assert error(model, samples, algorithms=["smoothquant"]) < error(model, samples) / 3


def test_what_would_hurt_is_refused(net, monkeypatch):
    n = net(64, 16)
    model = n.done(linear(n, norm(n, n.x, "norm"), 8, "y"))
    samples = n.samples(8)
    bad = np.exp(np.random.default_rng(3).uniform(-4, 4, 16))
    monkeypatch.setattr("xdlc.quant.equalization.best_factors", lambda *given: (bad, 20.0))
    assert error(model, samples, algorithms=["smoothquant"]) == error(model, samples)
