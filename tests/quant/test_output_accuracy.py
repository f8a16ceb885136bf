import logging
from functools import partial

import pytest

from tests.quant.test_auto_range import classifier
from tests.quant.test_subgraphs import branching
from xdlc.cli.quant_flow import in_command
from xdlc.errors import ConstraintError, UsageError
from xdlc.ir import Tensor, make_op, u32
from xdlc.ir.dtype import UINT32
from xdlc.quant import quantize
from xdlc.quant.samples import HELD_OUT

RELU, ADD = 4, 0


def regression(net):
    n = net(1, 6, 6, 4)
    y = n.conv(n.neuron(n.conv(n.x, 8, "c1"), RELU, "r1"), 4, "y")
    return n, n.done(y)


def told(model, samples, **options):
    lines = []
    made = quantize(model, samples, notify=lines.append, **options)
    return made, [line for line in lines if line.startswith("warning")], lines


def figure(lines):
    (found,) = (line for line in lines if line.startswith("outputs of"))
    return found


@pytest.mark.parametrize(
    "options", [{}, {"act_bitwidth": 16}, {"act_quantizer_calibration": "mse"}], ids=["8", "16", "mse"]
)
@pytest.mark.parametrize("jobs", [1, 2])
def test_each_quantization_has_a_figure_for_each_output(net, options, jobs):
    n, model = regression(net)
    _, warned, lines = told(model, n.samples(HELD_OUT), jobs=jobs, **options)
    assert not warned
    assert figure(lines).startswith("outputs of 1 held-out sample: 'y' ")
    _, _, lines = told(model, n.samples(HELD_OUT - 1), **options)
    assert figure(lines).startswith(f"outputs of {HELD_OUT - 1} calibration samples: 'y' ")


def test_a_held_out_sample_is_measured_without_it_and_stored_ranges_hold_it(net):
    n, model = regression(net)
    samples = n.samples(2 * HELD_OUT)
    samples[HELD_OUT - 1]["x"] *= 100.0
    made, warned, _ = told(model, samples, act_quantizer_calibration="min-max")
    assert len(warned) == 1
    assert "'y' is likely useless" in warned[0]
    assert warned[0].endswith("accuracy='best'")
    x = made.main.tensors["x"]
    assert x.encoding.scale * 255 > 300.0


@pytest.mark.parametrize(("scale", "goal"), [(0.1, 30.0), (1.0, 20.0)])
def test_held_out_samples_far_below_the_goal_of_mixed_precision_are_warned_of(net, scale, goal):
    n, model = regression(net)
    samples = n.samples(2 * HELD_OUT)
    for sample in samples[HELD_OUT - 1 :: HELD_OUT]:
        sample["x"] *= scale  # little beside the noise, and in the sum of all samples
    command = ["xdlc-quant", f"--min_sqnr={goal}", "-i", "m.dlc"]
    _, warned, lines = told(model, samples, min_sqnr=goal, phrase=partial(in_command, command))
    reached = float(figure(lines).split(" 'y' ")[1].removesuffix(" dB"))
    assert (reached < goal - 1.0) is bool(warned) is (scale < 1.0)
    for line in warned:
        words = line.split(": ")[-1].split()
        assert words[:-1] == ["xdlc-quant", "-i", "m.dlc", "--min-sqnr"]
        assert float(words[-1]) == pytest.approx(2 * goal - reached, abs=0.2)


def test_warnings_are_logged_where_nothing_takes_them(net, caplog):
    n, model = regression(net)
    samples = n.samples(HELD_OUT)
    samples[-1]["x"] *= 100.0
    with caplog.at_level(logging.WARNING, "xdlc"):
        quantize(model, samples)
    assert ["'y' is likely useless" in record.getMessage() for record in caplog.records] == [True]


def test_an_output_below_the_least_fails(net):
    n, model = regression(net)
    samples = n.samples(HELD_OUT)
    quantize(model, samples, fail_below=10.0)
    with pytest.raises(ConstraintError) as caught:
        quantize(
            model, samples, fail_below=100.0, phrase=partial(in_command, ["xdlc-quant", "-i", "a b.dlc"])
        )
    assert caught.value.where == "output 'y'"
    assert caught.value.fix.endswith("xdlc-quant -i 'a b.dlc' --min-sqnr 100.0")
    with pytest.raises(UsageError, match="fail_below"):
        quantize(model, [], enable_float_fallback=True, fail_below=10.0)


def test_classes_are_judged_by_what_goes_into_softmax_and_by_the_largest(net):
    n, model = classifier(net)
    samples = n.samples(HELD_OUT)
    _, warned, lines = told(model, samples, act_quantizer_calibration="min-max")
    assert "top-1 equal in 100.0%" in figure(lines)
    samples[-1]["x"] *= 10.0  # clipped to what the others have: far off, but the class stays
    _, warned, lines = told(model, samples, act_quantizer_calibration="min-max")
    assert " 'y' " in figure(lines)
    assert float(figure(lines).split(" 'y' ")[1].split(" dB")[0]) < 10.0
    assert not warned


def test_branches_and_integers_have_figures_too(net):
    model, samples = branching()
    _, _, lines = told(model, samples * HELD_OUT)
    assert "held-out" in figure(lines)
    n = net(1, 4, 4, 2)
    ids = Tensor("ids", (1, 4, 4), UINT32)
    n.graph.append(make_op(n.graph, "Argmax", [n.conv(n.x, 3, "c")], [ids], {"axis": u32(3)}, name="ids_op"))
    _, _, lines = told(n.done(ids), n.samples(HELD_OUT))
    assert "% equal" in figure(lines)
