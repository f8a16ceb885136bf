"""Encodings of a source's weight follow its merges, or are refused by name."""

import json

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import xdlc
from tests.support.commands import invoke
from xdlc.cli.tools import onnx_to_dlc, quantize
from xdlc.errors import UsageError
from xdlc.ir import AxisScaleOffset, ScaleOffset
from xdlc.quant.overrides.export import export_encodings
from xdlc.quant.overrides.override import Grain, Override

CHANNELS = 8
RNG = np.random.default_rng(2)
GAMMA = RNG.standard_normal(CHANNELS) * 0.4 + 0.3  # some are negative
VARIANCE = np.exp(RNG.standard_normal(CHANNELS))
FACTORS = GAMMA / np.sqrt(VARIANCE + 1e-5)
WEIGHT = RNG.standard_normal((CHANNELS, 4, 3, 3)).astype(np.float32)
SAMPLES = [{"x": RNG.standard_normal((1, 4, 8, 8)).astype(np.float32)} for _ in range(6)]


def network(path, nodes=None, **weights):
    """Write an ONNX file of Conv and BatchNormalization, or of other nodes."""
    arrays = {
        "w": WEIGHT,
        "gamma": GAMMA,
        "beta": np.full(CHANNELS, 0.1),
        "mean": np.full(CHANNELS, 0.2),
        "variance": VARIANCE,
    } | weights
    bias = ["b"] if "b" in weights else []
    nodes = nodes or [
        helper.make_node("Conv", ["x", "w", *bias], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "gamma", "beta", "mean", "variance"], ["y"], "bn"),
    ]
    graph = helper.make_graph(
        nodes,
        "main",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 4, 8, 8])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(np.asarray(array, np.float32), name)
            for name, array in arrays.items()
            if any(name in node.input for node in nodes)
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    return path


def scales_of(weight, bits=8, axis=0):
    rows = np.moveaxis(np.asarray(weight), axis, 0).reshape(weight.shape[axis], -1)
    return [float(np.float32(value)) for value in np.abs(rows).max(1) / (2 ** (bits - 1) - 1)]


def file(scales, bits=8, offset=None, name="w", form="0.6.1"):
    offset = -(1 << (bits - 1)) if offset is None else offset
    symmetric = offset == -(1 << (bits - 1))
    if form == "0.6.1":
        rows = [
            {"bitwidth": bits, "dtype": "int", "is_symmetric": str(symmetric), "scale": s, "offset": offset}
            for s in scales
        ]
        return {"version": form, "activation_encodings": {}, "param_encodings": {name: rows}}
    kind = "PER_CHANNEL" if len(scales) > 1 else "PER_TENSOR"
    row = {"name": name, "enc_type": kind, "dtype": "INT", "bw": bits, "is_sym": symmetric}
    row |= {"scale": scales, "offset": [offset] * len(scales)}
    if form == "1.0.0":
        return {"version": form, "activation_encodings": [], "param_encodings": [row]}
    held = {"y_scale": scales, "axis": 0} if len(scales) > 1 else {"y_scale": scales[0]}
    return {"version": form, "encodings": [{"name": name, "output_dtype": f"int{bits}", **held}]}


def quantized(path, content, **options):
    notes = []
    model = xdlc.convert(path, notify=lambda text: None, **options)
    result = xdlc.quantize(
        model, SAMPLES, quantization_overrides=content, act_bitwidth=16, notify=notes.append
    )
    return result.main.tensors, notes


def integers(weight, scales, axis=0):
    dims = [-1 if place == axis else 1 for place in range(weight.ndim)]
    return np.round(weight / np.float64(scales).reshape(dims))


@pytest.mark.parametrize("form", ["0.6.1", "1.0.0", "2.0.0"])
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("per_channel", [True, False])
def test_a_weight_before_a_batchnorm_keeps_its_integers(tmp_path, form, bits, per_channel):
    scales = scales_of(WEIGHT, bits)
    scales = scales if per_channel else [max(scales)]
    found, notes = quantized(network(tmp_path / "m.onnx"), file(scales, bits, form=form))
    assert isinstance(found["w"].encoding, AxisScaleOffset)
    np.testing.assert_allclose(found["w"].encoding.scales, np.float64(scales) * np.abs(FACTORS), rtol=2e-7)
    wanted = integers(WEIGHT, scales * (CHANNELS // len(scales))).transpose(2, 3, 1, 0) * np.sign(FACTORS)
    np.testing.assert_array_equal(found["w"].numpy(), wanted)
    assert any("1 matched, " in note and "1 scaled" in note for note in notes)


def test_layers_of_other_kinds_follow_too(tmp_path):
    turned = RNG.standard_normal((4, CHANNELS, 2, 2)).astype(np.float32)
    deep = RNG.standard_normal((CHANNELS, 1, 3, 3)).astype(np.float32)
    full = RNG.standard_normal((CHANNELS, CHANNELS)).astype(np.float32)
    norm = ["gamma", "beta", "mean", "variance"]
    nodes = [
        helper.make_node("ConvTranspose", ["x", "turned"], ["t"], "turned_conv", strides=[2, 2]),
        helper.make_node("BatchNormalization", ["t", *norm], ["tn"], "bn1"),
        helper.make_node("Conv", ["tn", "deep"], ["d"], "deep_conv", group=CHANNELS),
        helper.make_node("BatchNormalization", ["d", *norm], ["dn"], "bn2"),
        helper.make_node("GlobalAveragePool", ["dn"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "full"], ["g"], "gemm", transB=1),
        helper.make_node("Mul", ["g", "gamma"], ["y"], "mul"),
    ]
    path = network(tmp_path / "m.onnx", nodes, turned=turned, deep=deep, full=full)
    for name, weight, axis, factors in (
        ("turned", turned, 1, FACTORS),
        ("deep", deep, 0, FACTORS),
        ("full", full, 0, GAMMA),
    ):
        found, _ = quantized(path, file(scales_of(weight, axis=axis), name=name))
        scales = np.float64(scales_of(weight, axis=axis)) * np.abs(factors)
        np.testing.assert_allclose(found[name].encoding.scales, scales, rtol=2e-7)


def test_the_command_line_leads_to_the_same(tmp_path):
    path, content = network(tmp_path / "m.onnx"), file(scales_of(WEIGHT))
    (tmp_path / "o.json").write_text(json.dumps(content))
    for number, sample in enumerate(SAMPLES):
        sample["x"].tofile(tmp_path / f"{number}.raw")
    (tmp_path / "list.txt").write_text("".join(f"{tmp_path}/{number}.raw\n" for number in range(6)))
    expected = quantized(path, content)[0]["w"].encoding
    for step in ("convert", "quant"):
        flags = ["--quantization_overrides", tmp_path / "o.json"]
        source, target = tmp_path / f"{step}.dlc", tmp_path / f"{step}_q.dlc"
        before, after = (flags, []) if step == "convert" else ([], flags)
        words = ["-l", tmp_path / "list.txt", "-o", target, "--act_bitwidth", 16, *after]
        for tool, given in (
            (onnx_to_dlc, ["-i", path, "-o", source, *before]),
            (quantize, ["-i", source, *words]),
        ):
            invoke(tool.main, *given)
        assert xdlc.load(target).main.tensors["w"].encoding == expected


def test_an_offset_follows_one_factor_and_no_other(tmp_path):
    path = network(tmp_path / "m.onnx", gamma=np.full(CHANNELS, -2.0), variance=np.ones(CHANNELS))
    tensors, _ = quantized(path, file([0.04], offset=-100))
    factor = 2 / np.sqrt(1 + 1e-5)
    assert tensors["w"].encoding.offset == -155
    assert tensors["w"].encoding.scale == pytest.approx(0.04 * factor, rel=1e-6)
    with pytest.raises(UsageError, match=r"param_encodings 'w'.*bn") as raised:
        quantized(network(tmp_path / "m.onnx"), file([0.04], offset=-100))
    assert "disable_batchnorm_folding=True" in raised.value.fix
    tensors, _ = quantized(tmp_path / "m.onnx", file([0.04], offset=-100), disable_batchnorm_folding=True)
    assert tensors["w"].encoding == ScaleOffset(0.04, -100)


def test_what_no_factor_per_channel_gives_is_refused_by_name(tmp_path):
    nodes = [
        helper.make_node("Mul", ["x", "colours"], ["n"], "normalize"),
        helper.make_node("Conv", ["n", "w"], ["y"], "conv", pads=[1, 1, 1, 1]),
    ]
    path = network(tmp_path / "m.onnx", nodes, colours=np.float32([1, 2, 3, 4]).reshape(1, 4, 1, 1))
    with pytest.raises(UsageError, match=r"param_encodings 'w'.*normalize"):
        quantized(path, file(scales_of(WEIGHT)))
    path = network(tmp_path / "m.onnx", nodes, colours=np.float32([1 / 255]).reshape(1, 1, 1, 1))
    found, _ = quantized(path, file(scales_of(WEIGHT)))
    np.testing.assert_allclose(found["w"].encoding.scales, np.float64(scales_of(WEIGHT)) / 255, rtol=2e-7)


def test_encodings_of_the_norm_and_of_a_merged_bias_have_no_effect(tmp_path):
    path = network(tmp_path / "m.onnx", b=RNG.standard_normal(CHANNELS))
    for name in ("gamma", "b"):
        found, notes = quantized(path, file([0.5] * CHANNELS, bits=32, name=name))
        assert found["w"].encoding.scales[0] < 0.5
        assert any("1 unused" in note for note in notes)


def test_a_norm_by_the_path_of_its_module_is_not_the_layer_before_it(tmp_path):
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "/conv1/Conv", pads=[1, 1, 1, 1]),
        helper.make_node(
            "BatchNormalization", ["c", "gamma", "beta", "mean", "variance"], ["y"], "/bn1/BatchNormalization"
        ),
    ]
    path = network(tmp_path / "m.onnx", nodes)
    found, notes = quantized(path, file([0.5], name="bn1.weight"))
    assert found["w"].encoding.scales[0] < 0.5
    assert any("0 matched, " in note and "1 unused" in note for note in notes)
    found, _ = quantized(path, file(scales_of(WEIGHT), name="conv1.weight"))
    np.testing.assert_allclose(found["w"].encoding.scales, scales_of(WEIGHT) * np.abs(FACTORS), rtol=2e-7)


def test_encodings_of_a_network_that_was_merged_before_stay(tmp_path):
    path = network(tmp_path / "m.onnx")
    merged = scales_of(WEIGHT * FACTORS.reshape(-1, 1, 1, 1))
    found, notes = quantized(path, file(merged))
    np.testing.assert_allclose(found["w"].encoding.scales, merged, rtol=1e-6)
    assert not any("scaled" in note for note in notes)


def test_exported_encodings_lead_to_the_same_model(tmp_path):
    model = xdlc.convert(network(tmp_path / "m.onnx"))
    quantized_once = xdlc.quantize(model, SAMPLES, weights_bitwidth=4, param_quantizer_calibration="sqnr")
    for version in ("0.6.1", "1.0.0", "2.0.0"):
        content = export_encodings(quantized_once, version)
        assert content["merged_weights"] == ["w"]
        again = xdlc.quantize(model, SAMPLES, quantization_overrides=content)
        assert again.main.tensors["w"].encoding == quantized_once.main.tensors["w"].encoding


def test_zeros_between_weights_and_orders_of_inputs_change_no_encoding(tmp_path):
    nodes = [
        helper.make_node("Gather", ["x", "reverse"], ["r"], "reverse", axis=1),
        helper.make_node("Conv", ["r", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("ConvTranspose", ["c", "turned"], ["y"], "spread", dilations=[2, 2]),
    ]
    turned = RNG.standard_normal((CHANNELS, 4, 2, 2)).astype(np.float32)
    path = network(tmp_path / "m.onnx", nodes, turned=turned)
    model = onnx.load(path)
    model.graph.initializer.append(numpy_helper.from_array(np.int64([3, 2, 1, 0]), "reverse"))
    onnx.save(model, path)
    for name, weight, axis in (("w", WEIGHT, 0), ("turned", turned, 1)):
        found, notes = quantized(path, file(scales_of(weight, axis=axis), name=name))
        assert found[name].encoding.scales == tuple(scales_of(weight, axis=axis))
        assert not any("scaled" in note for note in notes)


NAN = "AADAfwAAwH8AAMB/AADAfwAAwH8AAMB/AADAfwAAwH8="


@pytest.mark.parametrize("record", [[], [""], ["AACAPw=="], ["AACAP"], ["\u00e4"], [NAN]])
def test_factors_of_a_damaged_record_are_unknown(tmp_path, record):
    model = xdlc.convert(network(tmp_path / "m.onnx"))
    model.metadata["weight_factors"]["main"]["w"] = record
    with pytest.raises(UsageError, match=r"param_encodings 'w'.*bn"):
        xdlc.quantize(model, SAMPLES, quantization_overrides=file(scales_of(WEIGHT)), act_bitwidth=16)


@pytest.mark.parametrize("is_scaled", [False, True])
def test_a_matrix_after_an_image_follows_but_for_its_blocks(tmp_path, is_scaled):
    full = RNG.standard_normal((CHANNELS, 256)).astype(np.float32)
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], "relu"),
        helper.make_node("MaxPool", ["r"], ["m"], "pool", kernel_shape=[1, 1]),
        helper.make_node("Flatten", ["m"], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "full"], ["g"], "gemm", transB=1),
        helper.make_node("Mul" if is_scaled else "Add", ["g", "gamma"], ["y"], "last"),
    ]
    path = network(tmp_path / "m.onnx", nodes, full=full)
    found, _ = quantized(path, file(scales_of(full), name="full"))
    scales = np.float64(scales_of(full)) * (np.abs(GAMMA) if is_scaled else 1)
    np.testing.assert_allclose(found["full"].encoding.scales, scales, rtol=2e-7)
    row = {"name": "full", "enc_type": "PER_BLOCK", "dtype": "INT", "bw": 4, "is_sym": True, "block_size": 32}
    row |= {"scale": [0.5] * 64, "offset": [-8] * 64}
    content = {"version": "1.0.0", "activation_encodings": [], "param_encodings": [row]}
    with pytest.raises(UsageError, match=r"param_encodings 'full'.*another order"):
        quantized(path, content)


def test_scales_of_blocks_follow_channel_by_channel():
    override = Override(
        "w", "param", 4, grain=Grain.BLOCK, scales=(1, 2, 3, 4), offsets=(-8,) * 4, symmetric=True
    )
    assert override.times([0.5, -2.0]).scales == (0.5, 1.0, 6.0, 8.0)
    assert override.times([]) is None
    assert override.times([0.0, 1.0]).scales == (1, 2, 3, 4)
