from itertools import pairwise

import numpy as np
import pytest

from tests.quant.conftest import decided_plan
from tests.support import accuracy
from xdlc.errors import BackendError, UsageError
from xdlc.ir import static
from xdlc.ir.dtype import FLOAT32, UFIXED8, UFIXED16
from xdlc.quant import quantize
from xdlc.quant.engine import Engine
from xdlc.quant.mixed.groups import Group, Level, find_groups, graph_cost
from xdlc.quant.mixed.search import search
from xdlc.quant.mixed.trials import Trials
from xdlc.quant.placement import place
from xdlc.quant.precision import Precision
from xdlc.runtime.cpu import CpuSession

RELU, ADD, MULTIPLY = 4, 0, 13


class Model:
    """Groups whose noise adds up: level by level, each a hundredth of the one before."""

    def __init__(self, noise, costs, goal, border=0.0):
        self.noise, self.costs, self.goal, self.border = noise, costs, goal, border
        self.tried = set()

    def power(self, levels):
        self.tried.add(levels)
        return sum(n / 100**level for n, level in zip(self.noise, levels, strict=True))

    def sqnr(self, levels):
        return -10 * np.log10(self.power(levels))

    def added(self, base, levels):
        return self.power(levels) - self.power(base)

    def slack(self, levels):
        return self.sqnr(levels) - self.goal

    def most_parts(self, groups):
        return 40

    def is_affordable(self):
        return len(self.tried) < 200

    def own_cost(self, group, level):
        return self.costs[group] * (1 + level)

    def cost(self, levels):
        changes = sum(one != two for one, two in pairwise(levels))
        own = sum(self.own_cost(group, level) for group, level in enumerate(levels))
        return own + self.border * changes


def ceilings(tops):
    return [tuple(min(level, top) for top in tops) for level in range(max(tops) + 1)]


def test_search_raises_what_makes_the_noise():
    model = Model([1e-6, 1e-2, 1e-6, 1e-2, 1e-6], [1, 1, 1, 1, 1], 30)
    found = search(ceilings([1] * 5), model)
    assert (found.levels, found.reached) == ((0, 1, 0, 1, 0), True)
    assert found.added[1] > found.added[0]


def test_search_leaves_what_is_good_enough():
    model = Model([1e-6] * 5, [1] * 5, 30)
    assert search(ceilings([2] * 5), model).levels == (0,) * 5
    assert len(model.tried) == 1


def test_search_raises_the_cheaper_of_two():
    model = Model([1e-3, 1e-3], [10, 1], 28)
    assert search(ceilings([1, 1]), model).levels == (0, 1)


def test_search_goes_higher_only_where_it_has_to():
    model = Model([1e-2, 1e-5, 1e-5, 1.0], [1] * 4, 36)
    assert search(ceilings([2] * 4), model).levels == (1, 0, 0, 2)


def test_search_leaves_bits_that_cost_nothing():
    model = Model([1e-6, 1e-6, 1e-2], [1, 1e-5, 1], 30)
    assert search(ceilings([1] * 3), model).levels == (0, 1, 1)
    assert search(ceilings([2] * 3), Model([1e-6, 1e-6, 1.0], [1, 1e-5, 1], 30)).levels == (0, 1, 2)


def test_search_raises_islands_again():
    model = Model([1e-2, 1e-6, 1e-2], [1, 1, 1], 30, border=2.0)
    assert search(ceilings([1] * 3), model).levels == (1, 1, 1)


def test_search_says_that_a_goal_is_out_of_reach():
    found = search(ceilings([1] * 3), Model([1.0] * 3, [1] * 3, 60))
    assert (found.reached, found.levels) == (False, (1, 1, 1))


def test_search_of_many_groups_takes_few_trials():
    rng = np.random.default_rng(0)
    noise = 10 ** rng.uniform(-9, -7, 600)
    noise[100:104] = noise[450:456] = 1e-3
    model = Model(noise, rng.uniform(0.5, 2, 600), -10 * np.log10(noise.sum()) + 10)
    found = search(ceilings([1] * 600), model)
    assert found.reached
    assert sum(found.levels) < 20
    assert len(model.tried) < 200


def weak_spot(net):
    """One channel is 3,000 times as large as the others, too much for 8 bits."""
    n = net(1, 4, 4, 3)
    first = n.neuron(n.conv(n.x, 8, "c1"), RELU, "r1")
    spread = np.ones(8, np.float32)
    spread[0] = 3000.0
    wide = n.binary(first, static("up", spread), MULTIPLY, "wide")
    back = n.binary(wide, static("down", 1 / spread), MULTIPLY, "back")
    return n, n.done(n.conv(back, 4, "c2"))


def sqnr(model, quantized, samples):
    sessions = CpuSession(model), CpuSession(quantized)
    return accuracy.sqnr(*([session.run(sample)["c2"] for sample in samples] for session in sessions))


def test_min_sqnr_raises_the_weak_spot_only(net):
    n, model = weak_spot(net)
    fresh = n.samples(8, seed=7)
    assert sqnr(model, quantize(model, n.samples(4)), fresh) < 10
    ranges = {"act_quantizer_calibration": "min-max"}
    mixed = quantize(model, n.samples(4), min_sqnr=18.0, **ranges)
    assert sqnr(model, mixed, fresh) >= 18.0
    tensors = mixed.main.tensors
    assert tensors["wide"].dtype == UFIXED16
    assert tensors["c2"].dtype == UFIXED8


def test_same_in_same_out(net):
    n, model = weak_spot(net)
    one, two = (quantize(model, n.samples(4), min_sqnr=18.0) for _ in range(2))
    assert [tensor.dtype for tensor in one.main.tensors.values()] == [
        tensor.dtype for tensor in two.main.tensors.values()
    ]


def test_max_sqnr_drop(net):
    n, model = weak_spot(net)
    fresh = n.samples(8, seed=7)
    best = sqnr(model, quantize(model, n.samples(4), act_bitwidth=16), fresh)
    mixed = quantize(model, n.samples(4), max_sqnr_drop=6.0)
    assert best - 8.0 < sqnr(model, mixed, fresh) < best


def test_a_users_score(net):
    n, model = weak_spot(net)
    seen, float_session = n.samples(3, seed=9), CpuSession(model)

    def worst(run):
        return -max(
            float(np.abs(run(sample)["c2"] - float_session.run(sample)["c2"]).max()) for sample in seen
        )

    plain, wide = (quantize(model, n.samples(4), act_bitwidth=bits) for bits in (8, 16))
    least = (worst(CpuSession(plain).run) + 3 * worst(CpuSession(wide).run)) / 4
    mixed = quantize(model, n.samples(4), evaluate=worst, min_score=least)
    assert worst(CpuSession(mixed).run) >= least
    assert mixed.main.tensors["wide"].dtype == UFIXED16


def test_float_is_the_last_resort(net):
    n, model = weak_spot(net)
    mixed = quantize(model, n.samples(4), min_sqnr=100.0)
    assert {tensor.dtype for tensor in mixed.main.tensors.values()} == {FLOAT32}


def test_a_goal_out_of_reach_gives_the_best_and_a_warning(net):
    n, model = weak_spot(net)
    said = []
    best = quantize(model, n.samples(4), min_sqnr=100.0, target="sm7350", notify=said.append)
    assert best.main.tensors["wide"].dtype == UFIXED16
    (warning,) = (line for line in said if line.startswith("warning"))
    assert "100.0 dB" in warning


def test_what_the_user_settled_stays(net):
    n, model = weak_spot(net)
    mixed = quantize(model, n.samples(4), min_sqnr=18.0, act_bitwidth_of={"c2": 16}, float_ops=["c1", "r1"])
    tensors = mixed.main.tensors
    assert (tensors["c1"].dtype, tensors["c2"].dtype) == (FLOAT32, UFIXED16)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"algorithms": "mixed_precision"}, "mixed precision needs a goal"),
        ({"evaluate": len}, "evaluate or min_score is missing"),
    ],
)
def test_goals_that_say_nothing(net, options, text):
    n, model = weak_spot(net)
    with pytest.raises(UsageError, match=text):
        quantize(model, n.samples(1), **options)


def test_cost_counts_bits_and_changes_of_width(net):
    n = net(1, 4, 4, 2)
    graph = n.done(n.conv(n.conv(n.x, 3, "a"), 5, "b")).main
    pixels = 16

    def cost(**acts):
        precision = Precision(8, 8, {f"{name}_op": bits for name, bits in acts.items()})
        return graph_cost(graph, place(graph, precision), precision, 32)

    macs = pixels * 9 * 2 * 3, pixels * 9 * 3 * 5
    assert cost().bit_operations == sum(macs) * 64
    assert cost(b=16).bit_operations == macs[0] * 64 + macs[1] * 128
    weights, biases = 9 * 2 * 3 + 9 * 3 * 5, 3 + 5
    assert cost().bytes == pixels * (2 + 3 + 3 + 5) + weights + biases
    assert cost(b=16).bytes - cost().bytes == pixels * (3 + 5) + 5 + pixels * 3 * 3


def test_a_metric_in_a_file(net, tmp_path):
    n, model = weak_spot(net)
    np.save(tmp_path / "x.npy", n.samples(1, seed=9)[0]["x"])
    path = tmp_path / "metric.py"
    path.write_text(
        "import pathlib, numpy\n"
        "def peak(run):\n"
        "    x = numpy.load(pathlib.Path(__file__).with_name('x.npy'))\n"
        "    return float(numpy.abs(run({'x': x})['c2']).max())\n"
        "def broken(run):\n"
        "    return 1 / 0\n"
        "def hungry(run):\n"
        "    return run({})\n"
        "def wordy(run):\n"
        "    return 'good'\n"
    )
    said = []
    quantize(model, n.samples(4), evaluate=f"{path}:peak", min_score=0.0, notify=said.append)
    assert any("score" in line for line in said)
    for name, error, where in (
        ("broken", BackendError, f"{path}:6"),
        ("hungry", UsageError, f"{path}:8"),
        ("wordy", UsageError, str(path)),
        ("paek", UsageError, "evaluate"),
    ):
        with pytest.raises(error) as caught:
            quantize(model, n.samples(4), evaluate=f"{path}:{name}", min_score=0.0)
        assert where in caught.value.where
        assert name == "broken" or caught.value.fix
    with pytest.raises(UsageError) as caught:
        quantize(model, n.samples(4), evaluate=f"{tmp_path / 'none.py'}:peak", min_score=0.0)
    assert caught.value.where == "evaluate"


@pytest.mark.parametrize("place", ["", "    "])
def test_a_metric_that_ends_the_process_is_an_error(net, tmp_path, place):
    n, model = weak_spot(net)
    path = tmp_path / "metric.py"
    path.write_text(f"def end(run):\n    assert run\n{place}raise SystemExit(0)\n")
    with pytest.raises(BackendError, match="raised SystemExit"):
        quantize(model, n.samples(1), evaluate=f"{path}:end", min_score=0.5)


@pytest.mark.parametrize("chance", [0.0, 0.3, 0.6, 1.0])
def test_one_session_emulates_all_widths(net, chance):
    n, model = weak_spot(net)
    plan, calibration = decided_plan(model, n.samples(6))
    groups = find_groups(plan.graph, plan.placement, plan.main.groups, plan.precision, plan.options)
    trials = Trials(plan, calibration, Engine(), groups, calibration.measured, 1000)
    rng = np.random.default_rng(1)
    levels = tuple(int(rng.random() < chance) for _ in groups)
    emulated = trials.sqnr(levels)
    assert emulated == pytest.approx(trials.exact(levels), abs=0.3)


def test_what_has_16_bits_already_is_not_raised_with_the_others(net):
    n, model = weak_spot(net)
    mixed = quantize(model, n.samples(4), min_sqnr=18.0, act_quantizer_calibration="min-max", act_bitwidth=16)
    assert {tensor.dtype.bits for tensor in mixed.main.tensors.values() if not tensor.is_static} == {16}
    group = Group((), (Level(16, 8), Level(16, 16), Level(None, 8)))
    assert [group.highest(stage) for stage in range(4)] == [0, 0, 1, 2]
    group = Group((), (Level(8, 4), Level(8, 8), Level(16, 8), Level(None, 4)))
    assert [group.highest(stage) for stage in range(4)] == [0, 2, 2, 3]
