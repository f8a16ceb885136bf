"""Static data of UDOs have the types that definitions take."""

import numpy as np
import pytest

from tests.quant.udo_models import SAMPLES, defined, gain, op, quality, results, sandwich, types
from tests.support.custom_ops import param, place
from xdlc.container import load, udo
from xdlc.errors import ConstraintError
from xdlc.ir import AxisScaleOffset, ScaleOffset, static
from xdlc.ir.dtype import BY_NAME, FLOAT32, SFIXED4, SFIXED8, SFIXED32, UFIXED4, UFIXED8
from xdlc.ir.quantization import float_data
from xdlc.opdefs.model import Collection, OpDef


@pytest.mark.parametrize(
    ("allowed", "dtype"),
    [
        ("ufixed8", UFIXED8),
        ("sfixed8", SFIXED8),
        ("sfixed8|ufixed8|float32", SFIXED8),
        ("sfixed32", SFIXED32),
        ("float32", FLOAT32),
    ],
)
def test_static_inputs_have_a_type_of_the_definition(net, quantized, allowed, dtype):
    model = sandwich(net, x="uint8", w=allowed, y="uint8")
    made, _ = quantized(model, SAMPLES)
    w = op(made, "g_op").inputs[1]
    assert w.dtype is dtype
    weights = model.main.tensors["g_w"].numpy()
    if dtype is FLOAT32:
        assert w.encoding is None
        assert np.array_equal(w.numpy(), weights)
    else:
        assert isinstance(w.encoding, ScaleOffset)
        assert np.abs(float_data(w).numpy() - weights).max() <= 0.51 * w.encoding.scale


@pytest.mark.parametrize("allowed", ["=ufixed8", "=float32|ufixed8", "=uint8"])
def test_static_inputs_of_one_type_on_all_cores_are_reals_to_python(net, kernels, quantized, allowed):
    model = sandwich(net, x="=float32|ufixed8", w=allowed, y="=float32|ufixed8")
    made, _ = quantized(model, SAMPLES)
    assert types(made, "g_op") == ([UFIXED8, UFIXED8], [UFIXED8])
    assert quality(kernels, model, made, SAMPLES, "out") > 25


@pytest.mark.parametrize(
    ("allowed", "bits", "dtype", "note"),
    [
        ("sfixed4", 8, SFIXED4, "stores 'w' with 4 bits, not 8: its definition supports 'w' as sfixed4"),
        ("ufixed4", 4, UFIXED4, ""),
        ("sfixed8|sfixed4", 8, SFIXED8, ""),
        ("sfixed8|sfixed4", 4, SFIXED4, ""),
        ("float32|sfixed4", 4, SFIXED4, ""),
        ("float32|sfixed4", 8, FLOAT32, "keeps 'w' float, because nothing requested 4 bits"),
        ("sfixed8", 4, SFIXED8, "stores 'w' with 8 bits, not 4: its definition supports 'w' as sfixed8"),
    ],
)
def test_four_bits_where_nothing_else_is_taken_or_they_are_asked_for(
    net, quantized, allowed, bits, dtype, note
):
    model = sandwich(net, x="uint8", w=allowed, y="uint8")
    made, notes = quantized(model, SAMPLES, weights_bitwidth=bits)
    assert op(made, "g_op").inputs[1].dtype is dtype
    found = [text for text in notes if text.startswith("Pkg::Gain")]
    assert [text.startswith(f"Pkg::Gain {note}") for text in found] == ([True] if note else [])


def test_integers_of_four_bits_lie_two_a_byte_and_are_reals_to_python(net, kernels, quantized, tmp_path):
    n = net(1, 6, 6, 5)
    model = defined(n.done(gain(n, n.x, "g")), x="uint16", w="sfixed4", y="uint16")
    samples = n.samples(4)
    quantized_model, _ = quantized(model, samples, act_bitwidth=16, param_quantizer_calibration="min-max")
    quantized_model.save(tmp_path / "q.dlc")
    w, real = op(load(tmp_path / "q.dlc"), "g_op").inputs[1], model.main.tensors["g_w"].numpy()
    step = np.float32(w.encoding.scale)
    assert (w.dtype, w.data.nbytes, w.encoding.offset) == (SFIXED4, 3, 0)
    assert float(step) in (np.float32(np.abs(real).max() / 7), np.float32(np.abs(real).max() / 8))
    rounded = np.clip(np.rint(real / step), -8, 7)
    packed = np.append(rounded, 0).astype(np.int8).view(np.uint8) & 15
    assert np.array_equal(w.numpy().reshape(-1).view(np.uint8), packed[::2] | packed[1::2] << 4)
    x, y = (tensor.encoding for tensor in (quantized_model.main.inputs[0], quantized_model.main.outputs[0]))
    for sample, found in zip(samples, results(kernels, quantized_model, samples), strict=True):
        product = (np.rint(sample["x"] / np.float32(x.scale)) * np.float32(x.scale)) * (rounded * step)
        wanted = np.rint(product / np.float32(y.scale)) * np.float32(y.scale)
        assert np.abs(found["g"] - wanted).max() <= 1.01 * y.scale


def test_four_bits_come_from_overrides_and_go_out_again(net, quantized):
    from xdlc.quant.overrides import export_encodings

    model = sandwich(net, x="uint8", w="ufixed4|sfixed8", y="uint8")
    entry = {"bitwidth": 4, "dtype": "int", "is_symmetric": "False", "scale": 0.5, "offset": -8}
    given = {"version": "0.6.1", "activation_encodings": {}, "param_encodings": {"g_w": [entry]}}
    made, _ = quantized(model, SAMPLES, quantization_overrides=given)
    w = op(made, "g_op").inputs[1]
    assert (w.dtype, w.encoding) == (UFIXED4, ScaleOffset(0.5, -8))
    again, _ = quantized(model, SAMPLES, quantization_overrides=export_encodings(made, "1.0.0"))
    assert (op(again, "g_op").inputs[1].dtype, op(again, "g_op").inputs[1].encoding) == (w.dtype, w.encoding)


def test_one_scale_is_told_once_where_scales_per_channel_are_asked_for(net, quantized):
    model = sandwich(net, x="uint8", w="sfixed8", y="uint8")
    _, silent = quantized(model, SAMPLES)
    _, notes = quantized(model, SAMPLES, use_per_channel_quantization=True)
    (told,) = set(notes) - set(silent)
    assert "get one scale" in told
    assert told.endswith("(Pkg::Gain 'w')")


@pytest.mark.parametrize(
    ("allowed", "dtype"), [("ufixed8", UFIXED8), ("sfixed4", SFIXED4), ("float32", FLOAT32)]
)
def test_tensor_parameters_have_a_type_of_the_definition(net, tmp_path, quantized, allowed, dtype):
    path = tmp_path / "shift.py"
    path.write_text(
        "from xdlc.udo import kernel\n"
        "@kernel('Pkg', 'Shift')\n"
        "def shift(inputs, params, outputs):\n"
        "    assert params['by'].dtype == 'float32'\n"
        "    return inputs[0] + params['by']\n"
    )
    by = np.float32([0.5, -0.25, 2.0, 1.0])
    n = net(1, 6, 6, 4)
    model = n.done(n.op("Shift", [n.x], n.x.shape, "y", package="Pkg", by=static("by", by)))
    by_type = param("by", BY_NAME[allowed], rank=1)
    sides = (place("x", (UFIXED8,)),), (place("y", (UFIXED8,)),)
    opdef = OpDef("Shift", "Pkg", *sides, {"by": by_type}, backends=("DSP",))
    udo.add_definitions(model, {"Pkg": Collection("Pkg", "d", "1", (opdef,), ())})
    made, _ = quantized(model, SAMPLES, udo_package_path=path)
    made.save(tmp_path / "q.dlc")
    loaded = load(tmp_path / "q.dlc")
    held = op(loaded, "y_op").params["by"]
    assert held.dtype is dtype
    step = 0.0 if dtype is FLOAT32 else held.encoding.scale
    assert np.abs(float_data(held).numpy().reshape(-1) - by).max() <= 0.51 * step
    wanted = SAMPLES[0]["x"] + float_data(held).numpy().reshape(-1)
    scales = [tensor.encoding.scale for tensor in (loaded.main.inputs[0], loaded.main.outputs[0])]
    assert np.abs(results(path, loaded, SAMPLES[:1])[0]["y"] - wanted).max() <= 0.51 * sum(scales)


def _channels(model):
    w = model.main.tensors["g_w"].numpy()
    scales = np.abs(w) / 127
    return [
        {
            "bw": 8, "dtype": "INT", "enc_type": "PER_CHANNEL", "is_sym": True,
            "name": "g_w", "offset": [-128] * 8, "scale": [float(s) for s in scales],
        }
    ]  # fmt: skip


def test_static_weights_take_scales_per_channel_that_are_given(net, kernels, quantized):
    model = sandwich(net, x="uint8", w="sfixed8", y="uint8")
    given = {"version": "1.0.0", "activation_encodings": [], "param_encodings": _channels(model)}
    quantized_model, notes = quantized(model, SAMPLES, quantization_overrides=given)
    w = op(quantized_model, "g_op").inputs[1]
    assert (w.dtype, type(w.encoding), w.encoding.axis) == (SFIXED8, AxisScaleOffset, 0)
    assert np.allclose(float_data(w).numpy(), model.main.tensors["g_w"].numpy(), rtol=1e-5)
    assert any(note.startswith("overrides: 1 matched") for note in notes)
    assert quality(kernels, model, quantized_model, SAMPLES, "out") > 25


def test_scales_per_channel_want_a_type_of_the_definition(net, quantized):
    model = sandwich(net, x="uint8", w="ufixed8", y="uint8")
    given = {"version": "1.0.0", "activation_encodings": [], "param_encodings": _channels(model)}
    with pytest.raises(ConstraintError, match="its definition supports 'w' as ufixed8") as caught:
        quantized(model, SAMPLES, quantization_overrides=given)
    assert caught.value.where == "op 'g_op' (Pkg::Gain)"


def test_weights_that_come_with_scales_per_channel_keep_them(net, kernels, quantized):
    model = sandwich(net, x="uint8", w="sfixed8", y="uint8")
    w = model.main.tensors["g_w"]
    real = w.numpy()
    encoding = AxisScaleOffset(0, tuple(float(value) for value in np.abs(real) / 127))
    stored = static("stored", np.rint(real / np.float32(encoding.scales)).astype("i1"), SFIXED8, encoding)
    held = op(model, "g_op")
    model.main.set_inputs(held, [held.inputs[0], model.main.add_tensor(stored)])
    made, _ = quantized(model, SAMPLES)
    found = op(made, "g_op").inputs[1]
    assert (found.dtype, found.encoding) == (SFIXED8, encoding)
    assert quality(kernels, model, made, SAMPLES, "out") > 25
