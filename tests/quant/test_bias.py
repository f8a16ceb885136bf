from dataclasses import replace
from functools import reduce

import numpy as np
import pytest

from tests.quant.conftest import one_bias
from xdlc.ir import static, u32
from xdlc.quant import quantize
from xdlc.quant.calibration.statistics import ChannelMeans
from xdlc.quant.judge import OutputJudge, Score
from xdlc.runtime.cpu import CpuSession


@pytest.fixture
def mean_error(monkeypatch):
    """Return a function that quantizes and gives the largest channel error in steps."""

    def run(model, samples, *, corrected):
        monkeypatch.setattr(Score, "is_gain", lambda *scores, **options: corrected)
        stored = quantize(model, samples).main
        real, rounded = CpuSession(model.main, outputs=["y"]), CpuSession(stored, outputs=["y"])
        error = sum(rounded.run(s)["y"].astype(float) - real.run(s)["y"] for s in samples) / len(samples)
        channels = error.reshape(-1, error.shape[-1]).mean(axis=0)
        return np.abs(channels).max() / stored.tensors["y"].encoding.scale

    return run


def followed(n, y):
    """Return a model in which another layer reads y.

    A layer in front of an output keeps its bias.
    """
    if y.rank > 2:
        return n.done(n.conv(y, 4, "z", kernel=1))
    return n.done(
        n.op("FullyConnected", [y, n.weights("z_w", 4, y.shape[-1]), n.weights("z_b", 4)], (8, 4), "z")
    )


def positive(net, count):
    """Inputs as behind a Relu: their mean is far from zero."""
    for _ in range(count):
        yield {"x": np.abs(net.rng.standard_normal(net.x.shape)).astype(np.float32) + 1}


@pytest.mark.parametrize("groups", [1, 4, 16])
def test_the_mean_of_each_channel_stays(net, groups, mean_error):
    n = net(1, 12, 12, 16)
    weight = static("w", n.rng.standard_normal((3, 3, 16 // groups, 32)).astype(np.float32))
    bias = static("b", n.rng.standard_normal(32).astype(np.float32))
    pair = static("pair", np.array([2, 1], np.uint32))
    pads = static("pads", np.array([[1, 1], [0, 2]], np.uint32))
    kind = {"group": u32(groups)} if groups < 16 else {}
    type = "Conv2d" if groups < 16 else "DepthWiseConv2d"
    n.op(type, [n.x, weight, bias], (1, 6, 12, 32), "y", stride=pair, pad_amount=pads, **kind)
    model = followed(n, n.graph.tensors["y"])
    samples = list(positive(n, 8))
    corrected = mean_error(model, samples, corrected=True)
    assert corrected < 0.2 < mean_error(model, samples, corrected=False)


@pytest.mark.parametrize("stride", [1, 2])
def test_transposed(net, mean_error, stride):
    n = net(1, 8, 8, 16)
    weight, bias = n.weights("w", 3, 3, 16, 8), n.weights("b", 8)
    pair = static("pair", np.full(2, stride, np.uint32))
    pads = static("pads", np.array([[1, 0], [0, 1]], np.uint32))
    dim = 7 * stride + 3 - 1
    params = {"stride": pair, "pad_amount": pads, "group": u32(1)}
    model = followed(n, n.op("TransposeConv2d", [n.x, weight, bias], (1, dim, dim, 8), "y", **params))
    samples = list(positive(n, 8))
    corrected = mean_error(model, samples, corrected=True)
    assert corrected < 0.6 * mean_error(model, samples, corrected=False)


def test_fully_connected(net, mean_error):
    n = net(8, 64)
    weight, bias = n.weights("w", 10, 64), n.weights("b", 10)
    model = followed(n, n.op("FullyConnected", [n.x, weight, bias], (8, 10), "y"))
    samples = list(positive(n, 16))
    corrected = mean_error(model, samples, corrected=True)
    assert corrected < mean_error(model, samples, corrected=False)


def test_a_bias_that_two_ops_read_stays(net):
    n, model = one_bias(net)
    bias = n.graph.tensors["first_b"]
    stored = quantize(model, list(positive(n, 2))).main
    for op in stored.ops:
        kept = op.inputs[2]
        real = kept.numpy() * np.asarray(kept.encoding.scales)
        np.testing.assert_allclose(real, bias.numpy(), atol=max(kept.encoding.scales))


def two_layers(n):
    y = n.conv(n.neuron(n.conv(n.x, 16, "a"), 4, "r"), 4, "y")
    return n.done(n.neuron(y, 6, "scores"))


def stored_biases(model, samples, **options):
    lines = []
    stored = quantize(model, samples, notify=lines.append, **options).main
    biases = {op.inputs[1].name: op.inputs[2].numpy().tolist() for op in stored.ops if op.type == "Conv2d"}
    return biases, [line for line in lines if line.startswith("bias correction:")]


def test_layers_in_front_of_outputs_keep_their_biases_and_the_flag_turns_it_off(net, monkeypatch):
    n = net(1, 8, 8, 4)
    model, samples = two_layers(n), list(positive(n, 8))
    plain, notes = stored_biases(model, samples, bias_correction=False)
    assert not notes
    monkeypatch.setattr(Score, "is_gain", lambda *scores, **options: True)
    corrected, notes = stored_biases(model, samples)
    assert notes[0].startswith("bias correction: xdlc corrected 1 of 2 layers")
    assert corrected["y_w"] == plain["y_w"]
    assert corrected["a_w"] != plain["a_w"]


@pytest.mark.parametrize("keeps", [True, False])
def test_a_correction_that_gains_db_and_costs_the_task_is_refused(net, monkeypatch, keeps):
    n = net(1, 8, 8, 4)
    model, samples = two_layers(n), list(positive(n, 8))
    judged, count = OutputJudge.score, []

    def score(self, results):
        """Give each model more dB than the one before, and less of the task."""
        held = judged(self, results)
        count.append(held)
        verdicts = [replace(each, kept=1.0 - 0.1 * len(count) * (not keeps)) for each in held.verdicts]
        return Score(tuple(verdicts), np.full_like(held.db, 20.0 + len(count)))

    monkeypatch.setattr(OutputJudge, "score", score)
    plain, _ = stored_biases(model, samples, bias_correction=False, act_bitwidth=16)
    tried, notes = stored_biases(model, samples, act_bitwidth=16)
    assert (tried == plain) is not keeps
    assert ("corrected no bias" in notes[0]) is not keeps


def test_an_outlier_does_not_rule_the_mean_of_a_channel():
    means = [np.array([1.0, 5.0]) for _ in range(9)] + [np.array([1000.0, 5.2])]
    held = reduce(ChannelMeans.merge, map(ChannelMeans.of, means))
    np.testing.assert_allclose(held.clipped, [1.0, 5.02])
    few = reduce(ChannelMeans.merge, map(ChannelMeans.of, means[-3:]))
    np.testing.assert_allclose(few.clipped, [1002 / 3, 15.2 / 3])
