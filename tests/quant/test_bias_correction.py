import numpy as np

from tests.quant.conftest import one_bias
from xdlc.quant import quantize
from xdlc.runtime.cpu import CpuSession


def notes_of(model, samples, **options):
    notes = []
    return notes, quantize(model, samples, notify=notes.append, **options)


def error(model, rounded, samples):
    real, found = CpuSession(model), CpuSession(rounded)
    return sum(float(((found.run(s)["y"] - real.run(s)["y"]) ** 2).mean()) for s in samples)


def clipped(n):
    """A network whose first activation is clipped, which shifts later means."""
    x = n.neuron(n.conv(n.x, 16, "a"), 4, "r")
    return n.done(n.conv(n.neuron(n.conv(x, 16, "b"), 4, "s"), 8, "y"))


def test_the_quantized_network_comes_closer(net, monkeypatch):
    n = net(1, 8, 8, 8)
    model, samples = clipped(n), n.samples(24)
    options = {"weights_bitwidth": 4, "act_quantizer_calibration": "percentile"}
    options["percentile_calibration_value"] = 97.0
    notes, better = notes_of(model, samples, algorithms=["bias_correction"], **options)
    assert any("corrected" in note and "biases" in note for note in notes)
    fresh = n.samples(16, seed=7)
    plain = quantize(model, samples, **options)
    assert error(model, better, fresh) < 0.98 * error(model, plain, fresh)


def test_what_would_hurt_is_refused(net, monkeypatch):
    n = net(1, 8, 8, 8)
    model, samples = clipped(n), n.samples(8)
    plain = quantize(model, samples)
    monkeypatch.setattr(
        "xdlc.quant.algorithms.bias_correction._certain", lambda errors: np.full(errors.shape[1], 5.0)
    )
    notes, after = notes_of(model, samples, algorithms=["bias_correction"])
    assert "bias_correction: xdlc dropped the corrections, because the outputs did not improve" in notes
    for name in ("a_b", "b_b", "y_b"):
        np.testing.assert_array_equal(after.main.tensors[name].numpy(), plain.main.tensors[name].numpy())


def test_one_sample_is_enough(net):
    n = net(1, 8, 8, 8)
    quantize(clipped(n), n.samples(1), algorithms=["bias_correction"])


def test_chance_is_no_correction():
    from xdlc.quant.algorithms.bias_correction import _certain

    rng = np.random.default_rng(0)
    noise = rng.standard_normal((16, 200))
    assert np.abs(_certain(noise)).mean() < 0.6 * np.abs(noise.mean(axis=0)).mean()
    np.testing.assert_allclose(_certain(noise * 1e-3 + 1), 1, atol=2e-3)
    np.testing.assert_array_equal(_certain(np.zeros((3, 2))), 0)


def test_a_graph_without_biases(net, monkeypatch):
    n = net(1, 4, 4, 4)
    model = n.done(n.conv(n.x, 3, "y", bias=False))
    notes, _ = notes_of(model, n.samples(1), algorithms=["bias_correction"])
    assert "bias_correction: no op has a bias that xdlc can correct" in notes


def test_a_bias_of_two_ops_stays(net):
    n, model = one_bias(net)
    samples = n.samples(2)
    plain, same = (quantize(model, samples, algorithms=a) for a in ([], ["bias_correction"]))
    for sample in samples:
        np.testing.assert_array_equal(CpuSession(plain).run(sample)["y"], CpuSession(same).run(sample)["y"])
