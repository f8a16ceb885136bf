import numpy as np
import pytest

from tests.quant import heads
from tests.quant.conftest import Net
from tests.quant.heads import Head
from xdlc.ir import static
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


def sqnr(real, found):
    return 10 * np.log10(np.square(real).sum() / np.square(real - found).sum())


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
    ("options", "place"),
    [
        ({"act_bitwidth_of": {"join_13_op": 8}}, "join_13_op"),
        (OF_V66, "v66"),
    ],
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
