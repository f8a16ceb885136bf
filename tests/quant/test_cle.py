import numpy as np
import pytest

from tests.quant.conftest import window
from tests.support import accuracy
from xdlc.ir import f32, static, u32, u32s
from xdlc.quant import quantize
from xdlc.quant.equalization_chains import Shift, find_chains, rescale, shift
from xdlc.runtime.cpu import CpuSession

NO_PADS = u32s([[0, 0], [0, 0]])


def depthwise(n, x, name, bias=True):
    inputs = [x, n.weights(f"{name}_w", 3, 3, 1, x.shape[-1])]
    if bias:
        inputs.append(n.weights(f"{name}_b", x.shape[-1]))
    return n.op("DepthWiseConv2d", inputs, x.shape, name, **window(pad=1))


def grouped(n, x, cout, groups, name):
    weight = n.weights(f"{name}_w", 1, 1, x.shape[-1] // groups, cout)
    inputs = [x, weight, n.weights(f"{name}_b", cout)]
    shape = (*x.shape[:-1], cout)
    return n.op("Conv2d", inputs, shape, name, group=u32(groups), **window())


def sources(graph):
    return {chain.source.name: chain for chain in find_chains(graph, lambda op: True)}


def check_equal(n, model, *, count):
    """Rescale every chain at random; the results stay what they were."""
    chains = list(sources(model.main).values())
    assert len(chains) == count
    samples = n.samples(2)
    before = [CpuSession(model).run(sample) for sample in samples]
    for chain in chains:
        rescale(model.main, chain, np.exp(n.rng.uniform(-3, 3, chain.count)))
    model.main.verify()
    for sample, wanted in zip(samples, before, strict=True):
        found = CpuSession(model).run(sample)
        for name, array in wanted.items():
            np.testing.assert_allclose(found[name], array, rtol=2e-4, atol=2e-4 * np.abs(array).max())


@pytest.mark.parametrize("between", ["nothing", "Relu", "Prelu"])
def test_convolutions_and_depthwise(net, between):
    n = net(1, 8, 8, 4)

    def act(x):
        if between == "nothing":
            return x
        if between == "Relu":
            return n.neuron(x, 4, f"{x.name}_act")
        slopes = n.weights(f"{x.name}_slopes", x.shape[-1], scale=0.3)
        return n.op("Prelu", [x, slopes], x.shape, f"{x.name}_act")

    x = act(n.conv(n.x, 12, "a"))
    x = act(depthwise(n, x, "b", bias=False))
    x = act(grouped(n, x, 8, 4, "c"))
    x = act(n.conv(x, 6, "d", bias=False))
    check_equal(n, n.done(n.conv(x, 5, "y")), count=4)


def test_pools_views_and_fully_connected(net):
    n = net(1, 8, 8, 4)
    x = n.neuron(n.conv(n.x, 16, "a"), 4, "r")
    pair = static("f", np.full(2, 2, np.uint32))
    x = n.op("PoolMax2d", [x], (1, 4, 4, 16), "m", filter_size=pair, stride=pair, pad_amount=NO_PADS)
    four = static("f4", np.full(2, 4, np.uint32))
    x = n.op("PoolAvg2d", [x], (1, 1, 1, 16), "p", filter_size=four, stride=four, pad_amount=NO_PADS)
    x = n.reshape(x, (1, 16), "flat")
    x = n.op("FullyConnected", [x, n.weights("w", 6, 16), n.weights("b", 6)], (1, 6), "fc")
    x = n.op("FullyConnected", [x, n.weights("v", 3, 6)], (1, 3), "y")
    check_equal(n, n.done(x), count=2)


def test_a_pool_across_channels_ends_a_chain(net):
    n = net(1, 4, 4, 4)
    x = n.conv(n.x, 8, "a")
    x = n.op("Transpose", [x], (1, 8, 4, 4), "first", perm=static("p1", np.array([0, 3, 1, 2], np.uint32)))
    x = n.reshape(x, (1, 8, 4, 4, 1), "volume")
    filters = {
        "filter_size": static("f", np.array([3, 1, 1], np.uint32)),
        "stride": static("s3", np.ones(3, np.uint32)),
        "pad_amount": static("p3", np.array([[1, 1], [0, 0], [0, 0]], np.uint32)),
    }
    x = n.op("PoolMax3d", [x], x.shape, "pool", **filters)
    x = n.reshape(x, (1, 8, 4, 4), "image")
    x = n.op("Transpose", [x], (1, 4, 4, 8), "last", perm=static("p2", np.array([0, 2, 3, 1], np.uint32)))
    assert "a_op" not in sources(n.done(n.conv(x, 5, "y")).main)


def test_a_gate_is_scaled_on_one_side(net):
    n = net(1, 4, 4, 4)
    x = n.neuron(n.conv(n.x, 8, "a"), 4, "r")
    four = static("f4", np.full(2, 4, np.uint32))
    pooled = n.op("PoolAvg2d", [x], (1, 1, 1, 8), "p", filter_size=four, stride=four, pad_amount=NO_PADS)
    gate = n.neuron(n.conv(pooled, 8, "g", kernel=1), 6, "gate")
    check_equal(n, n.done(n.conv(n.binary(x, gate, 13, "m"), 3, "y")), count=1)


def test_a_square_is_left_alone(net):
    n = net(1, 4, 4, 4)
    x = n.conv(n.x, 8, "a")
    model = n.done(n.conv(n.binary(x, n.neuron(x, 4, "r"), 13, "square"), 3, "y"))
    assert not sources(model.main)


@pytest.mark.parametrize("operation", [0, 1, 3, 5, 6, 8])
def test_other_activations_end_a_chain(net, operation):
    n = net(1, 4, 4, 4)
    limits = {"min_value": 0.0, "max_value": 6.0} if operation == 5 else {}
    params = {key: f32(value) for key, value in limits.items()}
    model = n.done(n.conv(n.neuron(n.conv(n.x, 8, "a"), operation, "act", **params), 3, "y"))
    assert not sources(model.main)


def test_what_the_caller_or_an_addition_reads_is_left_alone(net):
    n = net(1, 4, 4, 4)
    x = n.conv(n.x, 4, "a")
    z = n.binary(x, n.x, 0, "z")
    out = n.conv(n.x, 4, "out")
    model = n.done(n.conv(z, 3, "y"), out, n.conv(out, 3, "y2"))
    assert not sources(model.main)


def test_weights_that_two_ops_read_stay(net):
    n = net(1, 4, 4, 4)
    first = n.conv(n.x, 4, "a", kernel=1, bias=False)
    weight = first.producer.inputs[1]
    second = n.op("Conv2d", [first, weight], first.shape, "y", **window())
    assert not sources(n.done(second).main)


def unequal(n, spread):
    """A network whose channels between two layers differ in range."""
    x = n.conv(n.x, 16, "a", kernel=1)
    op = x.producer
    factors = np.exp(np.linspace(0, spread, 16)).astype(np.float32)
    for index in (1, 2):
        tensor = op.inputs[index]
        tensor.data = tensor.data.transform(lambda array: array * factors)
    x = n.neuron(x, 4, "r")
    y = depthwise(n, x, "b", bias=False)
    weight = y.producer.inputs[1]
    weight.data = weight.data.transform(lambda array: array / factors)
    return n.done(n.conv(y, 4, "y", kernel=1))


def sqnr(model, samples, **options):
    real, rounded = CpuSession(model), CpuSession(quantize(model, samples, **options))
    return accuracy.sqnr(*([session.run(sample)["y"] for sample in samples] for session in (real, rounded)))


@pytest.mark.parametrize("bits", [4, 8])
def test_unequal_channels_gain(net, bits):
    n = net(1, 8, 8, 4)
    model, samples = unequal(n, 5.0), n.samples(8)
    plain = sqnr(model, samples, weights_bitwidth=bits)
    assert sqnr(model, samples, weights_bitwidth=bits, algorithms=["cle"]) > plain + (3 if bits == 8 else 0.5)


def notes_of(model, samples, **options):
    notes = []
    quantize(model, samples, notify=notes.append, **options)
    return notes


def test_what_would_hurt_is_refused(net, monkeypatch):
    """The model of noise promises much, the trial shows a loss: weights stay."""
    n = net(1, 8, 8, 4)
    model, samples = unequal(n, 0.0), n.samples(8)
    bad = np.exp(np.random.default_rng(3).uniform(-4, 4, 16))

    def promise(chain, *others):
        return bad, 20.0

    monkeypatch.setattr("xdlc.quant.equalization.best_factors", promise)
    before = quantize(model, samples)
    notes = notes_of(model, samples, algorithms=["cle"])
    assert any("did not improve" in note for note in notes)
    after = quantize(model, samples, algorithms=["cle"])
    stored = {tensor.name: tensor for tensor in before.main.tensors.values() if tensor.is_static}
    for tensor in after.main.tensors.values():
        if tensor.is_static and tensor.name in stored:
            np.testing.assert_array_equal(tensor.numpy(), stored[tensor.name].numpy())


def test_the_notes_say_what_was_done(net, monkeypatch):
    n = net(1, 8, 8, 4)
    notes = notes_of(unequal(n, 5.0), n.samples(4), algorithms=["cle"])
    (note,) = (note for note in notes if "chains" in note)
    assert not note.startswith("cle: rescaled 0 ")
    assert "SQNR" in note


def test_a_graph_without_chains(net, monkeypatch):
    n = net(1, 4, 4, 4)
    notes = notes_of(n.done(n.conv(n.x, 3, "y")), n.samples(1), algorithms=["cle"])
    assert notes[:1] == ["cle: no op has channels that xdlc can rescale"]


@pytest.mark.parametrize("between", ["nothing", "Relu"])
def test_constants_move_into_the_biases_behind(net, between):
    n = net(1, 6, 6, 4)
    first = n.conv(n.x, 8, "a")
    bias = first.producer.inputs[2]
    bias.data = bias.data.transform(lambda array: array + np.float32(100))
    x = first if between == "nothing" else n.neuron(first, 4, "r")
    model = n.done(grouped(n, x, 6, 2, "y"))
    (chain,) = sources(model.main).values()
    assert chain.shift is (Shift.ANY if between == "nothing" else Shift.BELOW)
    sample = n.samples(1)[0]
    before = CpuSession(model).run(sample)["y"]
    shift(model.main, chain, n.rng.uniform(20, 40, 8))
    np.testing.assert_allclose(CpuSession(model).run(sample)["y"], before, rtol=1e-4, atol=1e-3)


def test_no_constants_pass_padding_or_a_missing_bias(net):
    n = net(1, 6, 6, 4)
    x = n.conv(n.conv(n.x, 8, "a"), 8, "b")
    x = n.conv(x, 8, "c", kernel=1, bias=False)
    model = n.done(n.conv(x, 3, "y", kernel=1))
    assert [chain.shift for chain in sources(model.main).values()] == [Shift.NONE] * 3


def test_a_high_bias_is_absorbed(net, monkeypatch):
    n = net(1, 8, 8, 4)
    x = n.conv(n.x, 16, "a", kernel=1)
    bias = x.producer.inputs[2]
    bias.data = bias.data.transform(lambda array: array + np.float32(30))
    y = n.conv(n.neuron(x, 4, "r"), 4, "y", kernel=1)
    _, weight, centre = y.producer.inputs
    centre.data = centre.data.transform(lambda array: array - 30 * weight.numpy().sum(axis=(0, 1, 2)))
    model, samples = n.done(y), n.samples(8)
    plain, better = sqnr(model, samples), sqnr(model, samples, algorithms=["cle"])
    assert better > plain + 2
    notes = notes_of(model, samples, algorithms=["cle"])
    assert any("shifted after" in note for note in notes)
