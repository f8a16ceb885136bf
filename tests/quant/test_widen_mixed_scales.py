import numpy as np
import pytest

from tests.quant import heads
from tests.quant.conftest import Net
from tests.quant.heads import Head
from tests.support.accuracy import sqnr
from xdlc.ir import static, u32
from xdlc.quant import quantize
from xdlc.quant.widening.mixed_scales import parts_of, unlike_parts
from xdlc.runtime.cpu import CpuSession

KINDS = ("yolov5", "yolov5_in_place", "yolov7", "yolov8", "yolox", "ssd_in_pixels", "retinaface")
OF_V66 = {"target": "sm8250", "use_per_channel_quantization": False, "use_per_row_quantization": False}
MIN_MAX = {"act_quantizer_calibration": "min-max"}


def made(kind):
    """Return the head, its model and the name of its output."""
    head = Head()
    out = getattr(heads, kind)(head)
    return head, head.done(out), out.name


def outputs(model, samples, name):
    session = CpuSession(model)
    return np.concatenate([session.run(sample)[name] for sample in samples])


def widths(model):
    return {tensor.name: tensor.dtype.bits for op in model.main.ops for tensor in op.outputs}


@pytest.mark.parametrize("kind", KINDS)
def test_boxes_and_scores_survive_at_the_defaults(kind):
    head, model, name = made(kind)
    model_8 = quantize(model, head.samples(6), **MIN_MAX)
    fresh = head.samples(4, seed=2)
    real, found = outputs(model, fresh, name), outputs(model_8, fresh, name)
    parts = unlike_parts(parts_of(model.main.tensors[name]), [real])
    assert len(parts) == 2
    boxes, scores = ((part.of(real), part.of(found)) for part in parts)
    assert sqnr(*boxes) > 30
    assert sqnr(*scores) > 20
    confident = scores[0] > 0.5
    assert confident.sum() > 10
    assert (scores[1][confident] > 0.4).all()


def test_what_is_alike_keeps_8_bits():
    head, model, _ = made("ssd")
    notes = []
    made_8 = quantize(model, head.samples(4), notify=notes.append, **MIN_MAX)
    assert set(widths(made_8).values()) == {8}
    assert not any("joins" in note for note in notes)


def test_the_note_has_the_bytes_that_the_wider_ops_add():
    head, model, _ = made("yolox")
    notes = []
    quantize(model, head.samples(4), notify=notes.append, **MIN_MAX)
    (factor,) = [float(note.split()[-4]) for note in notes if "times the bytes" in note]
    assert factor > 1.01


def test_the_parts_keep_their_own_8_bits_before_the_join():
    _, model, _ = made("yolox")
    head = Head()
    made_8 = quantize(model, head.samples(4), **MIN_MAX).main
    (join,) = [op for op in made_8.ops if op.type == "Concat"]
    convert = join.inputs[2].producer
    assert convert.type == "Convert"
    scores = convert.inputs[0]
    assert (scores.dtype.bits, scores.encoding.scale) == (8, 1 / 256)
    assert join.outputs[0].dtype.bits == 16
    assert all(width == 8 for name, width in widths_of_layers(made_8).items())


def widths_of_layers(graph):
    return {op.name: op.outputs[0].dtype.bits for op in graph.ops if op.type == "Conv2d"}


def test_large_values_that_are_joined_have_no_headroom_at_16_bits():
    head, model, name = made("yolox")
    samples = head.samples(4)
    result = quantize(model, samples, act_bitwidth=16).main.tensors[name]
    highest = np.abs(outputs(model, samples, name)).max()
    assert result.encoding.scale * 65535 < 1.3 * highest


@pytest.mark.parametrize(
    ("options", "place"), [({"act_bitwidth_of": {"join_13_op": 8}}, "join_13_op"), (OF_V66, "v66")]
)
def test_where_16_bits_are_excluded_a_note_names_op_and_flag(options, place):
    head, model, _ = made("yolox")
    notes = []
    made_8 = quantize(model, head.samples(4), notify=notes.append, **MIN_MAX, **options)
    assert 16 not in widths(made_8).values()
    (note,) = [note for note in notes if note.startswith("warning: 'join_")]
    assert place in note


def test_a_layer_that_reads_unlike_parts_computes_with_16_bits():
    net = Net(1, 8, 8, 3)
    small, large = net.conv(net.x, 8, "small"), net.conv(net.x, 8, "large")
    large.producer.inputs[1].data = static("v", large.producer.inputs[1].numpy() * 300).data
    layer = net.conv(net.concat([small, large], "joined"), 4, "layer")
    weights = layer.producer.inputs[1]
    values = weights.numpy().copy()
    values[:, :, 8:] /= 300
    weights.data = static("v", values).data
    for index in range(12):
        layer = net.conv(net.neuron(layer, 4, f"relu_{index}"), 16, f"more_{index}")
    bits = widths(quantize(net.done(layer), net.samples(4), **MIN_MAX))
    assert {name for name, width in bits.items() if width == 16} == {"joined", "layer"} | {
        name for name in bits if name.endswith("_16_bits")
    }


def test_widths_do_not_depend_on_a_report(tmp_path):
    head, model, _ = made("yolov8")
    samples = head.samples(10)
    plain = quantize(model, samples, **MIN_MAX)
    reported = quantize(model, samples, report=tmp_path / "r.json", **MIN_MAX)
    assert widths(plain) == widths(reported)


def test_low_scores_of_samples_without_a_detection_are_not_lost():
    head = Head()
    boxes = head.with_constant(head.flat(head.layer(head.feature, 4, 30.0, 100.0)), heads.MULTIPLY, [3.0])
    scores = head.sigmoid(head.flat(head.layer(head.feature, 2, 0.3, -5.5)))
    notes = []
    quantize(head.done(head.join(boxes, scores)), head.samples(6), notify=notes.append, **MIN_MAX)
    assert any("joins" in note for note in notes)
    assert not any(note.startswith("warning") for note in notes)


SIGMOID, MULTIPLY = 6, 13


def bounds(net, out):
    net.done(out)
    return [(part.axis, part.start, part.stop) for part in parts_of(out)]


def head(net, name, cells=4):
    """Boxes and scores of one level, 1 x cells x 6, from all of what the net is given."""
    boxes = net.conv(net.x, 4, f"{name}_boxes")
    scores = net.neuron(net.conv(net.x, 2, f"{name}_classes"), SIGMOID, f"{name}_scores")
    return net.reshape(net.concat([boxes, scores], f"{name}_joined"), (1, cells, 6), f"{name}_flat")


def test_a_concat_parts_an_output_through_views_and_products():
    net = Net(1, 2, 2, 3)
    flat = head(net, "level")
    moved = net.op("Transpose", [flat], (1, 6, 4), "moved", perm=static("p", np.uint32([0, 2, 1])))
    assert bounds(net, net.binary(moved, static("half", np.float32([0.5])), MULTIPLY, "out")) == [
        (1, 0, 4),
        (1, 4, 6),
    ]


def test_levels_that_are_parted_alike_keep_the_parts_of_their_channels():
    net = Net(1, 2, 2, 3)
    levels = [head(net, name) for name in ("one", "two")]
    joined = net.op("Concat", levels, (1, 8, 6), "out", axis=u32(1))
    assert bounds(net, joined) == [(2, 0, 4), (2, 4, 6)]
    (boxes, scores) = parts_of(net.graph.tensors["out"])
    assert [source.name for source in scores.sources] == ["one_scores", "two_scores"]
    assert len(boxes.sources) == 2


def test_concats_in_concats_part_on_one_axis():
    net = Net(1, 2, 2, 3)
    pair = net.concat([net.conv(net.x, 2, "xy"), net.conv(net.x, 2, "wh")], "pair")
    assert bounds(net, net.concat([pair, net.conv(net.x, 1, "c")], "out")) == [
        (3, 0, 2),
        (3, 2, 4),
        (3, 4, 5),
    ]


def test_a_scatter_into_a_slice_parts_its_result():
    net = Net(1, 2, 2, 5)
    x = net.reshape(net.x, (4, 5), "flat")
    rows, columns = np.meshgrid(np.arange(4), [1, 2], indexing="ij")
    indices = static("where", np.stack([rows, columns], axis=-1).astype(np.int32))
    out = net.op("ScatterNd", [x, indices, net.weights("new", 4, 2)], (4, 5), "out")
    assert bounds(net, out) == [(1, 0, 1), (1, 1, 3), (1, 3, 5)]


def test_indices_of_fewer_rows_than_the_data_have_part_no_result():
    net = Net(1, 2, 2, 5)
    x = net.reshape(net.x, (4, 5), "flat")
    indices = static("where", np.array([[1, 0], [0, 1]], np.int32))
    out = net.op("ScatterElements", [x, indices, net.weights("new", 2, 2)], (4, 5), "out", axis=u32(1))
    assert bounds(net, out) == []


@pytest.mark.parametrize(
    ("factors", "expected"), [([640] * 4 + [1], [(3, 0, 4), (3, 4, 5)]), ([3, 2, 1, 1, 1], [])]
)
def test_factors_that_differ_per_channel_part_a_product(factors, expected):
    net = Net(1, 2, 2, 5)
    assert bounds(net, net.binary(net.x, static("by", np.float32(factors)), MULTIPLY, "out")) == expected


def test_what_computes_over_its_input_is_one_part():
    net = Net(1, 2, 2, 3)
    joined = net.concat([net.conv(net.x, 2, "a"), net.conv(net.x, 2, "b")], "joined")
    assert bounds(net, net.conv(joined, 4, "out")) == []


def test_neighbours_of_like_size_are_one_part():
    net = Net(1, 2, 2, 3)
    parts = [net.conv(net.x, 2, name) for name in ("xy", "wh", "scores")]
    net.done(net.concat(parts, "out"))
    values = np.full((1, 2, 2, 6), 0.5, np.float32)
    values[..., :2], values[..., 2:4] = 300.0, -90.0
    joined = unlike_parts(parts_of(net.graph.tensors["out"]), [np.zeros_like(values), values])
    assert [(part.start, part.stop) for part in joined] == [(0, 4), (4, 6)]
    np.testing.assert_array_equal(joined[1].of(values), 0.5)
