import numpy as np
import pytest

from tests.quant.conftest import decided_plan
from xdlc.container import load
from xdlc.errors import UsageError
from xdlc.ir import AxisScaleOffset, BlockScaleOffset, BlockwiseExpansion, ScaleOffset, static
from xdlc.ir.dtype import SFIXED8, SFIXED16, SFIXED32, UFIXED8, UFIXED16
from xdlc.ir.quantization import float_data
from xdlc.quant import quantize
from xdlc.quant.storing import store
from xdlc.runtime.cpu import CpuSession


def small(net, cin=16):
    """Return a 3x3 convolution, one of 1x1 and a FullyConnected one behind the other."""
    n = net(1, 4, 4, cin)
    wide = n.conv(n.x, 16, "wide")
    point = n.conv(wide, 32, "point", kernel=1)
    flat = n.reshape(point, (1, 512), "flat")
    rows = [n.weights("rows_w", 5, 512, scale=0.05), n.weights("rows_b", 5)]
    return n, n.done(n.op("FullyConnected", [flat, *rows], (1, 5), "y"))


def finished(n, model, **options):
    """Return the stored plan, and the notes."""
    plan, _ = decided_plan(model.clone(), n.samples(4), **options)
    return plan, store(plan, {})


@pytest.mark.parametrize(
    ("bits", "dtype", "marked"), [(2, SFIXED8, 2), (4, SFIXED8, 4), (8, SFIXED8, None), (16, SFIXED16, None)]
)
def test_widths_and_granularity(net, bits, dtype, marked):
    n, model = small(net)
    acts = 16 if bits == 16 else 8
    tensors = quantize(model, n.samples(2), weights_bitwidth=bits, act_bitwidth=acts).main.tensors
    for name, axis, count in (("wide_w", 3, 16), ("point_w", 3, 32), ("rows_w", 0, 5)):
        encoding = tensors[name].encoding
        assert tensors[name].dtype is dtype
        assert isinstance(encoding, AxisScaleOffset)
        assert (encoding.axis, len(encoding.scales), encoding.bits) == (axis, count, marked)


def test_convolutions_and_rows_are_independent(net):
    n, model = small(net)
    for conv, rows in ((True, False), (False, True)):
        given = {"use_per_channel_quantization": conv, "use_per_row_quantization": rows}
        tensors = quantize(model, n.samples(2), **given).main.tensors
        assert isinstance(tensors["point_w"].encoding, AxisScaleOffset) is conv
        assert isinstance(tensors["rows_w"].encoding, AxisScaleOffset) is rows


@pytest.mark.parametrize(
    ("given", "dtype", "offset"),
    [
        ({}, UFIXED8, None),
        ({"param_quantizer_calibration": "percentile"}, UFIXED8, None),
        ({"param_quantizer_schema": "symmetric"}, SFIXED8, 0),
        ({"param_quantizer_calibration": "symmetric"}, SFIXED8, 0),
        ({"param_quantizer_schema": "unsignedsymmetric"}, UFIXED8, -128),
        ({"weights_bitwidth": 4}, SFIXED8, 0),
    ],
)
def test_schemas_of_weights_with_one_scale(net, given, dtype, offset):
    n, model = small(net)
    plain = {"use_per_channel_quantization": False, "use_per_row_quantization": False}
    weight = quantize(model, n.samples(2), **plain, **given).main.tensors["wide_w"]
    assert weight.dtype is dtype
    assert isinstance(weight.encoding, ScaleOffset)
    assert offset is None or weight.encoding.offset == offset
    error = np.abs(float_data(weight).numpy() - model.main.tensors["wide_w"].numpy())
    assert np.median(error) <= weight.encoding.scale / 2


@pytest.mark.parametrize("lpbq", [False, True])
def test_blocks(net, tmp_path, lpbq):
    n, model = small(net)
    plan, notes = finished(n, model, weights_bitwidth=4, weights_block_size=8, use_lpbq=lpbq)
    tensors = plan.graph.tensors
    assert isinstance(tensors["wide_w"].encoding, AxisScaleOffset)
    assert notes[:1] == [
        "weights of 'wide_op' get one scale per channel, not per block: only 1x1 Conv2d without "
        "groups and FullyConnected support scales per block"
    ]
    for name, axis, channels, inputs in (("point_w", 3, 32, 16), ("rows_w", 0, 5, 512)):
        encoding = tensors[name].encoding
        if lpbq:
            assert isinstance(encoding, BlockwiseExpansion)
            assert (encoding.axis, encoding.blocks_per_axis) == (3, inputs // 8)
            assert len(encoding.scales) == channels
            assert max(encoding.block_scales) <= 16
        else:
            assert isinstance(encoding, BlockScaleOffset)
            assert encoding.block_shape == ((1, 1, 8, 1) if axis else (1, 8))
        stored = tensors[name].numpy()
        assert -8 <= stored.min() < 0 < stored.max() <= 7
    plan.model.save(tmp_path / "blocks.dlc")
    loaded = load(tmp_path / "blocks.dlc")
    (sample,) = n.samples(1, seed=9)
    here, there = (CpuSession(graph).run(sample)["y"] for graph in (plan.graph, loaded.main))
    np.testing.assert_array_equal(here, there)
    assert loaded.main.tensors["rows_w"].encoding == tensors["rows_w"].encoding


@pytest.mark.parametrize("block_options", [{}, {"use_lpbq": True}])
def test_blocks_round_better_than_channels(net, block_options):
    n, model = small(net)
    weights = model.main.tensors["rows_w"].numpy()

    def error(**options):
        weight = finished(n, model, weights_bitwidth=4, **options)[0].graph.tensors["rows_w"]
        values = float_data(weight).numpy()
        return np.square((values if values.ndim == 2 else values[0, 0].T) - weights).sum()

    assert error(weights_block_size=8, **block_options) < 0.7 * error()


def test_min_max_blocks_clip_nothing(net):
    n, model = small(net)
    blocks = {"weights_block_size": 16, "use_lpbq": True, "param_quantizer_calibration": "min-max"}
    weight = finished(n, model, weights_bitwidth=4, **blocks)[0].graph.tensors["point_w"]
    error = np.abs(float_data(weight).numpy() - model.main.tensors["point_w"].numpy())[0, 0]
    steps = np.float32(weight.encoding.scales) * np.float32(weight.encoding.block_scales)
    assert (error <= steps / 2 * (1 + 1e-5)).all()


def test_blocks_that_fit_no_weight_are_refused(net):
    n, model = small(net)
    with pytest.raises(UsageError, match="no weight of the graph can have a scale per block"):
        quantize(model, n.samples(2), weights_bitwidth=4, weights_block_size=7)


def test_extents_that_a_block_does_not_divide_keep_a_scale_per_channel(net):
    n, model = small(net)
    plan, notes = finished(n, model, weights_bitwidth=4, weights_block_size=64)
    assert isinstance(plan.graph.tensors["point_w"].encoding, AxisScaleOffset)
    assert any("'point_op'" in note and "16 input channels" in note for note in notes)


def test_restricted_steps_bound_what_is_stored(net):
    n, model = small(net)
    given = {"restrict_quantization_steps": (-0x40, 0x3F), "param_quantizer_calibration": "mse"}
    stored = quantize(model, n.samples(2), **given).main.tensors["wide_w"].numpy()
    assert stored.min() >= -0x40
    assert stored.max() <= 0x3F


def test_large_biases_widen_the_weights_or_are_clipped(net):
    n = net(1, 4, 4, 2)
    y = n.conv(n.x, 2, "c")
    bias = n.graph.tensors["c_b"]
    n.graph.tensors["c_w"].data.numpy()[..., 0] *= 1e-9
    model = n.done(y)
    (adjusted, grown_notes), (left, clipped_notes) = (
        finished(n, model, adjust_bias_encoding=adjusts) for adjusts in (True, False)
    )
    scales = [plan.graph.tensors["c_w"].encoding.scales for plan in (adjusted, left)]
    assert scales[0][0] > 10 * scales[1][0]
    assert scales[0][1] == scales[1][1]
    np.testing.assert_allclose(
        float_data(adjusted.graph.tensors["c_b"]).numpy(), bias.numpy(), rtol=1e-5, atol=1e-3
    )
    grown = scales[0][0] / scales[1][0]
    assert len(grown_notes) == 1
    for part in ("1 layer", "1 scale", "biases fit 32 bits", f"{grown:.4g} in 'c_op'"):
        assert part in grown_notes[0]
    assert len(clipped_notes) == 1
    assert "1 of 2 biases of 'c_op'" in clipped_notes[0]


def test_blocks_whose_biases_are_large_are_noted(net):
    n, model = small(net)
    model.main.tensors["rows_w"].data.numpy()[:] *= 1e-9
    blocks = {"weights_bitwidth": 4, "weights_block_size": 8, "use_lpbq": True}
    notes = finished(n, model, **blocks)[1]
    assert any("biases fit 32 bits" in note and "'y_op'" in note for note in notes)
    assert not any(
        "biases fit" in note for note in finished(n, model, **blocks, adjust_bias_encoding=False)[1]
    )


def test_factors_too_small_for_htp_are_noted(net):
    n = net(1, 4, 4, 2)
    y = n.conv(n.x, 2, "c", bias=False)
    n.graph.tensors["c_w"].data.numpy()[..., 0] *= 1e-6
    model = n.done(y)
    noted = {bits: finished(n, model, act_bitwidth=bits)[1] for bits in (8, 16)}
    assert noted[8] == []
    assert any("1 scale(s) grew so that HTP" in note and "'c_op'" in note for note in noted[16])


def clip_notes(notes):
    return [note for note in notes if "xdlc clips" in note and note.startswith("weights of")]


@pytest.mark.parametrize(
    "options", [{}, {"weights_block_size": 8}, {"weights_block_size": 8, "use_lpbq": True}]
)
def test_clipped_weights_are_noted(net, options):
    n, model = small(net)
    _, tight = finished(n, model, weights_bitwidth=4, **options)
    _, plain = finished(n, model, weights_bitwidth=4, param_quantizer_calibration="min-max", **options)
    assert len(clip_notes(tight)) == 1
    assert "param_quantizer_calibration='min-max'" in clip_notes(tight)[0]
    assert clip_notes(plain) == clip_notes(finished(n, model)[1]) == []


def test_the_note_counts_what_is_beyond_the_ends(net):
    n = net(1, 4, 4, 4)
    model = n.done(n.conv(n.x, 4, "c"))
    weight = model.main.tensors["c_w"].numpy()
    plan, notes = finished(n, model, weights_bitwidth=4)
    units = weight / np.float32(plan.graph.tensors["c_w"].encoding.scales)
    clipped = ((units > 7.5) | (units < -8.5)).mean()
    largest = max(units.max() / 7, units.min() / -8)
    assert 0.0 < clipped < 0.1
    (note,) = clip_notes(notes)
    for part in ("1 layer", f"{100 * clipped:.2g} %", f"{largest:.3g} times", "'c_op'", "'min-max'"):
        assert part in note


def test_constants_have_the_width_of_their_op(net):
    n = net(1, 4, 4, 3)
    scale = n.weights("factor", 3)
    scaled = n.op("Batchnorm", [n.x, scale, n.weights("shift", 3)], n.x.shape, "bn")
    total = n.binary(scaled, static("constant", np.float32([1, 2, 3])), 0, "y")
    model = n.done(total)
    for bits, dtype in ((8, UFIXED8), (16, UFIXED16)):
        tensors = quantize(model, n.samples(2), act_bitwidth=bits).main.tensors
        assert tensors["factor"].dtype is dtype
        assert tensors["constant"].dtype is dtype
        assert tensors["shift"].dtype is SFIXED32


def test_biases_of_eight_bits(net):
    n, model = small(net)
    plain = {"use_per_channel_quantization": False, "bias_bitwidth": 8}
    tensors = quantize(model, n.samples(2), **plain).main.tensors
    assert tensors["wide_b"].dtype is UFIXED8
    assert tensors["rows_b"].dtype is SFIXED32
