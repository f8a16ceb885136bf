"""Static data of users' ops have the types that definitions take."""

import numpy as np
import pytest

from tests.quant.custom_models import (
    SAMPLES,
    op,
    results,
    sandwich,
    sqnr,
    types,
)
from xdlc.errors import ConstraintError
from xdlc.ir import AxisScaleOffset, ScaleOffset, static
from xdlc.ir.dtype import FLOAT32, SFIXED8, SFIXED32, UFIXED8
from xdlc.ir.stored import real_data


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
    wanted = model.main.tensors["g_w"].numpy()
    if dtype is FLOAT32:
        assert w.encoding is None
        assert np.array_equal(w.numpy(), wanted)
    else:
        assert isinstance(w.encoding, ScaleOffset)
        assert np.abs(real_data(w).numpy() - wanted).max() <= 0.51 * w.encoding.scale


@pytest.mark.parametrize("allowed", ["=ufixed8", "=float32|ufixed8", "=uint8"])
def test_static_inputs_of_one_type_on_all_cores_are_reals_to_python(net, kernels, quantized, allowed):
    model = sandwich(net, x="=float32|ufixed8", w=allowed, y="=float32|ufixed8")
    made, _ = quantized(model, SAMPLES)
    assert types(made, "g_op") == ([UFIXED8, UFIXED8], [UFIXED8])
    assert sqnr(results(kernels, model, SAMPLES), results(kernels, made, SAMPLES), "out") > 25


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
    made, notes = quantized(model, SAMPLES, quantization_overrides=given)
    w = op(made, "g_op").inputs[1]
    assert (w.dtype, type(w.encoding), w.encoding.axis) == (SFIXED8, AxisScaleOffset, 0)
    assert np.allclose(real_data(w).numpy(), model.main.tensors["g_w"].numpy(), rtol=1e-5)
    assert any(note.startswith("overrides: 1 matched") for note in notes)
    assert sqnr(results(kernels, model, SAMPLES), results(kernels, made, SAMPLES), "out") > 25


def test_scales_per_channel_want_a_type_of_the_definition(net, quantized):
    model = sandwich(net, x="uint8", w="ufixed8", y="uint8")
    given = {"version": "1.0.0", "activation_encodings": [], "param_encodings": _channels(model)}
    with pytest.raises(ConstraintError, match="the definition takes 'w' as ufixed8") as caught:
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
    assert sqnr(results(kernels, model, SAMPLES), results(kernels, made, SAMPLES), "out") > 25
