import numpy as np
import pytest

import xdlc
from tests.support.accuracy import sqnr
from tests.support.htp_models import needs_htp
from xdlc.ir import static
from xdlc.ir.data import ArrayData
from xdlc.ir.dtype import SFIXED8, SFIXED16, UFIXED16
from xdlc.quant import quantize

RELU = 4
WIDE = {"act_bitwidth": 16, "weights_bitwidth": 16}


def with_outliers(tensor, rng, count):
    """Make a few weights of a static tensor forty times as large as the others."""
    array = np.array(tensor.numpy())
    array.reshape(-1)[rng.choice(array.size, count, replace=False)] *= 40.0
    tensor.data = ArrayData(array)
    return tensor


def heavy(net):
    """Return a network of three layers whose weights have outliers."""
    n = net(1, 8, 8, 4)
    c = n.conv(n.x, 16, "c")
    r = n.neuron(c, RELU, "r")
    window = {key: value for key, value in c.producer.params.items() if key != "group"}
    d = n.op(
        "DepthWiseConv2d", [r, n.weights("d_w", 3, 3, 1, 16), n.weights("d_b", 16)], r.shape, "d", **window
    )
    flat = n.reshape(d, (64, 16), "flat")
    y = n.op("FullyConnected", [flat, n.weights("y_w", 8, 16), n.weights("y_b", 8)], (64, 8), "y")
    for name, count in (("c_w", 6), ("d_w", 4), ("y_w", 3)):
        with_outliers(n.graph.tensors[name], n.rng, count)
    return n, n.done(y)


def test_bytes_add_up_to_the_weights(net):
    n, model = heavy(net)
    graph = quantize(model, n.samples(4), target="qcs6490", **WIDE).main
    wide = quantize(model, n.samples(4), target="sm8650", **WIDE).main
    for name in ("c_w", "d_w", "y_w"):
        high, low, whole = graph.tensors[f"{name}_high"], graph.tensors[f"{name}_low"], wide.tensors[name]
        assert (high.dtype, low.dtype, whole.dtype) == (SFIXED8, SFIXED8, SFIXED16)
        scales = np.array(low.encoding.scales)
        np.testing.assert_allclose(high.encoding.scales, 256.0 * scales)
        axis = [-1 if index == low.encoding.axis else 1 for index in range(low.rank)]
        stored = (256.0 * high.numpy() + low.numpy()) * scales.reshape(axis)
        assert np.abs(stored - model.main.tensors[name].numpy()).max() <= 0.51 * scales.max()
    assert {op.type for op in graph.ops if op.name.endswith("_sum")} == {"ElementWiseBinary"}
    assert all(tensor.dtype is UFIXED16 for op in graph.ops for tensor in op.outputs)


def test_bias_and_input_are_read_by_the_high_bytes_and_the_low_ones(net):
    n, model = heavy(net)
    graph = quantize(model, n.samples(4), target="qcs6490", **WIDE).main
    ops = {op.name: op for op in graph.ops}
    assert len(ops["c_op"].inputs) == 3
    assert len(ops["c_op_low"].inputs) == 2
    assert ops["c_op"].inputs[0] is ops["c_op_low"].inputs[0]
    assert ops["c_op"].inputs[2].encoding.scales == pytest.approx(
        graph.tensors["x"].encoding.scale * np.array(graph.tensors["c_w_high"].encoding.scales)
    )


def test_old_generations_gain_what_wide_weights_gain(net):
    n, model = heavy(net)
    (feeds,) = n.samples(1, seed=5)
    expected = xdlc.run(model, feeds)["y"]
    made = [
        quantize(model, n.samples(8), target="qcs6490", act_bitwidth=16, weights_bitwidth=bits)
        for bits in (8, 16)
    ]
    narrow, wide = (sqnr(expected, xdlc.run(one, feeds)["y"]) for one in made)
    assert wide > narrow + 10.0


def test_the_user_sees_which_ops_compute_twice(net):
    n, model = heavy(net)
    notes = []
    quantize(model, n.samples(4), target="sm8450", notify=notes.append, **WIDE)
    assert any("'c_op', 'd_op', 'y_op'" in note and "doubles" in note for note in notes)
    single = quantize(
        model, n.samples(4), target="sm8450", act_bitwidth=16, weights_bitwidth_of={"y": 16}
    ).main
    assert [op.name for op in single.ops if op.name.endswith("_low")] == ["y_op_low"]


def test_a_saturated_half_saturates_the_sum(net):
    """A Relu makes 0 of values far below: no range has to hold them."""
    n = net(4, 8)
    c = n.op("FullyConnected", [n.x, n.weights("w", 8, 8), n.weights("b", 8)], (4, 8), "c")
    model = n.done(n.neuron(c, RELU, "y"))
    low = model.main.tensors["b"].numpy() - 100.0 * (np.arange(8) % 2)
    model.main.tensors["b"].data = ArrayData(low.astype(np.float32))
    (feeds,) = n.samples(1, seed=3)
    found = xdlc.run(quantize(model, n.samples(6), target="qcs6490", **WIDE), feeds)["y"]
    np.testing.assert_allclose(found, xdlc.run(model, feeds)["y"], atol=2e-3)


@needs_htp
@pytest.mark.parametrize("soc", ["qcs6490", "sm8650"])
def test_on_htp(net, soc):
    n, model = heavy(net)
    (feeds,) = n.samples(1, seed=5)
    expected = xdlc.run(model, feeds)["y"]
    narrow, wide = (
        xdlc.run(
            quantize(model, n.samples(8), target=soc, act_bitwidth=16, weights_bitwidth=bits),
            feeds,
            runtime="htp",
            soc=soc,
        )["y"]
        for bits in (8, 16)
    )
    assert sqnr(expected, wide) > sqnr(expected, narrow) + 10.0


@pytest.mark.parametrize(("stride", "least"), [(1, 2.0**-22), (2, 2.0**-14)])
def test_depthwise_convolutions_with_strides_have_large_factors(net, stride, least):
    n = net(1, 8, 8, 4)
    window = {
        "stride": static("s", np.full(2, stride, np.uint32)),
        "dilation": static("d", np.ones(2, np.uint32)),
        "pad_amount": static("p", np.uint32([[0 if stride == 2 else 1, 1], [0 if stride == 2 else 1, 1]])),
    }
    weight = with_outliers(n.weights("w", 3, 3, 1, 4), n.rng, 1)
    weights = [weight, n.weights("b", 4, scale=0.1)]
    shape = (1, 8 // stride, 8 // stride, 4)
    model = n.done(n.op("DepthWiseConv2d", [n.x, *weights], shape, "y", **window))
    graph = quantize(model, n.samples(2), target="qcs6490", **WIDE).main
    low = {op.name: op for op in graph.ops}["y_op_low"]
    rest = low.inputs[0].encoding.scale / low.outputs[0].encoding.scale
    assert min(low.inputs[1].encoding.scales) * rest >= 0.99 * least


def test_channels_of_tiny_weights_have_factors_that_htp_has(net):
    n = net(4, 8)
    model = n.done(n.op("FullyConnected", [n.x, n.weights("w", 8, 8), n.weights("b", 8)], (4, 8), "y"))
    weight = np.array(model.main.tensors["w"].numpy())
    weight[::2] *= 1e-5
    model.main.tensors["w"].data = ArrayData(weight)
    graph = quantize(model, n.samples(2), target="qcs6490", **WIDE).main
    low = {op.name: op for op in graph.ops}["y_op_low"]
    rest = low.inputs[0].encoding.scale / low.outputs[0].encoding.scale
    assert min(low.inputs[1].encoding.scales) * rest >= 2.0**-22.01
    biases = np.array(graph.tensors["b"].encoding.scales) / low.inputs[0].encoding.scale
    assert biases == pytest.approx(256.0 * np.array(low.inputs[1].encoding.scales))
