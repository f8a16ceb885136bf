import numpy as np
import pytest

from tests.support.accuracy import sqnr
from tests.support.control_flow_models import if_model
from tests.support.running import run
from xdlc.errors import ModelError, UsageError, XdlcError
from xdlc.ir import ArrayData, AxisScaleOffset, Model, ScaleOffset, Tensor, Transform, static, to_text, u32
from xdlc.ir.dtype import FLOAT32, INT32, SFIXED8, SFIXED16, SFIXED32, UFIXED8, UFIXED16
from xdlc.ir.quantization import float_data
from xdlc.opdefs.control_flow_rules import verify_control_flow
from xdlc.quant import quantize
from xdlc.runtime.cpu import CpuSession

RELU, SIGMOID, TANH = 4, 6, 8
ADD, DIVIDE, MULTIPLY = 0, 2, 13


def classifier(net):
    n = net(1, 8, 8, 3)
    relu = n.neuron(n.conv(n.x, 8, "c1"), RELU, "r1")
    y = n.mean(n.conv(relu, 4, "c2"), "y")
    return n, n.done(y)


def both(model, quantized, feeds):
    one, two = CpuSession(model.main), CpuSession(quantized.main)
    pairs = [(one.run(feed), two.run(feed)) for feed in feeds]
    return [
        tuple(np.concatenate([p[i][name].ravel() for p in pairs]) for i in (0, 1)) for name in pairs[0][0]
    ]


@pytest.mark.parametrize(
    ("options", "least"),
    [
        ({}, 25),
        ({"use_per_channel_quantization": False}, 25),
        ({"bias_bitwidth": 8, "use_per_channel_quantization": False}, 25),
        ({"weights_bitwidth": 4}, 10),
        ({"act_bitwidth": 16}, 30),
        ({"act_bitwidth": 16, "weights_bitwidth": 16}, 60),
    ],
)
def test_close_to_float(net, options, least):
    n, model = classifier(net)
    quantized = quantize(model, iter(n.samples(8)), **options)
    ((wanted, found),) = both(model, quantized, n.samples(8, seed=2))
    assert sqnr(wanted, found) > least


def test_stored_types(net):
    n, model = classifier(net)
    before = to_text(model.main)
    tensors = quantize(model, n.samples(2)).main.tensors
    assert to_text(model.main) == before
    assert {tensors[name].dtype for name in ("x", "c1", "r1", "c2", "y")} == {UFIXED8}
    assert tensors["c1_w"].dtype == SFIXED8
    assert isinstance(tensors["c1_w"].encoding, AxisScaleOffset)
    assert tensors["c1_w"].encoding.axis == 3
    assert isinstance(tensors["c1_w"].data, Transform)
    bias, scale = tensors["c1_b"], tensors["x"].encoding.scale
    assert bias.dtype == SFIXED32
    assert bias.encoding == AxisScaleOffset(0, tuple(scale * s for s in tensors["c1_w"].encoding.scales))


def test_wide_types(net):
    n, model = classifier(net)
    tensors = quantize(model, n.samples(2), act_bitwidth=16, weights_bitwidth=16).main.tensors
    assert tensors["y"].dtype == UFIXED16
    assert tensors["c1_w"].dtype == SFIXED16
    tensors = quantize(model, n.samples(2), weights_bitwidth=4).main.tensors
    assert tensors["c1_w"].encoding.bits == 4
    assert np.abs(tensors["c1_w"].numpy()).max() in (7, 8)


def test_same_in_same_out(net):
    n, model = classifier(net)
    one, two = (quantize(model, n.samples(4)) for _ in range(2))
    assert to_text(one.main) == to_text(two.main)


def test_a_producer_that_others_read_keeps_its_own_range(net):
    n = net(1, 4, 4, 3)
    conv = n.conv(n.x, 4, "c")
    model = n.done(n.binary(n.neuron(conv, RELU, "r"), conv, ADD, "y"))
    tensors = quantize(model, n.samples(2)).main.tensors
    assert tensors["c"].encoding.offset < 0
    assert tensors["r"].encoding.offset == 0


def test_ops_that_move_values_share_one_encoding(net):
    n = net(1, 4, 4, 4)
    conv = n.conv(n.x, 4, "c")
    model = n.done(n.reshape(conv, (1, 16, 4), "y"))
    tensors = quantize(model, n.samples(2)).main.tensors
    assert tensors["y"].encoding == tensors["c"].encoding


def test_concat_shares_where_ranges_agree_or_nobody_else_reads(net):
    n = net(1, 4, 4, 4)
    one, two = n.conv(n.x, 4, "one"), n.conv(n.x, 4, "two")
    small = n.binary(n.conv(n.x, 4, "three"), static("f", np.float32([0.05])), MULTIPLY, "small")
    joined = n.concat([one, two, small], "joined")
    model = n.done(n.conv(joined, 2, "layer"), n.mean(small, "mean"))
    tensors = quantize(model, n.samples(2)).main.tensors
    assert tensors["one"].encoding == tensors["two"].encoding == tensors["joined"].encoding
    assert tensors["small"].encoding.scale < tensors["joined"].encoding.scale / 10


@pytest.mark.parametrize(
    ("operation", "expected"), [(SIGMOID, ScaleOffset(1 / 256)), (TANH, ScaleOffset(1 / 128, -128))]
)
def test_fixed_ranges(net, operation, expected):
    n = net(1, 4)
    model = n.done(n.neuron(n.x, operation, "y"))
    assert quantize(model, n.samples(2)).main.tensors["y"].encoding == expected


def test_a_sigmoid_cuts_what_it_cannot_tell_apart(net):
    n = net(1, 4, 4, 3)
    model = n.done(n.neuron(n.conv(n.x, 4, "c"), SIGMOID, "y"))
    encoding = quantize(model, n.samples(2, scale=100.0)).main.tensors["c"].encoding
    assert 255 * encoding.scale == pytest.approx(2 * np.log(2560), rel=1e-3)


def test_silu_keeps_the_positive_side(net):
    n = net(1, 4, 4, 3)
    conv = n.conv(n.x, 4, "c")
    model = n.done(n.binary(conv, n.neuron(conv, SIGMOID, "s"), MULTIPLY, "y"))
    quantized = quantize(model, n.samples(4, scale=100.0))
    encoding = quantized.main.tensors["c"].encoding
    assert -12 < encoding.offset * encoding.scale < -9
    ((wanted, found),) = both(model, quantized, n.samples(4, scale=100.0))
    assert sqnr(wanted, found) > 30


def test_float_ops_stay_between_dequantize_and_quantize(net):
    n = net(1, 4, 4, 3)
    conv = n.conv(n.x, 4, "c")
    erf = n.op("Erf", [conv], conv.shape, "e", package="xdlc")
    moved = n.reshape(erf, (1, 16, 4), "m")
    model = n.done(n.binary(moved, moved, ADD, "y"))
    quantized = quantize(model, n.samples(4))
    quantized.main.verify()
    assert [op.type for op in quantized.main.ops] == [
        "Conv2d",
        "Dequantize",
        "Erf",
        "Reshape",
        "Quantize",
        "ElementWiseBinary",
    ]
    assert quantized.main.tensors["m"].dtype == FLOAT32
    inserted = [op for op in quantized.main.ops if op.type in ("Quantize", "Dequantize")]
    assert all("stays float" in op.origin.reason for op in inserted)
    ((wanted, found),) = both(model, quantized, n.samples(4, seed=3))
    assert sqnr(wanted, found) > 25


@pytest.mark.parametrize("value", [-np.inf, np.nan, -3.4e38])
def test_constants_that_stand_for_infinity_keep_their_op_float(net, value):
    n = net(1, 4)
    constant = static("mask", np.float32([0, 0, 0, value]))
    model = n.done(n.neuron(n.binary(n.x, constant, ADD, "masked"), RELU, "y"))
    if np.isinf(value) or np.isnan(value):
        with pytest.raises(ModelError, match="masked" if np.isinf(value) else "weight 'mask' holds NaN"):
            quantize(model, n.samples(1))
    else:
        quantized = quantize(model, n.samples(1))
        assert quantized.main.tensors["mask"].dtype == FLOAT32


def test_integers_stay(net):
    n = net(1, 6, 4)
    out = Tensor("y", (1, 2, 4), FLOAT32)
    from xdlc.ir import i32, make_op

    indices = static("i", np.int32([5, 0]))
    n.graph.append(make_op(n.graph, "Gather", [n.x, indices], [out], {"axis": i32(1)}, name="g"))
    tensors = quantize(n.done(out), n.samples(1)).main.tensors
    assert tensors["i"].dtype == INT32
    assert tensors["y"].encoding == tensors["x"].encoding


def test_shared_weights_and_constants_get_a_tensor_for_each_form(net):
    n = net(1, 4, 4, 4)
    bias = n.weights("b", 4)
    weight = n.weights("w", 1, 1, 4, 4)
    convs = []
    for name, source in (("c1", n.x), ("c2", n.binary(n.x, n.x, ADD, "d"))):
        conv = n.conv(source, 4, name, kernel=1)
        n.graph.set_inputs(conv.producer, [source, weight, bias])
        convs.append(conv)
    model = n.done(n.binary(*convs, ADD, "y"))
    quantized = quantize(model, n.samples(4))
    first, second = (op for op in quantized.main.ops if op.type == "Conv2d")
    assert first.inputs[1] is second.inputs[1]
    assert first.inputs[2] is not second.inputs[2]
    for op in (first, second):
        step = max(op.inputs[2].encoding.scales)
        np.testing.assert_allclose(float_data(op.inputs[2]).numpy(), bias.numpy(), atol=step / 2)


def test_encodings_that_exist_are_kept(net):
    n, model = classifier(net)
    n.graph.tensors["x"].encoding = ScaleOffset(0.1, -100)
    n.graph.tensors["c1_w"].encoding = ScaleOffset(0.5)
    tensors = quantize(model, n.samples(2)).main.tensors
    assert tensors["x"].encoding == ScaleOffset(0.1, -100)
    assert tensors["c1_w"].encoding == ScaleOffset(0.5)
    assert tensors["c1_b"].encoding == ScaleOffset(0.1 * 0.5)


def test_caches_and_sections_of_the_float_graph_go(net):
    n, model = classifier(net)
    gone = ("htp.cache.sm8650", "htp.shared.weights.h", "xdlc.caches", "aip.metadata0", "xdlc.aip.facts")
    model.records = {name: ArrayData(np.zeros(1, np.uint8)) for name in (*gone, "note")}
    model.metadata |= {"cacheList": [{}], "relations": [{}]}
    quantized = quantize(model, n.samples(1))
    assert list(quantized.records) == ["note"]
    assert not {"cacheList", "relations"} & quantized.metadata.keys()


# ---------------------------------------------------------------------- what users get wrong


@pytest.mark.parametrize(
    ("sample", "part"),
    [
        ({}, "'x'"),
        ({"x": np.zeros((1, 8, 8, 4), np.float32)}, r"\[1, 8, 8, 3\].*\[1, 8, 8, 4\]"),
        ({"x": np.zeros((1, 8, 8, 3), np.int64)}, "float32.*int64"),
        ({"x": np.zeros((1, 8, 8, 3), np.float32), "z": np.zeros(1)}, "'z'"),
    ],
)
def test_samples_that_do_not_fit(net, sample, part):
    n, model = classifier(net)
    with pytest.raises(XdlcError, match=f"(?s)calibration sample 1.*{part}"):
        quantize(model, [*n.samples(1), sample])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_sample_that_is_not_finite(net, bad):
    n, model = classifier(net)
    samples = n.samples(2)
    samples[1]["x"][0, 1, 2, 0] = bad
    with pytest.raises(UsageError, match="calibration sample 1, tensor 'x'"):
        quantize(model, samples)


def test_constant_samples_work(net):
    _, model = classifier(net)
    quantized = quantize(model, [{"x": np.zeros((1, 8, 8, 3), np.float32)}])
    assert quantized.main.tensors["x"].encoding == ScaleOffset(1e-4 / 255)


@pytest.mark.parametrize(
    "options",
    [
        {"weights_bitwidth": 5},
        {"act_bitwidth": 32},
        {"bias_bitwidth": 16},
        {"weights_bitwidth": 16},
        {"algorithms": ["cel"]},
        {"jobs": 0},
    ],
)
def test_options_that_do_not_exist(net, options):
    n, model = classifier(net)
    with pytest.raises(UsageError, match=next(iter(options))):
        quantize(model, n.samples(1), **options)


def test_progress_counts_samples(net):
    n, model = classifier(net)
    seen = []
    quantize(model, n.samples(3), step=lambda *reported: seen.append(reported))
    assert [each for each in seen if each[0] == "calibrating"] == [("calibrating", n, 3) for n in (1, 2, 3)]


def test_a_model_without_graph():
    with pytest.raises(ModelError, match="no graph"):
        quantize(Model(), [])


def test_relu_hands_its_range_to_the_producer_also_through_ops_that_move_values(net):
    n = net(1, 8, 8, 4)
    flat = n.op("Reshape", [n.conv(n.x, 8, "c")], (1, 64, 8), "flat")
    model = n.done(n.neuron(flat, 4, "y"))
    tensors = quantize(model, n.samples(4)).main.tensors
    assert tensors["c"].encoding == tensors["flat"].encoding == tensors["y"].encoding
    assert tensors["y"].encoding.offset == 0
    n, model = classifier(net)
    tensors = quantize(model, n.samples(2)).main.tensors
    assert tensors["c1"].encoding == tensors["r1"].encoding


def test_relu_behind_a_value_that_others_read_keeps_its_range(net):
    n = net(1, 8, 8, 4)
    first = n.conv(n.x, 8, "c")
    model = n.done(n.neuron(n.op("Reshape", [first], (1, 64, 8), "flat"), 4, "y"), first)
    tensors = quantize(model, n.samples(4)).main.tensors
    assert tensors["c"].encoding.offset < 0


def test_softmax_over_many_classes_is_not_rounded_away(net):
    n = net(1, 1000)
    model = n.done(n.op("Softmax", [n.x], (1, 1000), "y", axis=u32(1)))
    quantized = quantize(model, n.samples(4, scale=0.5))
    assert quantized.main.tensors["y"].encoding == ScaleOffset(2.0**-15)
    (sample,) = n.samples(1, seed=2, scale=0.5)
    assert np.count_nonzero(CpuSession(quantized.main).run(sample)["y"]) > 990


@pytest.mark.parametrize("chosen", [True, False])
def test_around_branches_the_graph_is_quantized(chosen):
    """What is before and behind branches gets its ranges from runs through them."""
    model, rng = if_model((4, 8)), np.random.default_rng(5)
    samples = [{"c": np.array([chosen]), "x": rng.standard_normal((4, 8)).astype("f")} for _ in range(8)]
    quantized = quantize(model, samples)
    by_name = {op.name: op for op in quantized.main.ops}
    assert by_name["Relu"].outputs[0].dtype.name == "ufixed8"
    assert {tensor.dtype.name for tensor in by_name["choose"].inputs[1:]} == {"float32"}
    assert not verify_control_flow(quantized.graphs)
    for sample in samples:
        np.testing.assert_allclose(run(quantized, sample)["y"], run(model, sample)["y"], atol=0.06)
