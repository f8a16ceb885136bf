import copy

import numpy as np
import pytest

import xdlc
from tests.quant.udo_models import SAMPLES, sandwich, types
from tests.support import accuracy
from tests.support.differences import differences
from xdlc.errors import UsageError
from xdlc.ir import Op, Tensor, u32
from xdlc.ir.dtype import FLOAT32, UFIXED16, UINT8
from xdlc.quant import quantize
from xdlc.quant.existing_encodings import float_model


def classifier(net):
    n = net(1, 8, 8, 4)
    kept = n.neuron(n.conv(n.x, 8, "conv"), 4, "relu")
    wide = n.conv(kept, 8, "wide", kernel=1)
    joined = n.concat([kept, wide], "joined")
    return n, n.done(n.mean(joined, "mean"), n.neuron(wide, 6, "gate"))


def sqnr(model, reference, samples):
    runs = ([xdlc.run(held, sample) for sample in samples] for held in (reference, model))
    return accuracy.sqnr(*([array for results in run for array in results.values()] for run in runs))


def test_a_quantized_model_is_refused_with_the_way_out(net):
    n, model = classifier(net)
    for options in ({}, {"float_ops": ["gate"]}):
        quantized = quantize(model, n.samples(2), **options)
        with pytest.raises(UsageError, match="already quantized") as caught:
            quantize(quantized, n.samples(2), act_bitwidth=16)
        assert "requantize=True" in caught.value.fix


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weights_bitwidth": 4, "weights_block_size": 4, "use_lpbq": True},
        {"bias_bitwidth": 8, "use_per_channel_quantization": False, "act_bitwidth_of": {"relu": 16}},
        {"float_ops": ["relu", "gate"], "float_bitwidth": 16},
    ],
)
def test_requantizing_equals_the_way_through_onnx(net, options, tmp_path):
    n, model = classifier(net)
    quantized = quantize(model, n.samples(3), **options)
    before = copy.deepcopy(quantized)
    real, dropped = float_model(quantized)
    assert dropped
    real.main.verify()
    assert all(tensor.encoding is None for tensor in real.main.tensors.values())
    assert not any(op.type in ("Quantize", "Dequantize", "Convert") for op in real.main.ops)
    xdlc.to_onnx(quantized, tmp_path / "m.onnx", encodings="none")
    detour = xdlc.convert(tmp_path / "m.onnx")
    for sample in n.samples(2, seed=9):
        expected = xdlc.run(detour, sample)
        for name, array in xdlc.run(real, sample).items():
            np.testing.assert_allclose(array, expected[name], rtol=1e-3, atol=1e-3)
    notes = []
    again = quantize(quantized, n.samples(3), requantize=True, act_bitwidth=16, notify=notes.append)
    through = quantize(detour, n.samples(3), act_bitwidth=16)
    assert any(note.startswith("requantized") for note in notes)
    assert not differences(quantized, before)
    samples = n.samples(2, seed=5)
    reached = sqnr(again, real, samples)
    assert reached > 25
    assert reached > sqnr(through, real, samples) - 0.5


def test_a_port_that_only_changes_form_stays(net):
    n, model = classifier(net)
    quantized = quantize(model, n.samples(2))
    graph = quantized.main
    same = Tensor("same", graph.inputs[0].shape, FLOAT32)
    graph.append(Op("Dequantize", [graph.inputs[0]], [same], name="d"))
    graph.add_output(same)
    real, _ = float_model(quantized)
    real.main.verify()
    (sample,) = n.samples(1)
    np.testing.assert_array_equal(xdlc.run(real, sample)["same"], sample["x"])


def test_stored_integers_are_requantized_at_outputs_only(net):
    n, model = classifier(net)
    quantized = quantize(model, n.samples(2))
    graph = quantized.main
    stored = Tensor("stored", graph.inputs[0].shape, UINT8)
    graph.append(Op("Cast", [graph.inputs[0]], [stored], name="c"))
    graph.add_output(stored)
    real, _ = float_model(quantized)
    (sample,) = n.samples(1)
    np.testing.assert_array_equal(xdlc.run(real, sample)["stored"], sample["x"])
    joined = Tensor("joined_bytes", (1, 8, 8, 8), UINT8)
    graph.append(Op("Concat", [stored, stored], [joined], {"axis": u32(3)}, name="k"))
    graph.add_output(joined)
    with pytest.raises(UsageError, match="quantized values") as caught:
        quantize(quantized, n.samples(2), requantize=True)
    assert caught.value.node == "c"


def test_models_with_users_ops_are_requantized_too(net, quantized):
    made, _ = quantized(sandwich(net), SAMPLES)
    with pytest.raises(UsageError, match="already quantized"):
        quantized(made, SAMPLES, act_bitwidth=16)
    again, _ = quantized(made, SAMPLES, act_bitwidth=16, requantize=True)
    assert types(again, "g_op")[1] == [UFIXED16]
