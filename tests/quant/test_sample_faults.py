"""Wrong calibration sets are named; right ones of each kind have no notice."""

import numpy as np
import pytest

from xdlc.errors import ConstraintError, UsageError
from xdlc.ir import Graph, Model, ScaleOffset, Tensor, i32, make_op, static, u32
from xdlc.ir.dtype import BOOL8, FLOAT32, INT32, UFIXED8
from xdlc.quant import quantize
from xdlc.quant.calibration.calibrate import calibrated
from xdlc.quant.engine import Engine
from xdlc.quant.options import QuantOptions
from xdlc.quant.plan import Plan
from xdlc.quant.report import Judgement
from xdlc.quant.sample_faults import find_faults, misfits
from xdlc.quant.sample_summary import SampleSummary
from xdlc.quant.samples import Samples

RELU, ADD, MULTIPLY, SUBTRACT = 4, 0, 13, 18
ROWS, COLUMNS = 24, 40
TINT = np.float32([1.0, 0.9, 0.8])


def pictures(count, rows=ROWS, columns=COLUMNS, seed=0):
    """Return smooth, similar fields in three channels, NHWC, from 0 to 1."""
    rng = np.random.default_rng(seed)
    down, right = np.mgrid[:rows, :columns] / 12.0
    images = []
    for _ in range(count):
        waves = rng.uniform(-2, 2, (6, 3))
        field = sum(np.sin(a * down + b * right + 9 * c) for a, b, c in waves)
        texture = 0.05 * rng.standard_normal((rows, columns, 1))
        colour = TINT * (1 + 0.2 * rng.standard_normal(3))
        picture = (field[..., None] * rng.uniform(0.6, 1.4, 3) + texture) * colour
        picture = (picture - picture.min()) / np.ptp(picture) * rng.uniform(0.7, 1.0)
        images.append(np.float32(picture * TINT)[None])
    return images


def planar(arrays):
    return [np.ascontiguousarray(array.transpose(0, 3, 1, 2)) for array in arrays]


def faults_of(model, samples):
    plan = Plan.of(model, QuantOptions())
    summary = SampleSummary(plan.graph, model.metadata.get("layouts", {}))
    calibration = calibrated(plan, Samples(samples), Engine(), summary)
    return find_faults(plan, calibration, Engine(), summary)


def kinds(model, samples, name="x"):
    """Return the kinds of faults, those that are questions with a question mark."""
    samples = [sample if isinstance(sample, dict) else {name: np.float32(sample)} for sample in samples]
    faults = faults_of(model, samples)
    assert all(fault.text and fault.fix for fault in faults)
    return [fault.kind + "?" * (not fault.is_certain) for fault in faults]


@pytest.fixture
def network(net):
    """Return a function that makes a network of pictures."""

    def make(form="NHWC", scale=1.0, front=(), shape=(1, ROWS, COLUMNS, 3)):
        n = net(*shape)
        x = n.x
        if form == "NCHW":
            n = net(shape[0], shape[3], *shape[1:3])
            x = n.op("Transpose", [n.x], shape, "channels_last", perm=static("perm", np.uint32([0, 2, 3, 1])))
        for place, (operation, value) in enumerate(front):
            constant = static(f"value{place}", np.atleast_1d(np.float32(value)))
            x = n.op("ElementWiseBinary", [x, constant], shape, f"f{place}", operation=u32(operation))
        relu = n.neuron(n.conv(x, 8, "c1"), RELU, "r1")
        y = n.mean(n.conv(relu, 4, "c2"), "y")
        model = n.done(y)
        weight = n.graph.tensors["c1_w"]
        weight.data = static("w", weight.numpy() * np.float32(scale)).data
        return model

    return make


# ---------------------------------------------------------------------- wrong sets of pictures


BYTES = [np.rint(picture * 255) for picture in pictures(12)]


def test_black_pictures(network):
    assert kinds(network(), [0 * picture for picture in pictures(12)]) == ["constant"]
    assert kinds(network(), [0 * p + place for place, p in enumerate(pictures(12))]) == ["constant"]


def test_equal_samples(network):
    assert kinds(network(), pictures(1) * 16) == ["identical"]
    assert kinds(network(), pictures(4) * 4) == ["identical"]


def test_one_sample_and_few(network):
    assert kinds(network(), pictures(1)) == ["few"]
    assert kinds(network(), pictures(7)) == ["few?"]


def test_bytes_for_fractions(network):
    assert kinds(network(), BYTES) == ["scale"]
    assert kinds(network(), [picture * 254.9 for picture in pictures(12)]) == ["scale"]  # resized


def test_fractions_for_bytes(network):
    assert kinds(network(scale=1 / 255), pictures(12)) == ["scale"]


def test_fractions_for_a_network_that_begins_with_the_scale_of_bytes(network):
    model = network(front=[(SUBTRACT, [123.7, 116.3, 103.5]), (MULTIPLY, 1 / 58)])
    assert kinds(model, pictures(12)) == ["scale"]


def test_samples_that_do_not_fit_the_encoding_of_the_input(network):
    model = network()
    model.main.inputs[0].encoding = ScaleOffset(1 / 255, 0, 8)
    assert kinds(model, BYTES) == ["scale"]


def test_pictures_that_are_normalized_twice(network):
    assert kinds(network(), [picture / 255 for picture in pictures(12)])[0] == "scale"
    assert kinds(network(), [(picture - 120) / 60 for picture in pictures(12)]) == ["scale"]


def test_channels_last_for_channels_first_and_the_reverse(network):
    first = [picture.reshape(1, 3, ROWS, COLUMNS) for picture in pictures(12)]
    assert kinds(network("NCHW"), first) == ["layout"]
    last = [picture.reshape(1, ROWS, COLUMNS, 3) for picture in planar(pictures(12))]
    assert kinds(network(), last) == ["layout"]


def test_rows_and_columns_exchanged(network):
    turned = [picture.transpose(0, 2, 1, 3).reshape(1, ROWS, COLUMNS, 3) for picture in pictures(12)]
    assert kinds(network(), turned) == ["turned"]


def test_channels_last_and_exchanged_for_channels_first(network):
    both = [picture.transpose(0, 2, 1, 3).reshape(1, 3, ROWS, COLUMNS) for picture in pictures(12)]
    assert kinds(network("NCHW"), both) == ["layout"]


@pytest.mark.parametrize(("form", "order"), [("NCHW", (0, 1, 2)), ("NCHW", (1, 0, 2)), ("NHWC", (2, 0, 1))])
def test_the_cures_of_layouts_are_right(network, form, order):
    """The transpose of the fix brings pictures of another order into the model's."""
    model = network(form)
    files = [np.ascontiguousarray(picture[0].transpose(order)) for picture in pictures(12)]
    samples = [{"x": file.reshape(model.main.inputs[0].shape)} for file in files]
    (fault,) = faults_of(model, samples)
    axes = [int(word) for word in fault.fix.split("(")[1].split(")")[0].split(",")]
    right = planar(pictures(1)) if form == "NCHW" else pictures(1)
    np.testing.assert_array_equal(files[0].transpose(axes), right[0][0])


def test_blank_pictures_among_good_ones(network):
    samples = pictures(12)
    samples[3] = samples[7] = 0 * samples[3]
    assert "blank" in kinds(network(), samples)


def test_a_channel_of_one_value(network):
    samples = [picture * np.float32([1, 1, 0]) for picture in pictures(12)]
    assert kinds(network(), samples) == ["channel"]


def test_noise(network):
    rng = np.random.default_rng(1)
    noise = [rng.standard_normal((1, ROWS, COLUMNS, 3)) for _ in range(12)]
    assert kinds(network(), noise) == ["noise?"]
    assert kinds(network("NCHW"), [array.reshape(1, 3, ROWS, COLUMNS) for array in noise]) == ["noise?"]


def test_noise_has_no_verdict_and_fails_below_any_figure(network):
    rng = np.random.default_rng(1)
    noise = [{"x": np.float32(rng.standard_normal((1, ROWS, COLUMNS, 3)))} for _ in range(12)]
    lines = []
    quantize(network(), noise, notify=lines.append)
    (line,) = (line for line in lines if isinstance(line, Judgement))
    assert line.verdict.startswith("not judged")
    with pytest.raises(ConstraintError, match="noise"):
        quantize(network(), noise, fail_below=1.0)
    turned = [{"x": picture.reshape(1, 3, ROWS, COLUMNS)} for picture in pictures(12)]
    with pytest.raises(ConstraintError, match="NHWC") as caught:
        quantize(network("NCHW"), turned, fail_below=1.0)
    assert "transpose" in caught.value.fix
    real = [{"x": picture} for picture in pictures(12)]
    quantize(network(), noise, report_list=real, notify=lines.append)
    assert not lines[-1].startswith("verdict: not judged")


def test_samples_to_run_have_the_scale_and_layout_of_the_inputs(network):
    model, right = network("NCHW"), [{"x": picture} for picture in planar(pictures(4))]
    wrong = [{"x": picture.reshape(1, 3, ROWS, COLUMNS)} for picture in pictures(4)]
    assert [fault.kind for fault in misfits(model.main, wrong)] == ["layout"]
    port = model.main.inputs[0]
    port.dtype, port.encoding = UFIXED8, ScaleOffset(1 / 255)
    assert misfits(model.main, right) == []
    assert [fault.kind for fault in misfits(model.main, wrong)] == ["layout"]
    large = [{"x": 255 * sample["x"]} for sample in right]
    assert [fault.kind for fault in misfits(model.main, large)] == ["scale"]
    stored = [{"x": np.uint8(sample["x"])} for sample in large]
    assert misfits(model.main, stored) == []


def test_one_real_sample_is_judged_with_a_warning(network):
    lines = []
    quantize(network(), [{"x": pictures(1)[0]}], fail_below=1.0, notify=lines.append)
    (line,) = (line for line in lines if isinstance(line, Judgement))
    assert not line.verdict.startswith("not judged")
    assert line.endswith("on 1 calibration sample")
    assert any(line.startswith("warning: calibration samples: there is only one") for line in lines)


@pytest.mark.filterwarnings("error")
def test_means_of_zero_have_no_order_of_colours(network):
    model = network(front=[(SUBTRACT, [0.4, 0.0, -0.4])])
    assert kinds(model, [picture - picture.mean() for picture in pictures(12)]) == []
    gray = [np.float32(picture.mean() * np.ones_like(picture)) for picture in pictures(12)]
    assert "colours?" not in kinds(model, gray)


def test_reverse_order_of_colours(network):
    model = network(front=[(SUBTRACT, [123.7, 116.3, 103.5]), (MULTIPLY, 1 / 58)])
    assert kinds(model, [picture[..., ::-1] for picture in BYTES]) == ["colours?"]


def test_batches_of_one_picture(network):
    model = network(shape=(2, ROWS, COLUMNS, 3))
    assert kinds(model, [np.repeat(picture, 2, axis=0) for picture in pictures(12)]) == ["batch"]


def test_frames_of_a_video(network):
    scenes = pictures(3, ROWS + 10, COLUMNS + 10, seed=4)
    frames = [scene[:, n : n + ROWS, n : n + COLUMNS] for scene in scenes for n in range(10)]
    assert kinds(network(), frames) == ["copies?"]
    mirrored = [picture[:, :, ::-1] if n % 5 == 4 else picture for n, picture in enumerate(pictures(12))]
    mirrored[4], mirrored[9] = mirrored[3][:, :, ::-1], mirrored[8][:, :, ::-1]
    assert kinds(network(), mirrored) == ["copies?"]


# ---------------------------------------------------------------------- wrong sets of other kinds


@pytest.fixture
def signal_network(net):
    n = net(1, 1, 2000, 1)
    return n.done(n.mean(n.neuron(n.conv(n.x, 4, "c1"), RELU, "r1"), "y"))


def signals(count):
    rng = np.random.default_rng(3)
    time = np.arange(2000) / 40
    waves = [(rng.uniform(0.1, 1.5, (5, 1)), rng.uniform(0, 6, (5, 1))) for _ in range(count)]
    sums = [np.sin(rate * time + phase).sum(0) for rate, phase in waves]
    return [np.float32(wave * rng.uniform(0.02, 0.18)).reshape(1, 1, 2000, 1) for wave in sums]


def test_clipped_signals(signal_network):
    assert kinds(signal_network, [np.clip(signal, -0.2, 0.2) for signal in signals(12)]) == ["clipped"]


def test_signals_of_16_bit_integers(signal_network):
    assert kinds(signal_network, [np.rint(signal * 32767) for signal in signals(12)]) == ["scale"]


def test_silence(signal_network):
    assert kinds(signal_network, [0 * signal for signal in signals(12)]) == ["constant"]


WORDS = 50


@pytest.fixture
def text_network():
    """Return int32 ids, which choose rows of a table, and a mask, which selects."""
    graph = Graph("net")
    ids, mask = (graph.add_input(Tensor(name, (1, 16), INT32)) for name in ("ids", "attention_mask"))
    rng = np.random.default_rng(0)
    table = static("table", rng.standard_normal((WORDS, 8)).astype(np.float32))

    def op(type, inputs, shape, name, dtype=FLOAT32, **params):
        out = Tensor(name, shape, dtype)
        graph.append(make_op(graph, type, inputs, [out], params, name=f"{name}_op"))
        return out

    rows = op("Gather", [table, ids], (1, 16, 8), "rows", axis=i32(0))
    factor = op("Reshape", [op("Cast", [mask], (1, 16), "real")], (1, 16, 1), "factor")
    graph.add_output(op("ElementWiseBinary", [rows, factor], (1, 16, 8), "y", operation=u32(MULTIPLY)))
    graph.verify()
    model = Model()
    model.add_graph(graph)
    return model


def texts(count):
    rng = np.random.default_rng(0)
    lengths = rng.integers(4, 17, count)
    masks = [np.int32(np.arange(16) < length)[None] for length in lengths]
    return [
        {"ids": np.int32(rng.integers(2, WORDS, (1, 16))) * mask, "attention_mask": mask} for mask in masks
    ]


def test_padding_alone(text_network):
    samples = [{**sample, "ids": 0 * sample["ids"]} for sample in texts(12)]
    assert "padding" in kinds(text_network, samples)


def test_a_mask_of_zeros(text_network):
    samples = [{**sample, "attention_mask": 0 * sample["attention_mask"]} for sample in texts(12)]
    assert kinds(text_network, samples) == ["mask"]


def test_ids_and_mask_exchanged(text_network):
    samples = [{"ids": s["attention_mask"], "attention_mask": s["ids"]} for s in texts(12)]
    assert kinds(text_network, samples) == ["swapped"]


def test_tokens_beyond_the_table(text_network):
    samples = texts(12)
    samples[5]["ids"][0, 3] = WORDS
    with pytest.raises(UsageError) as error:
        kinds(text_network, samples)
    assert error.value.where == "calibration sample 5, input 'ids'"
    samples[5]["ids"][0, 3] = -WORDS
    assert kinds(text_network, samples) == []


def test_inputs_exchanged_that_have_encodings(net):
    n = net(1, 64)
    other = n.graph.add_input(Tensor("z", (1, 64), FLOAT32))
    model = n.done(n.binary(n.x, other, ADD, "y"))
    n.x.encoding, other.encoding = ScaleOffset(0.01, 0, 8), ScaleOffset(1.0, 0, 8)
    rng = np.random.default_rng(0)
    right = [{"x": rng.uniform(0, 2, (1, 64)), "z": rng.uniform(0, 200, (1, 64))} for _ in range(12)]
    right = [{name: np.float32(array) for name, array in sample.items()} for sample in right]
    assert kinds(model, right) == []
    assert kinds(model, [{"x": sample["z"], "z": sample["x"]} for sample in right]) == ["scale", "scale"]


# ---------------------------------------------------------------------- right sets


def test_pictures_of_each_scale_and_layout(network):
    assert kinds(network(), pictures(12)) == []
    assert kinds(network("NCHW"), planar(pictures(12))) == []
    assert kinds(network(scale=1 / 255), BYTES) == []
    assert kinds(network(), [(picture - 0.45) / 0.22 for picture in pictures(12)]) == []
    model = network(front=[(SUBTRACT, [123.7, 116.3, 103.5]), (MULTIPLY, 1 / 58)])
    assert kinds(model, BYTES) == []


def test_pictures_of_grey_in_three_channels(network):
    grey = [np.repeat(picture[..., :1], 3, axis=-1) for picture in pictures(12)]
    assert kinds(network(), grey) == []
    assert kinds(network("NCHW"), planar(grey)) == []


def test_signals(signal_network):
    samples = signals(12)
    assert kinds(signal_network, samples) == []
    samples[2] = 0 * samples[2]  # silence is a right sample
    assert kinds(signal_network, samples) == []


def test_tokens_and_masks(text_network):
    assert kinds(text_network, texts(12)) == []
    full = [{**sample, "attention_mask": np.ones_like(sample["attention_mask"])} for sample in texts(12)]
    assert kinds(text_network, full) == []


@pytest.mark.parametrize("shape", [(1, 64), (1, 20, 10, 1), (1, 8, 8, 64), (4, 4, 4)])
def test_features(net, shape):
    n = net(*shape)
    model = n.done(n.neuron(n.x, RELU, "y"))
    assert kinds(model, n.samples(12)) == []
    assert kinds(model, [sample["x"] * 300 for sample in n.samples(12)]) == []


def test_masks_of_pictures(net):
    n = net(1, ROWS, COLUMNS, 1)
    model = n.done(n.mean(n.conv(n.x, 4, "c1"), "y"))
    masks = [picture[..., :1] > 0.4 for picture in pictures(12)]
    masks[3] = masks[3] & False
    assert kinds(model, masks) == []


def test_a_state_and_a_constant_beside_what_varies(net):
    n = net(1, 64)
    state = n.graph.add_input(Tensor("state", (1, 64), FLOAT32))
    flag = n.graph.add_input(Tensor("flag", (1,), BOOL8))
    model = n.done(n.binary(n.x, state, ADD, "y"))
    zeros = {state.name: np.zeros((1, 64), np.float32), flag.name: np.ones(1, bool)}
    assert kinds(model, [{**sample, **zeros} for sample in n.samples(12)]) == []


@pytest.mark.parametrize(
    ("shape", "factor", "term"), [((1, 10, 16), (16,), (10, 16)), ((1, 3, 32, 32), (3, 1, 1), (32,))]
)
def test_terms_of_positions_after_factors_of_channels(net, shape, factor, term):
    n = net(*shape)
    rng = np.random.default_rng(0)
    sizes = (static(name, np.float32(rng.uniform(1, 2, dims))) for name, dims in (("c", factor), ("p", term)))
    model = n.done(n.binary(n.binary(n.x, next(sizes), MULTIPLY, "scaled"), next(sizes), ADD, "y"))
    smooth = [np.float32(place + np.linspace(0, 1, n.x.size)).reshape(shape) for place in range(12)]
    assert kinds(model, smooth) == []


def test_a_term_of_positions_ends_the_scale_that_a_network_begins_with(network):
    scale = [(SUBTRACT, [123.7, 116.3, 103.5]), (MULTIPLY, 1 / 58)]
    model = network(front=[*scale, (ADD, np.zeros((COLUMNS, 3)))])
    assert kinds(model, pictures(12)) == ["scale"]


def sequence_kinds(n, lengths, layout=""):
    """Return the kinds of faults of noise in samples of several lengths."""
    y = n.neuron(n.x, RELU, "y")
    n.x.dynamic_axes = y.dynamic_axes = (1,)
    model = n.done(y)
    model.metadata["layouts"] = {"x": layout} if layout else {}
    rng = np.random.default_rng(0)
    return kinds(model, [rng.standard_normal((n.x.shape[0], length, *n.x.shape[2:])) for length in lengths])


@pytest.mark.parametrize("features", [(), (16,), (24, 3)])
def test_samples_of_several_lengths(net, features):
    lengths = [20, 3, 100, 7, 50, 1, 30, 40, 33, 90]
    assert "copies?" not in sequence_kinds(net(1, 20, *features), lengths)


def test_samples_without_elements_among_others(net):
    assert sequence_kinds(net(1, 20, 8), [20, 0, 20, 20, 20, 20, 0, 20, 20, 0]) == []


@pytest.mark.parametrize(("shape", "layout"), [((2, 60, 512), "NFC"), ((1, 3, 24, 40), "NCHW")])
def test_channels_of_several_lengths(net, shape, layout):
    lengths = [60, 100, 7] if layout == "NFC" else [3, 1, 4]
    assert sequence_kinds(net(*shape), lengths * 4, layout) == []


# ---------------------------------------------------------------------- what a quantization says


def test_two_lines_for_each_input_and_the_faults(network):
    notes = []
    quantize(network(), [{"x": picture} for picture in pictures(4) * 4], notify=notes.append)
    assert sum(line.startswith("input 'x'") for line in notes) == 2
    (warning,) = [line for line in notes if line.startswith("warning: calibration")]
    assert "4 of 16" in warning


def test_processes_and_iterators_say_the_same(network):
    def said(samples, **options):
        notes = []
        quantize(network(), samples, notify=notes.append, act_quantizer_calibration="min-max", **options)
        return [line for line in notes if line.startswith(("input", "warning", "calibration"))]

    samples = [{"x": picture} for picture in BYTES]
    assert said(samples) == said(iter(samples)) == said(samples, jobs=2)


def test_problems_are_what_is_certain(network):
    faults = faults_of(network(), [{"x": picture} for picture in BYTES])
    assert sum(fault.is_problem for fault in faults) == 1
    questions = faults_of(network(), [{"x": picture} for picture in pictures(7)])
    assert questions
    assert not any(fault.is_problem for fault in questions)


def test_advice_names_the_samples_while_they_are_at_fault(net):
    """Channels of unlike sizes that 8 bits lose, with equal and other samples."""
    n = net(1, ROWS, COLUMNS, 3)
    model = n.done(n.neuron(n.conv(n.x, 4, "c1"), 8, "y"))
    weight = n.graph.tensors["c1_w"]
    weight.data = static("w", weight.numpy() * np.float32([1e-4, 1, 1, 300])).data
    n.graph.tensors["c1_b"].data = static("b", np.float32([0, 1, 2, 0])).data

    def advice(samples):
        notes = []
        quantize(model, [{"x": sample} for sample in samples], notify=notes.append)
        return [note for note in notes if note.startswith("warning: output")]

    right, wrong = advice(pictures(12)), advice(pictures(1) * 12)
    assert any("bit" in line for line in right)
    assert wrong
    assert not any("bit" in line for line in wrong)


def test_quantized_inputs_have_the_values_of_their_encoding(network):
    model = network()
    graph = model.main
    graph.inputs[0].encoding = ScaleOffset(1 / 255, 0)
    graph.inputs[0].dtype = UFIXED8
    summary = SampleSummary(graph, {})
    for number, picture in enumerate(BYTES):
        summary.add(number, {"x": picture.astype(np.uint8)})
    assert summary.inputs["x"].seen.high <= 1.0


def test_figures_of_a_list_of_ones_own(network):
    notes, samples = [], [{"x": picture} for picture in pictures(12)]
    model = network()
    own = iter({"x": picture} for picture in pictures(3, seed=8))
    made = quantize(model, samples, report_list=own, notify=notes.append)
    assert any(line.startswith("outputs of 3 held-out samples") for line in notes)
    other = quantize(model, samples)
    assert {t.name: t.encoding for t in made.main.tensors.values()} == {
        t.name: t.encoding for t in other.main.tensors.values()
    }
    with pytest.raises(UsageError, match="report_list"):
        quantize(model, samples, report_list=[], step=pytest.fail)
    held_out = [*samples[:2], {"x": np.full_like(samples[0]["x"], np.nan)}]
    with pytest.raises(UsageError) as error:
        quantize(model, samples, report_list=held_out)
    assert error.value.where == "held-out sample 2, 'x'"
