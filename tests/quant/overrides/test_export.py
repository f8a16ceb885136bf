"""What is exported leads to the same encodings when it is given back."""

import json

import pytest

import xdlc
from xdlc.errors import UsageError
from xdlc.quant import quantize
from xdlc.quant.overrides import ENCODING_VERSIONS, export_encodings, read_overrides, save_encodings


def stored(model):
    return {tensor.name: (tensor.dtype, tensor.encoding) for tensor in model.main.tensors.values()}


OPTIONS = [
    {},
    {"act_bitwidth": 16, "weights_bitwidth": 16},
    {"weights_bitwidth": 4},
    {"use_per_channel_quantization": False, "use_per_row_quantization": False},
    {"use_per_channel_quantization": False, "bias_bitwidth": 8},
    {"act_bitwidth_of": {"c2_op": 16}, "act_quantizer_calibration": "min-max"},
]


@pytest.mark.parametrize("version", ENCODING_VERSIONS)
@pytest.mark.parametrize("options", OPTIONS)
def test_round_trip(model, samples, version, options):
    quantized = quantize(model, samples, **options)
    content = json.loads(json.dumps(export_encodings(quantized, version)))
    assert content["version"] == version
    # Other samples and other widths: all there is comes from the file.
    again = quantize(model, [{"x": samples[0]["x"] * 3}], quantization_overrides=content)
    assert stored(again) == stored(quantized)


@pytest.mark.parametrize("version", ["1.0.0", "2.0.0"])
@pytest.mark.parametrize("lpbq", [True, False])
def test_round_trip_of_blocks(net, samples, version, lpbq):
    n = net(1, 8, 8, 3)
    model = n.done(n.conv(n.conv(n.x, 8, "c1"), 6, "c2", kernel=1))
    quantized = quantize(model, samples, weights_bitwidth=4, weights_block_size=4, use_lpbq=lpbq)
    content = export_encodings(quantized, version)
    assert stored(quantize(model, samples, quantization_overrides=content)) == stored(quantized)
    with pytest.raises(UsageError, match=r"version 0\.6\.1 cannot store"):
        export_encodings(quantized, "0.6.1")


@pytest.mark.parametrize("version", ["0.5.0", "0.6.1", "1.0.0"])
def test_ops_that_were_asked_to_be_float_stay_so(model, samples, version):
    quantized = quantize(model, samples, float_ops=["c1_op"])
    again = quantize(model, samples, quantization_overrides=export_encodings(quantized, version))
    assert stored(again) == stored(quantized)


def test_names_survive_a_file(model, samples, tmp_path):
    quantized = quantize(model, samples)
    quantized.save(tmp_path / "m.dlc")
    path = save_encodings(xdlc.load(tmp_path / "m.dlc"), tmp_path / "m.json")
    assert json.loads(path.read_text()) == export_encodings(quantized)
    entries = read_overrides(path).entries
    assert set(entries) == {"x", "c1", "r1", "c2", "r2", "flat", "total", "y"} | {
        f"{name}_{kind}" for name in ("c1", "c2") for kind in "wb"
    } | {"w", "b"}


def test_what_has_no_version_or_no_encodings_is_refused(model, samples):
    with pytest.raises(UsageError, match=r"known: 0\.4\.0"):
        export_encodings(quantize(model, samples), "0.7.0")
    with pytest.raises(UsageError, match="it is not quantized"):
        export_encodings(model)


def test_a_file_does_without_samples(model, samples):
    quantized = quantize(model, samples)
    content = export_encodings(quantized, "0.6.1")
    again = quantize(model, [], enable_float_fallback=True, quantization_overrides=content)
    assert stored(again) == stored(quantized)
