"""Residual streams of transformers whose range a channel stretches."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import xdlc
from tests.support import accuracy
from tests.support.transformer_model import transformer
from xdlc.ir.dtype import UFIXED8, UFIXED16
from xdlc.quant.calibration.statistics import Histogram, Statistics
from xdlc.quant.ranges import Range
from xdlc.quant.widening.activations import FEW_STEPS, typical_steps

TOKENS, SIZE = 8, 32


@pytest.fixture(scope="module")
def stretched(tmp_path_factory):
    """A transformer whose norms make one channel 100 times as large as the others."""
    model = transformer(tokens=TOKENS, size=SIZE)
    scales = {node.input[1] for node in model.graph.node if node.op_type == "LayerNormalization"}
    for held in model.graph.initializer:
        if held.name in scales:
            array = numpy_helper.to_array(held).copy()
            array[5] = 100.0
            held.CopyFrom(numpy_helper.from_array(array, held.name))
    return saved(model, tmp_path_factory)


def saved(model, factory):
    path = factory.mktemp("stream") / "stream.onnx"
    onnx.save(model, path)
    return xdlc.convert(path)


def samples(seed, stretch=1.0):
    rng = np.random.default_rng(seed)
    found = [{"x": rng.standard_normal((1, TOKENS, SIZE)).astype(np.float32)} for _ in range(6)]
    for sample in found:
        sample["x"][..., 5] *= stretch
    return found


def quantized(model, stretch=1.0, **options):
    notes = []
    found = xdlc.quantize(
        model, samples(0, stretch), notify=notes.append, act_quantizer_calibration="mse", **options
    )
    return found, [note for note in notes if "residual stream" in note]


def types(model, type):
    return [op.outputs[0].dtype for op in model.main.ops if op.type == type]


def sqnr(model, rounded, stretch=1.0):
    def small(network):
        return [np.delete(xdlc.run(network, sample)["y"], 5, -1) for sample in samples(1, stretch)]

    return accuracy.sqnr(small(model), small(rounded))


def test_sums_and_norms_have_16_bits_and_products_8(stretched):
    found, notes = quantized(stretched)
    assert set(types(found, "LayerNorm")) == {UFIXED16}
    assert set(types(found, "FullyConnected")) == {UFIXED8}
    assert len(notes) == 1
    assert "4 sums" in notes[0]


def test_small_channels_gain(stretched):
    narrow = {op.name: 8 for op in stretched.main.ops if op.type == "LayerNorm"}
    found, _ = quantized(stretched)
    plain, _ = quantized(stretched, act_bitwidth_of=narrow)
    assert set(types(plain, "LayerNorm")) == {UFIXED8}  # as the user has it
    assert sqnr(stretched, found) > sqnr(stretched, plain) + 6.0


def test_streams_that_8_bits_hold_keep_them(tmp_path_factory):
    found, notes = quantized(saved(transformer(tokens=TOKENS, size=SIZE), tmp_path_factory))
    assert set(types(found, "LayerNorm")) == {UFIXED8}
    assert not notes


def test_a_target_without_16_bits_keeps_8(stretched):
    v66 = {"use_per_channel_quantization": False, "use_per_row_quantization": False, "target": "sm8150"}
    found, notes = quantized(stretched, **v66)
    assert set(types(found, "LayerNorm")) == {UFIXED8}
    assert not notes


RMS = "squares = Pow(s, two)\n parts = Mul(s, inverse)"
NORMED = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1,8,32] x) => (float[1,8,32] y) <float two = {2}, float one = {1}, float least = {LEAST}> {
        a = MatMul(x, w)
        s = Add(x, a)
        CENTRES
        means = ReduceMean<axes=[-1]>(squares)
        sizes = Add(means, least)
        roots = Sqrt(sizes)
        inverse = Div(one, roots)
        PRODUCT
        scaled = Mul(parts, gamma)
        y = MatMul(scaled, v)
    }"""


def normed(tmp_path, least):
    *centres, product = RMS.split("\n")
    text = NORMED.replace("CENTRES", "\n".join(centres)).replace("PRODUCT", product)
    model = onnx.parser.parse_model(text.replace("LEAST", least))
    rng = np.random.default_rng(2)
    w, v = (rng.standard_normal((SIZE, SIZE)).astype(np.float32) / 6 for _ in range(2))
    gamma = np.ones(SIZE, np.float32)
    gamma[5] = 0.01
    w[5] = 0.0
    held = {"w": w, "v": v, "gamma": gamma}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in held.items())
    onnx.save(model, tmp_path / "norm.onnx")
    return xdlc.convert(tmp_path / "norm.onnx")


def test_a_norm_without_a_mean_is_a_norm(tmp_path):
    found, notes = quantized(normed(tmp_path, "1e-6"), stretch=200.0)
    assert set(types(found, "RmsNorm")) == {UFIXED16}
    assert len(notes) == 1


def test_norms_by_parts_are_norms(tmp_path):
    converted = normed(tmp_path, "0")  # fused only with a summand
    found, notes = quantized(converted, stretch=200.0)
    plain, _ = quantized(converted, stretch=200.0, act_bitwidth_of={op.name: 8 for op in converted.main.ops})
    assert len(notes) == 1
    assert sqnr(converted, found, stretch=200.0) > sqnr(converted, plain, stretch=200.0) + 6.0


def test_steps_count_from_the_range_of_all_values():
    values = np.float32([-1.0] * 50 + [1.0] * 50 + [510.0])
    held = Statistics.of(Range(-1.0, 510.0), Histogram.of(values))
    assert typical_steps(held) == pytest.approx(0.5, rel=0.2)
    assert typical_steps(held) < FEW_STEPS < typical_steps(Statistics())
