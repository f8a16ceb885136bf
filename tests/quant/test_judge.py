"""The judge of outputs: kinds, verdicts, and networks for which dB alone is wrong."""

import numpy as np
import pytest

from tests.quant.conftest import window
from tests.quant.heads import RELU, SIGMOID
from xdlc.errors import UsageError
from xdlc.ir import static, u32
from xdlc.options.quantizing import OutputKind
from xdlc.quant import quantize
from xdlc.quant.judge import OutputJudge, judged, kind_of, parts_of_outputs
from xdlc.quant.ladder import worst


def judge_of(graph, floats, kinds):
    values = [{"y": array} for array in floats]
    return OutputJudge(parts_of_outputs(graph, values, kinds), values)


def judge(net, shape, floats, kind):
    n = net(1, 4)
    y = n.op("Identity", [n.x], shape, "y")
    n.done(y)
    return judge_of(n.graph, floats, {"y": kind})


def verdict(net, kind, floats, rounded):
    score = judge(net, floats[0].shape, floats, kind).score([{"y": array} for array in rounded])
    (found,) = score.verdicts
    return found, score


def squares(rng, shape=(1, 32, 32, 1)):
    """A logit map of a square in the middle, sure inside and out."""
    logits = np.full(shape, -8.0, np.float32)
    logits[:, 8:24, 8:24] = 8.0
    return logits + rng.normal(0, 0.5, shape).astype(np.float32)


def test_a_mask_at_16_db_that_lost_its_object_in_one_sample_is_useless(net):
    rng = np.random.default_rng(0)
    floats = [squares(rng) for _ in range(8)]
    rounded = [array.copy() for array in floats]
    rounded[3][:, 8:20, 8:24] = -1.0  # three quarters of one object
    found, score = verdict(net, OutputKind.MAP, floats, rounded)
    _, plain = verdict(net, OutputKind.SIGNAL, floats, rounded)
    assert plain.mean_db > 15.0
    assert found.is_useless
    assert 0.6 < found.kept < 0.7
    assert score.is_poor


def test_a_mask_at_16_db_whose_pixels_stay_is_fine(net):
    rng = np.random.default_rng(0)
    floats = [squares(rng) for _ in range(8)]
    rounded = [array + rng.normal(0, 1.3, array.shape).astype(np.float32) for array in floats]
    found, score = verdict(net, OutputKind.MAP, floats, rounded)
    assert not found.is_poor
    _, plain = verdict(net, OutputKind.SIGNAL, floats, rounded)
    assert 14.0 < plain.mean_db < 17.0
    assert score.mean_db > plain.mean_db + 10.0  # probabilities of sure logits hardly move


def detector(rng, count=4):
    """Logits of 2,000 candidates: far negative, but for a few objects."""
    floats = []
    for _ in range(count):
        logits = -np.exp(rng.normal(4, 2, (1, 2000, 1))).astype(np.float32) - 3.0
        logits[0, rng.choice(2000, 12, replace=False), 0] = 4.0
        floats.append(logits)
    return floats


def test_false_positives_beside_far_negative_logits_are_seen_where_db_are_high(net):
    floats = detector(np.random.default_rng(0))
    rounded = [np.where(array > -7.0, array + 6.0, array) for array in floats]
    found, _ = verdict(net, OutputKind.SCORES, floats, rounded)
    _, plain = verdict(net, OutputKind.SIGNAL, floats, rounded)
    assert plain.mean_db > 30.0
    assert found.is_useless
    assert "0 lost, 564 wrong" in str(found)


def test_scores_close_to_their_threshold_decide_nothing(net):
    floats = [np.float32([[0.45, 0.55, 0.99, 0.01] * 20]) for _ in range(4)]
    n = net(1, 80)
    y = n.neuron(n.x, SIGMOID, "y")
    n.done(y)
    judge = judge_of(n.graph, floats, {"y": OutputKind.SCORES})
    near = [np.float32([[0.55, 0.45, 0.99, 0.01] * 20]) for _ in range(4)]
    far = [np.float32([[0.45, 0.55, 0.45, 0.01] * 20]) for _ in range(4)]
    assert judge.score([{"y": array} for array in near]).kept == 1.0
    assert judge.score([{"y": array} for array in far]).kept == pytest.approx(0.5)


def test_background_does_not_hide_lost_classes(net):
    rng = np.random.default_rng(0)
    floats = [rng.normal(0, 0.1, (1, 500, 3)).astype(np.float32) for _ in range(4)]
    for array in floats:
        array[..., 0] += 5.0
        array[:, :10, 2] += 10.0
    rounded = [array.copy() for array in floats]
    for array in rounded:
        array[:, :5, 2] -= 8.0
    found, _ = verdict(net, OutputKind.CLASSES, floats, rounded)
    assert found.kept == pytest.approx(0.5)
    assert found.is_useless


def test_a_text_is_right_as_a_whole(net):
    rng = np.random.default_rng(0)
    floats = [rng.normal(0, 0.1, (1, 80, 5)).astype(np.float32) for _ in range(8)]
    for array in floats:
        array[..., 0] += 5.0
        array[:, ::4, 2] += 10.0  # 20 characters between blanks
    rounded = [array.copy() for array in floats]
    for array in rounded[:4]:
        array[:, 8, 3] += 20.0
    found, _ = verdict(net, OutputKind.CLASSES, floats, rounded)
    assert found.kept == pytest.approx(0.5)  # not 156 of 160
    assert found.is_useless


def test_one_flip_in_eight_is_no_proof(net):
    rng = np.random.default_rng(0)
    floats = [np.roll(np.float32([[5, 0, 0, 0]]), shift % 4, axis=1) for shift in range(8)]
    rounded = [array + rng.normal(0, 0.1, array.shape).astype(np.float32) for array in floats]
    rounded[0] = rounded[0][:, ::-1]
    judged, _ = verdict(net, OutputKind.CLASSES, floats, rounded)
    assert judged.kept == 0.875
    assert not judged.is_useless
    for place in (1, 2, 3):
        rounded[place] = rounded[place][:, ::-1]
    judged, _ = verdict(net, OutputKind.CLASSES, floats, rounded)
    assert judged.is_useless


def test_coordinates_are_off_in_units_of_what_they_differ_by(net):
    rng = np.random.default_rng(0)
    means = rng.uniform(50, 150, (1, 40))
    floats = [(means + rng.normal(0, 8, (1, 40))).astype(np.float32) for _ in range(8)]
    rounded = [array + rng.normal(0, 3, array.shape).astype(np.float32) for array in floats]
    judged, score = verdict(net, OutputKind.LANDMARKS, floats, rounded)
    assert score.mean_db > 25.0
    assert judged.is_useless
    rounded = [array + rng.normal(0, 0.5, array.shape).astype(np.float32) for array in floats]
    judged, _ = verdict(net, OutputKind.LANDMARKS, floats, rounded)
    assert not judged.is_poor


def test_embeddings_are_judged_about_their_mean(net):
    rng = np.random.default_rng(0)
    floats = [(3.0 + rng.normal(0, 0.1, (1, 64))).astype(np.float32) for _ in range(8)]
    rounded = [array + rng.normal(0, 0.1, array.shape).astype(np.float32) for array in floats]
    found, score = verdict(net, OutputKind.EMBEDDING, floats, rounded)
    assert score.mean_db > 25.0
    assert found.is_useless


def test_nothing_to_judge_by_is_stated(net):
    floats = [np.full((1, 50, 1), -5.0, np.float32)] * 3
    found, _ = verdict(net, OutputKind.SCORES, floats, floats)
    assert found.doubt
    assert not found.is_poor
    found, _ = verdict(net, OutputKind.SCORES, floats, [np.full((1, 50, 1), np.nan, np.float32)] * 3)
    assert found.kept == 0.0


def test_scores_compare(net):
    rng = np.random.default_rng(0)
    floats = [squares(rng) for _ in range(8)]
    held = judge(net, floats[0].shape, floats, OutputKind.MAP)
    good = held.score([{"y": array + rng.normal(0, 0.1, array.shape)} for array in floats])
    bad = held.score([{"y": array + rng.normal(0, 6.0, array.shape)} for array in floats])
    assert good.is_gain(bad)
    assert bad.is_worse(good)
    assert not bad.is_gain(good)
    assert worst([*good.verdicts, *bad.verdicts]) is bad.verdicts[0]
    assert worst([]) is None


@pytest.mark.parametrize(
    ("shape", "values", "kind"),
    [
        ((1, 32, 32, 1), lambda rng, shape: squares(rng), OutputKind.MAP),
        ((1, 32, 32, 3), lambda rng, shape: rng.uniform(0, 1, shape), OutputKind.SIGNAL),
        ((1, 2000, 1), lambda rng, shape: detector(rng, 1)[0], OutputKind.SCORES),
        ((1, 2000, 4), lambda rng, shape: rng.uniform(0, 1, shape), OutputKind.BOXES),
        ((1, 16000), lambda rng, shape: rng.normal(0, 1, shape), OutputKind.SIGNAL),
        ((1, 512), lambda rng, shape: rng.normal(0, 1, shape), OutputKind.EMBEDDING),
        ((1, 16001), lambda rng, shape: rng.normal(0, 1, shape), OutputKind.SIGNAL),
        (
            (1, 136),
            lambda rng, shape: 50 + np.arange(136.0)[None] + rng.normal(0, 5, shape),
            OutputKind.LANDMARKS,
        ),
        ((1, 1), lambda rng, shape: rng.normal(0, 1, shape), OutputKind.SIGNAL),
    ],
)
def test_kinds(net, shape, values, kind):
    n, rng = net(1, 4), np.random.default_rng(0)
    y = n.op("Identity", [n.x], shape, "y")
    assert kind_of(y, [y], [np.float32(values(rng, shape)) for _ in range(6)]) is kind


@pytest.mark.parametrize(
    ("largest", "kind"), [((3, 3, 3, 3), OutputKind.LANDMARKS), ((3, 1, 3, 0), OutputKind.CLASSES)]
)
def test_four_values_with_one_largest_place_are_a_box(net, largest, kind):
    n = net(1, 4)
    y = n.op("FullyConnected", [n.x, n.weights("w", 4, 4)], (1, 4), "y")
    rng = np.random.default_rng(0)
    values = [rng.normal(0, 1, (1, 4)).astype(np.float32) for _ in largest]
    for array, place in zip(values, largest, strict=True):
        array[0, place] = 5.0
    assert kind_of(y, [y], values) is kind


def test_a_kind_that_is_named_holds_and_one_that_is_not_is_an_error(net):
    n = net(1, 8, 8, 4)
    model = n.done(n.conv(n.neuron(n.conv(n.x, 8, "a"), RELU, "r"), 4, "y"))
    lines = []
    quantize(model, n.samples(5), notify=lines.append, output_kind={"y": "scores"})
    assert any(line.startswith("judged 'y' as scores") for line in lines)
    with pytest.raises(UsageError, match="output_kind of 'y'"):
        quantize(model, n.samples(1), output_kind={"y": "pictures"})
    with pytest.raises(UsageError, match="no output"):
        quantize(model, n.samples(1), output_kind={"z": "map"})


def face_detector(net):
    """Logits far negative but for a few cells: background has range and mean."""
    n = net(1, 32, 32, 4)

    def conv(x, weight, bias, name):
        inputs = [x, static(f"{name}_w", np.float32(weight)), static(f"{name}_b", np.float32(bias))]
        return n.op("Conv2d", inputs, (1, 32, 32, len(bias)), name, **window())

    features = n.neuron(conv(n.x, n.rng.normal(0, 1, (1, 1, 4, 16)), np.zeros(16), "features"), RELU, "r")
    return n.done(conv(features, -20.0 * np.abs(n.rng.normal(0, 1, (1, 1, 16, 1))), [4.0], "y"))


def scene(seed):
    rng = np.random.default_rng(seed)
    picture = rng.normal(0, 1, (1, 32, 32, 4)) * np.exp(rng.normal(1, 1.5, (1, 32, 32, 1)))
    for cell in rng.choice(1024, 12, replace=False):
        held = picture[0, cell // 32, cell % 32]
        held *= 0.01 / np.abs(held).max()
    return {"x": picture.astype(np.float32)}


def test_a_detector_with_far_negative_logits_keeps_its_last_bias_and_is_warned_of(net):
    lines = []
    stored = quantize(face_detector(net), map(scene, range(20)), act_bitwidth=16, notify=lines.append).main
    (bias,) = [op.inputs[2] for op in stored.ops if op.outputs[0].name == "y"]
    scale = np.max(getattr(bias.encoding, "scales", None) or bias.encoding.scale)
    assert float(bias.numpy().ravel()[0]) * scale == pytest.approx(4.0, abs=scale)
    (figure,) = [line for line in lines if line.startswith("outputs of")]
    assert float(figure.split("'y' ")[1].split(" dB")[0]) > 50.0
    assert any(line.startswith("warning: output 'y'") for line in lines)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("kind", [kind for kind in OutputKind if kind is not OutputKind.LABELS])
def test_outputs_without_spread_are_no_false_alarm(net, kind, dtype):
    row = np.random.default_rng(0).normal(0, 1, (1, 64))
    for values, error in ((0 * row, 0.0), (0 * row + 6e4, 60.0), (row, 1e-3), (-1e4 * abs(row), 1.0)):
        floats = [values.astype(dtype)] * 8  # repeated samples, or a constant
        found, score = verdict(net, kind, floats, [(array + error).astype(dtype) for array in floats])
        assert not found.is_poor, (error, str(found))
        assert np.isfinite(score.db).all()


@pytest.mark.parametrize("kind", [OutputKind.BOXES, OutputKind.EMBEDDING, OutputKind.SIGNAL])
def test_a_constant_that_is_lost_is_useless(net, kind):
    floats = [np.full((1, 64), 3.0, np.float32)] * 8
    found, _ = verdict(net, kind, floats, [-array for array in floats])
    assert found.is_useless


def test_a_constant_coordinate_beside_others_has_their_size_as_unit(net):
    floats = [np.random.default_rng(seed).normal(0, 1, (1, 40, 4)).astype(np.float32) for seed in range(8)]
    for array in floats:
        array[..., 3] = 0.0
    small, large = ([array + error for array in floats] for error in (1e-3, 0.9))
    assert verdict(net, OutputKind.BOXES, floats, small)[0].kept == 1.0
    assert verdict(net, OutputKind.BOXES, floats, large)[0].kept == 0.0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", list(OutputKind))
def test_samples_without_values_and_masked_values_do_not_count(net, kind):
    rng = np.random.default_rng(0)
    floats = [rng.normal(0, 1, (rows, 64)).astype(np.float32) for rows in (3, 0, 5, 0, 4)]
    found, _ = verdict(net, kind, floats, floats)
    assert found.kept == 1.0
    for array in floats:
        array[:, :3] = -np.inf
    rounded = [np.maximum(array, -3e4) for array in floats]
    if kind is not OutputKind.LABELS:
        assert verdict(net, kind, floats, rounded)[0].kept == 1.0


@pytest.mark.parametrize(
    ("exact", "rounded", "words"),
    [
        ([1.0, 2.0, 3.0], [1.0, 2.0, 3.1], ""),
        ([1.0, 2.0, 3.0], [2.0, 4.0, 6.0], "dB"),
        ([1.0, 2.0, 3.0], [2.0, 2.0, 2.0], "constant"),
        ([1.0, 2.0, 3.0], [np.nan, 2.0, 3.0], "NaN"),
        ([0.0, 0.0, 0.0], [0.0, 0.1, 0.0], ""),
    ],
)
def test_values_that_say_nothing_are_useless(net, exact, rounded, words):
    found, _ = verdict(net, OutputKind.SIGNAL, [np.float32(exact)], [np.float32(rounded)])
    assert found.is_useless is bool(words)
    assert words in str(found)


def test_scores_without_any_may_be_constant_but_others_not(net):
    rng = np.random.default_rng(0)
    n = net(1, 80)
    n.done(n.neuron(n.x, SIGMOID, "y"))
    for highest, is_useless in ((0.002, False), (0.4, True)):
        floats = [rng.uniform(0, highest, (1, 80)).astype(np.float32) for _ in range(4)]
        judge = judge_of(n.graph, floats, {})
        (found,) = judge.score([{"y": 0 * array} for array in floats]).verdicts
        assert found.kind is OutputKind.SCORES
        assert found.is_useless is is_useless


def test_rounding_of_a_constant_is_no_loss(net):
    floats = [np.float32([[1.0, 1.0 + 1e-7, 1.0 - 1e-7] * 20])] * 4
    found, _ = verdict(net, OutputKind.SIGNAL, floats, [np.ones_like(array) for array in floats])
    assert not found.is_poor


@pytest.mark.parametrize("softmax", [True, False])
def test_channels_first_outputs_are_judged_as_channels_last(net, softmax):
    rng = np.random.default_rng(0)
    n = net(1, 16, 24, 3)
    if softmax:
        last = n.op("Softmax", [n.x], (1, 16, 24, 3), "last", axis=u32(3))
    else:
        last = n.neuron(n.x, SIGMOID, "last")
    moved = n.op("Transpose", [last], (1, 3, 16, 24), "y", perm=static("p", np.uint32([0, 3, 1, 2])))
    n.done(moved)
    (name,) = judged(n.graph)
    assert name == ("x" if softmax else "last")
    values = [{name: rng.uniform(0, 1, (1, 16, 24, 3)).astype(np.float32) ** 8} for _ in range(4)]
    (part,) = parts_of_outputs(n.graph, values, {})
    assert (part.output, part.kind) == ("y", OutputKind.CLASSES if softmax else OutputKind.MAP)


def test_scores_of_a_softmax_are_probabilities_where_the_user_wants_scores(net):
    rng = np.random.default_rng(0)
    n = net(1, 80)
    n.done(n.op("Softmax", [n.x], (1, 80), "y", axis=u32(1)))
    logits = [{"x": (5 * rng.normal(0, 1, (1, 80))).astype(np.float32)} for _ in range(8)]
    judge = OutputJudge(parts_of_outputs(n.graph, logits, {"y": OutputKind.SCORES}), logits)
    (found,) = judge.score(logits).verdicts
    assert int(found.words.split()[0]) <= 8  # not all logits above 0


@pytest.mark.parametrize(("dtype", "kind"), [(np.uint8, OutputKind.SIGNAL), (np.bool_, OutputKind.MAP)])
def test_integers_are_judged_as_the_user_says(net, dtype, kind):
    rng = np.random.default_rng(0)
    if dtype is np.bool_:
        floats = [rng.uniform(0, 1, (1, 32, 32, 1)) > 0.5 for _ in range(4)]
        rounded = floats
    else:
        floats = [rng.integers(0, 200, (1, 32, 32, 3)).astype(dtype) for _ in range(4)]
        rounded = [(array + rng.integers(-2, 3, array.shape)).clip(0, 255).astype(dtype) for array in floats]
    found, _ = verdict(net, kind, floats, rounded)
    assert not found.is_poor


def test_many_vectors_are_compared_within_bounds(net):
    rng = np.random.default_rng(0)
    floats = [rng.normal(0, 1, (1, 64, 64, 64)).astype(np.float32) for _ in range(4)]
    found, _ = verdict(net, OutputKind.EMBEDDING, floats, [array + np.float32(0.01) for array in floats])
    assert not found.is_poor


def test_a_part_with_small_values_is_lost_though_the_whole_is_not(net):
    rng = np.random.default_rng(0)
    n = net(1, 6, 50)
    boxes = n.op("Identity", [n.x], (1, 4, 50), "boxes")
    y = n.op("Concat", [boxes, n.x], (1, 10, 50), "y", axis=u32(1))
    n.done(y)
    floats = [
        np.concatenate([rng.uniform(0, 320, (1, 4, 50)), rng.uniform(0, 1, (1, 6, 50))], 1).astype(np.float32)
        for _ in range(4)
    ]
    rounded = [array + 0.3 for array in floats]
    for array in rounded:
        array[:, 4:] = 0.0
    judge = judge_of(n.graph, floats, {})
    (found,) = judge.score([{"y": array} for array in rounded]).verdicts
    assert found.is_useless
    assert found.place == "4:10 of axis 1"


def test_a_small_channel_of_a_signal_is_judged_alone_but_none_of_rounding_errors(net):
    rng = np.random.default_rng(0)
    floats = [(rng.uniform(-100, 100, (1, 50, 3)) * [1, 0.005, 1e-8]).astype(np.float32) for _ in range(4)]
    rounded = [array + np.float32([0.1, 0.0, 0.1]) for array in floats]
    judged, _ = verdict(net, OutputKind.SIGNAL, floats, rounded)
    assert not judged.is_poor
    rounded = [array + np.float32([0.1, 0.3, 0.1]) for array in floats]
    judged, _ = verdict(net, OutputKind.SIGNAL, floats, rounded)
    assert judged.is_useless
    assert judged.place.startswith("channel 1 ")


def test_no_benefit_of_the_doubt_where_logits_are_lost(net):
    floats = [np.roll(np.float32([[5, 0, 0, 0]]), shift % 4, axis=1) for shift in range(8)]
    rounded = [array.copy() for array in floats]
    rounded[0] = rounded[0][:, ::-1]
    found, _ = verdict(net, OutputKind.CLASSES, floats, rounded)
    assert found.at_most > found.kept
    rounded = [0.6 * array for array in rounded]
    found, _ = verdict(net, OutputKind.CLASSES, floats, rounded)
    assert found.at_most == found.kept == 0.875


def test_classes_that_all_have_one_label_may_be_none(net):
    rng = np.random.default_rng(0)
    floats = [
        (np.float32([[3.1, 3.9, 2.8]]) + rng.normal(0, 0.3, (1, 3))).astype(np.float32) for _ in range(8)
    ]
    n = net(1, 4)
    n.done(n.op("FullyConnected", [n.x, n.weights("w", 3, 4)], (1, 3), "y"))
    for kinds in ({}, {"y": OutputKind.CLASSES}):
        for noise in (0.1, 0.9):  # the largest stays the largest
            judge = judge_of(n.graph, floats, kinds)
            (found,) = judge.score([{"y": array + np.float32(noise)} for array in floats]).verdicts
            assert found.equal == 1.0
            assert found.doubt
            assert found.is_poor is (noise > 0.5 and not kinds)
