import numpy as np
import pytest

import xdlc
from tests.quant.conftest import decided_plan
from xdlc.ir.quantization import float_data
from xdlc.quant.algorithms import find_algorithms
from xdlc.quant.engine import Engine
from xdlc.runtime.cpu import CpuSession


def a_net(net):
    n = net(1, 8, 8, 3)
    a = n.neuron(n.conv(n.x, 8, "a"), 4, "ra")
    b = n.neuron(n.conv(a, 8, "b"), 4, "rb")
    c = n.binary(a, b, 0, "c")
    y = n.conv(c, 6, "y", kernel=1)
    for op in n.graph.ops:
        if op.type == "Conv2d":  # a few large weights and many small ones, as after training
            op.inputs[1].data = op.inputs[1].data.transform(lambda array: array**3)
    return n.done(y)


def a_net_and_samples(net):
    n = net(1, 8, 8, 3)
    return a_net(net), n.samples(16), n.samples(8, seed=2)


def noise(model, quantized, samples):
    exact, rounded = CpuSession(model), CpuSession(quantized)
    pairs = [(exact.run(sample)["y"], rounded.run(sample)["y"]) for sample in samples]
    return sum(((a - b) ** 2).sum() for a, b in pairs)


@pytest.mark.parametrize("algorithms", [["adaround"], ["seqmse"], ["seqmse", "adaround"]])
def test_weights_of_four_bits_lose_less(net, algorithms):
    model, samples, others = a_net_and_samples(net)
    options = {"weights_bitwidth": 4, "param_quantizer_calibration": "min-max"}
    plain = xdlc.quantize(model, samples, **options)
    better = xdlc.quantize(model, samples, algorithms=algorithms, **options)
    assert noise(model, better, others) < 0.9 * noise(model, plain, others)


def test_the_same_samples_give_the_same_model(net):
    model, samples, _ = a_net_and_samples(net)
    twice = [xdlc.quantize(model, samples, weights_bitwidth=4, algorithms=["adaround"]) for _ in range(2)]
    first, second = (
        [float_data(op.inputs[1]).numpy() for op in m.main.ops if op.type == "Conv2d"] for m in twice
    )
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_float_model_stays_as_it_was(net):
    model, samples, _ = a_net_and_samples(net)
    before = model.main.tensors["a_w"].numpy().copy()
    xdlc.quantize(model, samples, weights_bitwidth=4, algorithms=["adaround"])
    np.testing.assert_array_equal(model.main.tensors["a_w"].numpy(), before)


def run(model, samples, name, **options):
    options = {"weights_bitwidth": 4, **options}
    plan, calibration = decided_plan(model.clone(), samples, **options)
    (algorithm,) = find_algorithms([name])
    return algorithm.run(plan, calibration, Engine())


def test_weights_lie_on_the_grid_of_their_encoding_and_biases_follow(net):
    model, samples, _ = a_net_and_samples(net)
    plan = run(model, samples, "adaround")
    for (op, index), (_, encoding) in plan.decision.statics.items():
        if index == 1 and op.type == "Conv2d":
            steps = op.inputs[1].numpy().astype(np.float64) / np.float32(encoding.scales)
            np.testing.assert_allclose(steps, np.rint(steps), atol=1e-5)
            assert steps.min() >= -8.001
            assert steps.max() <= 7.001
            source = plan.decision.activations[op.inputs[0]][1].scale
            bias = plan.decision.statics[op, 2][1].scales
            np.testing.assert_allclose(bias, np.float64(encoding.scales) * source, rtol=1e-5)


def test_seqmse_leaves_weights_and_changes_scales(net):
    model, samples, _ = a_net_and_samples(net)
    plain = run(model, samples, "seqmse")
    names = [op.inputs[1].name for op in plain.graph.ops if (op, 1) in plain.decision.statics]
    for name in names:
        assert plain.graph.tensors[name].data is model.main.tensors[name].data
    scales = [form[1].scales for (op, index), form in plain.decision.statics.items() if index == 1]
    tops = [
        np.abs(op.inputs[1].numpy()).max(axis=(0, 1, 2) if op.type == "Conv2d" else 1) / 7
        for op, index in plain.decision.statics
        if index == 1
    ]
    factors = np.concatenate([np.divide(a, b) for a, b in zip(scales, tops, strict=True)])
    assert factors.max() <= 1.0001
    assert factors.min() >= 0.3999
    assert factors.mean() < 0.95


@pytest.mark.parametrize("name", ["adaround", "seqmse"])
def test_a_network_without_weights_is_told_so(net, name):
    n = net(1, 4)
    model = n.done(n.neuron(n.x, 4, "y"))
    plan = run(model, n.samples(4), name)
    assert plan.notes == (f"{name}: not applied, because no weights of the graph support it",)


def test_shared_weights_are_left_and_named(net):
    n = net(1, 4, 4, 3)
    a = n.conv(n.x, 3, "a", bias=False)
    b = n.conv(a, 3, "b", bias=False)
    n.graph.set_inputs(b.producer, [a, a.producer.inputs[1]])
    plan = run(n.done(b), n.samples(4), "adaround")
    assert "adaround: 'a_op' keeps its rounding: other ops share its weight" in plan.notes


def test_eight_bit_weights_keep_their_scales(net):
    model, samples, _ = a_net_and_samples(net)
    plan = run(model, samples, "adaround", weights_bitwidth=8)
    plain, _ = decided_plan(model.clone(), samples, weights_bitwidth=8)
    kept = [form for (op, index), form in plain.decision.statics.items() if index == 1]
    assert [form for (op, index), form in plan.decision.statics.items() if index == 1] == kept


@pytest.mark.parametrize("algorithm", ["adaround", "seqmse"])
@pytest.mark.parametrize("kind", ["FullyConnected", "Conv2d"])
@pytest.mark.parametrize("expands", [True, False])
def test_weights_in_blocks_lose_less(net, kind, expands, algorithm):
    n = net(1, 4, 8, 64)
    x = n.x
    if kind == "Conv2d":
        y = n.conv(n.neuron(n.conv(x, 64, "a", kernel=1, bias=False), 4, "b"), 32, "y", kernel=1, bias=False)
    else:
        weights = [n.weights("a_w", 64, 64), n.weights("y_w", 32, 64)]
        middle = n.op("FullyConnected", [n.reshape(x, (32, 64), "rows"), weights[0]], (32, 64), "a")
        y = n.op("FullyConnected", [n.neuron(middle, 4, "b"), weights[1]], (32, 32), "y")
    model = n.done(y)
    mixed = n.rng.standard_normal((64, 64)) * np.linspace(0.05, 2, 64)
    samples = [{"x": (sample["x"] @ mixed).astype(np.float32)} for sample in n.samples(24)]
    options = {
        "weights_bitwidth": 4,
        "act_bitwidth": 16,
        "weights_block_size": 16,
        "use_lpbq": expands,
        "param_quantizer_calibration": "min-max",
    }
    plain = xdlc.quantize(model, samples[:16], **options)
    better = xdlc.quantize(model, samples[:16], algorithms=algorithm, **options)
    assert noise(model, better, samples[16:]) < 0.9 * noise(model, plain, samples[16:])
    for tensor in better.main.tensors.values():
        if tensor.is_static and tensor.encoding is not None and tensor.size > 1000:
            assert set(np.unique(tensor.numpy())) <= set(range(-8, 8))
