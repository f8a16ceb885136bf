"""Activations are signed, with offset 0, where UDO definitions require it."""

import numpy as np
import pytest

from tests.quant.udo_models import SAMPLES, defined, gain, op, quality, results, sandwich, sqnr, types
from tests.support.control_flow_models import ADD, MULTIPLY, binary, graph_of, loop_model, model_of
from tests.support.control_flow_models import op as call
from xdlc.ir import ScaleOffset, Tensor, static
from xdlc.ir.dtype import BY_NAME, FLOAT32, SFIXED8, SFIXED16, UFIXED8, UFIXED16
from xdlc.quant import quantize
from xdlc.quant.ranges import in_type
from xdlc.quant.udo import Place


def _rounded(values, scale, bits):
    top = (1 << (bits - 1)) - 1
    return np.clip(np.rint(values / np.float32(scale)), -top - 1, top) * np.float32(scale)


@pytest.mark.parametrize("bits", [8, 16])
def test_values_are_those_of_symmetric_integers(net, kernels, quantized, bits):
    n = net(1, 6, 6, 4)
    word = f"sfixed{bits}"
    model = defined(n.done(gain(n, n.x, "g", factor=0.5)), x=word, w=word, y=word)
    w = model.main.tensors["g_w"].numpy()
    quantized_model, _ = quantized(model, SAMPLES, act_bitwidth=bits)
    gain_op = op(quantized_model, "g_op")
    assert [o.type for o in quantized_model.main.ops] == ["Gain"]
    top = (1 << (bits - 1)) - 1
    largest = [max(float(np.abs(given["x"]).max()) for given in SAMPLES), np.abs(w).max()]
    largest.append(max(float(np.abs(given["x"] * w * 0.5).max()) for given in SAMPLES))
    tops = [top, min(top, 0x7F7F), top]  # weights of 16 bits are two signed bytes to HTP
    for tensor, peak, steps in zip((*gain_op.inputs, *gain_op.outputs), largest, tops, strict=True):
        assert tensor.dtype is BY_NAME[word]
        assert tensor.encoding == ScaleOffset(np.float32(peak / steps).item())
    x, y = quantized_model.main.inputs[0].encoding.scale, quantized_model.main.outputs[0].encoding.scale
    for given, found in zip(SAMPLES, results(kernels, quantized_model, SAMPLES), strict=True):
        factor = _rounded(w, gain_op.inputs[1].encoding.scale, bits) * np.float32(0.5)
        wanted = _rounded(_rounded(given["x"], x, bits) * factor, y, bits)
        assert np.abs(found["g"] - wanted).max() <= 1e-6 * np.abs(wanted).max()


def test_neighbours_differ_in_type_alone(net, kernels, quantized):
    """Conversions between signed and unsigned integers of as many bits round nothing."""
    n = net(1, 6, 6, 4)
    g = gain(n, n.conv(n.x, 8, "a"), "g", factor=0.5)
    model = n.done(n.conv(n.reshape(g, (1, 12, 3, 8), "flat"), 4, "out"))
    defined(model, x="sfixed8", w="sfixed8", y="sfixed8")
    quantized_model, notes = quantized(model, SAMPLES)
    assert [o.type for o in quantized_model.main.ops] == [
        "Conv2d",
        "Convert",
        "Gain",
        "Convert",
        "Reshape",
        "Conv2d",
    ]
    assert not any(note.startswith("Pkg::Gain") for note in notes)
    tensors = quantized_model.main.tensors
    for signed, unsigned in (("a_sfixed8", "a"), ("g", "g_ufixed8"), ("g", "flat")):
        assert (tensors[signed].dtype, tensors[unsigned].dtype) == (SFIXED8, UFIXED8)
        assert tensors[signed].encoding == ScaleOffset(tensors[unsigned].encoding.scale)
        assert tensors[unsigned].encoding.offset == -128
    assert tensors["a_sfixed8"].producer.origin.reason == "'g_op' reads sfixed8"
    assert tensors["g_ufixed8"].producer.origin.reason == "'flat_op' reads ufixed8"
    assert quality(kernels, model, quantized_model, SAMPLES, "out") > 30


def test_what_others_read_too_keeps_its_own_range(net, kernels, quantized):
    n = net(1, 6, 6, 4)
    r = n.neuron(n.conv(n.x, 8, "a"), 4, "r")
    model = n.done(gain(n, r, "g"), n.conv(r, 4, "out"))
    defined(model, x="sfixed8", w="sfixed8", y="sfixed8")
    quantized_model, _ = quantized(model, SAMPLES)
    r, read = quantized_model.main.tensors["r"], op(quantized_model, "g_op").inputs[0]
    assert (r.dtype, r.encoding.offset) == (UFIXED8, 0)
    assert (read.dtype, read.encoding.offset) == (SFIXED8, 0)
    assert read.encoding.scale == pytest.approx(r.encoding.scale * 255 / 127, rel=1e-6)
    wanted, found = results(kernels, model, SAMPLES), results(kernels, quantized_model, SAMPLES)
    assert min(sqnr(wanted, found, "g"), sqnr(wanted, found, "out")) > 25


def test_other_widths_meet_by_one_conversion(net, kernels, quantized):
    model = sandwich(net, x="sfixed16", w="sfixed8", y="sfixed16")
    quantized_model, notes = quantized(model, SAMPLES)
    assert types(quantized_model, "g_op") == ([SFIXED16, SFIXED8], [SFIXED16])
    assert quantized_model.main.tensors["r"].encoding.offset == 0  # a range of its own, not a symmetric one
    assert [o.type for o in quantized_model.main.ops].count("Convert") == 2
    assert op(quantized_model, "out_op").inputs[0].dtype is UFIXED8
    assert any("with 16 bits, not 8: its definition supports 'x' as sfixed16" in note for note in notes)
    assert quality(kernels, model, quantized_model, SAMPLES, "out") > 30


def test_encodings_that_are_given_stay_the_same_reals(net, quantized):
    entry = {"bitwidth": 8, "dtype": "int", "is_symmetric": "False", "scale": 0.05, "offset": -100}
    given = {"version": "0.6.1", "activation_encodings": {"r": [entry], "g": [entry]}, "param_encodings": {}}
    quantized_model, _ = quantized(
        sandwich(net, x="sfixed8", w="sfixed8", y="sfixed8"), SAMPLES, quantization_overrides=given
    )
    scale = np.float32(0.05).item()
    assert quantized_model.main.tensors["r"].encoding == ScaleOffset(scale, -100)
    held = op(quantized_model, "g_op")
    assert [t.encoding for t in (held.inputs[0], held.outputs[0])] == [ScaleOffset(scale, 28)] * 2
    assert op(quantized_model, "out_op").inputs[0].encoding == ScaleOffset(scale, -100)


@pytest.mark.parametrize(
    ("allowed", "wanted", "found"),
    [
        ("sfixed8|ufixed8", 8, UFIXED8),
        ("sfixed8|ufixed16", 8, SFIXED8),
        ("ufixed8|sfixed16", 16, SFIXED16),
        ("sfixed8|ufixed16|sfixed16", 16, UFIXED16),
        ("int8", 8, SFIXED8),
        ("int8|float32", 8, None),
        ("sfixed8|float32", 16, SFIXED8),
        ("ufixed4|sfixed32", 8, None),
    ],
)
def test_which_type_an_activation_has(allowed, wanted, found):
    place = Place("x", frozenset(BY_NAME[word] for word in allowed.split("|")))
    assert place.activation(wanted) is found


def test_one_encoding_in_another_type():
    encoding = ScaleOffset(0.5, -3)
    assert in_type(encoding, UFIXED8, SFIXED8) == ScaleOffset(0.5, 125)
    assert in_type(in_type(encoding, UFIXED8, SFIXED8), SFIXED8, UFIXED8) == encoding
    assert in_type(ScaleOffset(0.5), SFIXED8, UFIXED16) == ScaleOffset(
        np.float32(127.5 / 65535).item(), -32896
    )
    assert in_type(encoding, UFIXED8, SFIXED16).offset == 0


def test_bodies_of_loops_have_them_too(kernels):
    model, shape = loop_model(), (3,)
    inputs = [(tensor.name, tensor.shape, tensor.dtype) for tensor in model.graphs["main_body"].inputs]

    def body(graph, p, i, n, f):
        w, one = static("w", np.float32([0.5, 0.7, 0.9])), static("one", np.ones(1, np.int32))
        call(graph, "Gain", [p, w], [g := Tensor("g", shape, FLOAT32)], name="body_gain", package="Pkg")
        return [binary(graph, MULTIPLY, g, f, "q"), binary(graph, ADD, i, one, "j")]

    graphs = [model.graphs["main"], model.graphs["main_cond"], graph_of("main_body", inputs, body)]
    model = defined(model_of(*graphs), x="sfixed8", w="sfixed8", y="sfixed16")
    rng, notes = np.random.default_rng(0), []
    samples = [
        {"x": rng.standard_normal(3).astype("f4"), "n": np.int32([2]), "f": np.float32([0.9, 0.8, 0.7])}
        for _ in range(4)
    ]
    made = quantize(model, samples, udo_package_path=kernels, notify=notes.append)
    held = next(op for op in made.graphs["main_body"].ops if op.name == "body_gain")
    assert [tensor.dtype for tensor in (*held.inputs, *held.outputs)] == [SFIXED8, SFIXED8, SFIXED16]
    assert any(note.endswith("its definition supports 'y' as sfixed16 (body_gain)") for note in notes)
    assert quality(kernels, model, made, samples, "y") > 30
