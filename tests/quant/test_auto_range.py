import numpy as np
import pytest

from xdlc.quant import auto_range as module
from xdlc.quant.auto_range import CANDIDATES, choose
from xdlc.quant.calibration.calibrate import Spread, calibrated
from xdlc.quant.engine import Engine
from xdlc.quant.judge import Score, judged, parts_of_outputs
from xdlc.quant.options import QuantOptions
from xdlc.quant.plan import Plan
from xdlc.quant.precision import Precision
from xdlc.quant.range_methods import Choice
from xdlc.quant.samples import Samples

RELU, SIGMOID = 4, 6


def chosen(model, samples, **options):
    plan = Plan.of(model, QuantOptions(**options))
    calibration = calibrated(plan, Samples(samples), Engine())
    return choose(plan, calibration, Engine()), calibration


def classifier(net):
    n = net(1, 8, 8, 3)
    logits = n.mean(n.conv(n.neuron(n.conv(n.x, 8, "c1"), RELU, "r1"), 4, "c2"), "logits")
    return n, n.done(n.op("Softmax", [logits], logits.shape, "y"))


def samples_with_outliers(n, count):
    samples = n.samples(count)
    for sample in samples:
        sample["x"][0, 0, 0, 0] = 300.0
    return samples


def test_auto_clips_where_that_helps(net):
    n, model = classifier(net)
    plan, calibration = chosen(model, samples_with_outliers(n, 8))
    assert plan.choice in CANDIDATES
    plan = plan.decided(calibration)
    forms = {tensor.name: form for tensor, form in plan.decision.activations.items()}
    assert str(plan.choice) in plan.notes[0]
    assert (plan.choice != CANDIDATES[0]) is ("min-max at" in plan.notes[0])
    assert plan.decision.sources[plan.graph.tensors["x"]] == f"{plan.choice} of 8 samples"
    assert forms["x"][1].scale <= 305.0 / 255


def test_auto_keeps_min_max_where_nothing_is_gained(net, monkeypatch):
    monkeypatch.setattr(module, "MIN_GAIN", 1000.0)
    n, model = classifier(net)
    assert chosen(model, n.samples(4))[0].choice == Choice("min-max")


@pytest.mark.parametrize("options", [{}, {"output_kind": {"y": "labels"}}])
def test_auto_has_no_choice_by_outputs_of_zeros_or_labels(net, options):
    n = net(1, 8, 8, 3)
    y = n.conv(n.x, 4, "y", bias=False)
    samples = n.samples(6) if options else [{"x": np.zeros((1, 8, 8, 3), np.float32)}] * 6
    assert chosen(n.done(y), samples, **options)[0].choice is None


def test_auto_takes_the_method_with_the_highest_sqnr(net, monkeypatch):
    best = Choice("sqnr")

    def powers(self, choices, count):
        return {choice: np.array([[[1.0], [0.1 if choice == best else 1.0]]] * count) for choice in choices}

    monkeypatch.setattr(module._Trials, "powers", powers)
    monkeypatch.setattr(module._Trials, "forget", lambda self, left: None)
    monkeypatch.setattr(module._Trials, "score", lambda self, choice: Score((), np.zeros((0, 0))))
    n, model = classifier(net)
    assert chosen(model, n.samples(4))[0].choice == best


def test_a_gain_of_one_sample_alone_is_chance():
    before = np.ones((8, 2, 1))
    before[0, 1] = 100.0
    lucky, all_gain = before.copy(), before.copy()
    lucky[0, 1] = 1.0
    all_gain[:, 1] /= 2.0
    assert module._sqnr(lucky) > module._sqnr(all_gain)
    assert not module._is_gain(before, lucky)
    assert module._is_gain(before, all_gain)


def test_the_same_samples_give_the_same_choice(net):
    n, model = classifier(net)
    samples = samples_with_outliers(n, 6)
    one, two = (chosen(model.clone(), samples)[0] for _ in range(2))
    assert one.choice == two.choice
    assert one.notes == two.notes


def test_nothing_is_tried_for_16_bits(net):
    n, model = classifier(net)
    plan, _ = chosen(model, n.samples(2), act_bitwidth=16)
    assert plan.choice is None
    assert not plan.notes


def test_a_method_by_name_is_taken_as_it_is(net):
    n, model = classifier(net)
    assert chosen(model, n.samples(2), act_quantizer_calibration="mse")[0].choice is None


def test_what_goes_into_a_softmax_is_judged(net):
    _, model = classifier(net)
    assert judged(model.main) == ["logits"]


def test_the_decision_of_a_plan_is_not_touched_by_others(net):
    n, model = classifier(net)
    plan, calibration = chosen(model, n.samples(2))
    plan = plan.decided(calibration)
    before = dict(plan.decision.activations)
    assert plan.main.ranges(calibration, plan.options, plan.choice).activations == before
    assert plan.with_precision(Precision(16, 8)).decided(calibration).decision.activations != before
    assert plan.decided(calibration).decision.activations == before


def test_what_is_behind_is_given_up_and_what_clips_less_is_kept_longer():
    def held(*noises):
        return np.array([[[1.0], [noise]] for noise in noises])

    best, close, poor = held(1, 1, 1, 1), held(1.5, 0.8, 1.5, 0.5), held(4, 4.5, 5, 4)
    first, second, third, fourth, fifth = CANDIDATES
    assert module._unbeaten({first: poor, second: best, third: close, fifth: poor}) == [second]
    assert module._unbeaten({first: close, second: close, third: close, fourth: best}) == [first, fourth]
    assert module._unbeaten({second: close, third: best}) == [third]


def test_what_is_near_the_best_goes_on_beside_min_max():
    def reached(*decibels):
        sums = [np.array([[[1.0], [10.0 ** (-db / 10)]]]) for db in decibels]
        return dict(zip(CANDIDATES, sums, strict=False))

    first, second, _, fourth, fifth = CANDIDATES
    assert module._near(reached(20, 24.4, 24.2, 24.3, 23.8)) == [first, second, fourth]
    assert module._near(reached(20, 24.4, 21, 21, 21)) == [first, second]
    assert module._near(reached(24, 20, 20, 20, 23.6)) == [first, fifth]


def test_more_samples_run_for_much_that_may_be_chance_alone():
    steady, lucky, small = (np.ones((4, 2, 1)) for _ in range(3))
    steady[:, 1], lucky[:3, 1], lucky[3, 1], small[:, 1] = 0.5, 1.5, 0.01, 0.98
    plain = np.ones((4, 2, 1))
    plain[3, 1] = 4.0
    assert module._is_open([plain, lucky])
    assert not module._is_open([np.ones((4, 2, 1)), steady])
    assert not module._is_open([np.ones((4, 2, 1)), small])


@pytest.mark.parametrize("count", [1, 4, 5, 63])
def test_kept_samples_are_spread_over_all(count):
    spread = Spread(4, 1 << 20)
    for number in range(count):
        spread.add(number, {"x": np.full(2, number, np.float32)})
        spread.give(number, {"y": np.full(1, -number, np.float32)})
    kept = [held.number for held in spread.kept]
    assert [int(held.sample["x"][0]) for held in spread.kept] == kept
    assert [-int(held.floats["y"][0]) for held in spread.kept] == kept
    assert 0 < len(kept) <= 4
    assert kept[0] == 0
    assert len(set(np.diff(kept))) <= 1
    assert kept[-1] >= count // 2 - 1 or count == 1
    assert spread.count == count


@pytest.mark.parametrize(("count", "wanted"), [(1, 1), (7, 7), (8, 8), (9, 8), (16, 8), (17, 8), (40, 8)])
def test_as_many_samples_as_wanted_are_left_of_many(count, wanted):
    spread = Spread(16, 1 << 20)
    for number in range(count):
        spread.add(number, {"x": np.zeros(1, np.float32)})
    left = [held.number for held in spread.evenly(8)]
    assert len(set(left)) == wanted
    assert left == sorted(left)
    assert left[0] == 0
    assert left[-1] >= count * 3 // 4


def test_kept_samples_are_bounded_in_bytes_and_copies():
    buffer, spread = np.zeros(256, np.float32), Spread(8, 2048)
    for number in range(10):
        spread.add(number, {"x": buffer})
        buffer += 1
    assert [held.sample["x"][0] for held in spread.kept] == [0.0, 8.0]
    spread.give(8, {"y": np.zeros(1024, np.float32)})
    assert [held.number for held in spread.kept] == [0]


def test_boxes_and_scores_of_one_output_are_judged_apart(net):
    n = net(1, 2, 2, 3)
    scores = n.neuron(n.conv(n.x, 2, "classes"), SIGMOID, "scores")
    model = n.done(n.concat([n.conv(n.x, 4, "boxes"), scores, scores], "y"))
    values = np.full((1, 2, 2, 8), 300.0, np.float32)
    values[..., 4:6], values[..., 6:] = 0.5, 0.0
    parts = parts_of_outputs(model.main, [{"y": values}], {})
    assert [(part.place.start, part.place.stop) for part in parts] == [(0, 4), (4, 6), (6, 8)]
    assert [part.kind for part in parts] == ["signal", "scores", "scores"]
