import re
import shlex

import numpy as np
import pytest
from click.testing import CliRunner

import xdlc
from tests.support.accuracy import sqnr
from tests.support.htp_models import needs_htp
from xdlc.cli.tools import quantize as tool_quantize
from xdlc.errors import ConstraintError
from xdlc.ir.data import ArrayData
from xdlc.ir.dtype import FLOAT32, SFIXED16, UFIXED8
from xdlc.quant import quantize
from xdlc.quant.report import Reporter

RELU = 4
KINDS = {"output_kind": {"y": "signal"}}
"""Without it 8 values of noise may be taken for anything."""


def cancelling(net):
    """Return a network with two huge weights whose products cancel out."""
    n = net(1, 6, 6, 4)
    c = n.conv(n.x, 16, "c")
    kernel = np.array(n.graph.tensors["c_w"].numpy())
    kernel[..., 1] = kernel[..., 0]
    n.graph.tensors["c_w"].data = ArrayData(kernel)
    bias = np.zeros(16, np.float32)
    n.graph.tensors["c_b"].data = ArrayData(bias)
    y = n.conv(n.neuron(c, RELU, "r"), 2, "y", kernel=1)
    last = np.array(n.graph.tensors["y_w"].numpy())
    last[..., 0, :], last[..., 1, :] = 300.0, -300.0
    n.graph.tensors["y_w"].data = ArrayData(last)
    return n, n.done(y)


def run(model, samples, **options):
    notes = []
    made = quantize(model, samples, notify=notes.append, **options)
    return made, notes, [note for note in notes if note.startswith("warning: output")]


def rows(notes):
    """Return widths and what is kept of the rows of the table."""
    (table,) = [note for note in notes if note.startswith("accuracy ")]
    return [re.match(r"  (\S.*?) +([\d.]+)% kept", line).groups() for line in table.splitlines()[1:]]


def invoke(*words, tool="xdlc-quant"):
    result = CliRunner().invoke(tool_quantize.main, [str(word) for word in words], prog_name=tool)
    assert result.exit_code == 0, result.output
    return result


def test_the_default_tries_nothing_and_names_what_a_trial_shows_to_help(net):
    n, model = cancelling(net)
    made, notes, (warning,) = run(model, n.samples(20), **KINDS)
    assert not any(note.startswith("accuracy ") for note in notes)
    assert made.main.tensors["y"].dtype is UFIXED8
    assert warning.endswith("act_bitwidth=16, weights_bitwidth=16")
    _, _, warned = run(model, n.samples(20), act_bitwidth=16, weights_bitwidth=16, **KINDS)
    assert not warned


@pytest.mark.parametrize("target", [None, "sm8650", "qcs6490"])
def test_the_best_raises_weights(net, target):
    n, model = cancelling(net)
    quantized_model, notes, warned = run(model, n.samples(20), accuracy="best", target=target, **KINDS)
    assert not warned
    assert [name for name, _ in rows(notes)][:3] == ["A8W8", "A16W8", "A16W16"]
    assert float(rows(notes)[1][1]) < 90.0 < 99.0 < float(rows(notes)[2][1])
    tensors = quantized_model.main.tensors
    assert ("y_w_low" in tensors) is (target == "qcs6490")
    assert target == "qcs6490" or tensors["y_w"].dtype is SFIXED16
    (feeds,) = n.samples(1, seed=9)
    assert sqnr(xdlc.run(model, feeds)["y"], xdlc.run(quantized_model, feeds)["y"]) > 20.0


def test_the_first_that_is_enough_ends_it(net):
    n = net(1, 6, 6, 4)
    model = n.done(n.conv(n.x, 2, "y"))
    made, notes, _ = run(model, n.samples(20), accuracy="best", **KINDS)
    assert [name for name, _ in rows(notes)] == ["A8W8"]
    assert all(tensor.dtype.bits == 8 for op in made.main.ops for tensor in op.outputs)


def test_balanced_ends_at_activations_and_the_warning_goes_on_from_there(net):
    n, model = cancelling(net)
    made, notes, (warning,) = run(model, n.samples(20), accuracy="balanced", **KINDS)
    assert [name for name, _ in rows(notes)] == ["A8W8", "A16W8"]
    assert made.main.tensors["y_w"].dtype.bits == 8
    assert warning.endswith("act_bitwidth=16, weights_bitwidth=16")


def beyond_16_bits(net):
    """Return a network whose weights hold 1e-6 beside 1."""
    n, model = cancelling(net)
    last = np.array(n.graph.tensors["y_w"].numpy())
    last[..., 2:, :] *= 1e-5
    last[..., :2, :] *= 10.0
    model.main.tensors["y_w"].data = ArrayData(last)
    model.main.tensors["y_b"].data = ArrayData(np.zeros(2, np.float32))
    return n, model


def test_floats_are_last_where_the_target_has_them(net):
    n, model = beyond_16_bits(net)
    made, notes, _ = run(model, n.samples(20), accuracy="best", **KINDS)
    assert rows(notes)[3][0] == "float"
    assert made.main.tensors["y"].dtype is FLOAT32
    _, notes, (warning,) = run(model, n.samples(20), accuracy="best", target="qcs6490", **KINDS)
    assert [name for name, _ in rows(notes)] == ["A8W8", "A16W8", "A16W16"]
    assert warning.endswith("report='report.html'")


GOAL = {"evaluate": lambda run: 1.0, "min_score": 0.5}


@pytest.mark.parametrize("options", [{"max_sqnr_drop": 3.0}, GOAL, {**GOAL, "accuracy": "best"}])
def test_no_ladder_is_advised_beside_a_goal(net, options):
    n, model = beyond_16_bits(net)
    _, _, (warning,) = run(model, n.samples(20), **options, **KINDS)
    assert "accuracy=" not in warning
    assert "the SoC supports no wider type" not in warning
    assert warning.endswith("report='report.html'")


@pytest.mark.parametrize(
    ("options", "fix"),
    [
        ({"accuracy": "best", "target": "qcs6490"}, "report='report.html'"),
        ({"act_bitwidth": 16, "max_sqnr_drop": 60.0}, "min_sqnr=50.0"),
        ({"min_sqnr": 50.0, "accuracy": "balanced"}, "report='report.html'"),
        ({"min_sqnr": 3.0, "accuracy": "balanced"}, "min_sqnr=50.0"),
    ],
)
def test_the_fix_of_a_failure_is_a_goal_that_is_not_set(net, options, fix):
    n, model = beyond_16_bits(net)
    with pytest.raises(ConstraintError) as caught:
        run(model, n.samples(20), fail_below=50.0, **options, **KINDS)
    assert caught.value.fix.endswith(fix)
    assert "the SoC supports no wider type" not in caught.value.fix


def test_a_goal_takes_the_place_of_verdicts(net):
    n, model = cancelling(net)
    quantized_model, notes, _ = run(model, n.samples(20), accuracy="balanced", min_sqnr=30.0, **KINDS)
    assert any(note.startswith("warning: no widths reach 30.0 dB") for note in notes)
    assert quantized_model.main.tensors["y_w"].dtype.bits == 8
    quantized_model, notes, _ = run(model, n.samples(20), min_sqnr=30.0, **KINDS)
    assert not any(note.startswith("warning: no widths") for note in notes)
    assert quantized_model.main.tensors["y_w"].dtype is SFIXED16


def test_the_result_does_not_depend_on_the_run_and_the_report_lists_the_trials(net, tmp_path):
    n, model = cancelling(net)
    paths = []
    for number in range(2):
        made, _, _ = run(model, n.samples(20), accuracy="best", **KINDS)
        paths.append(tmp_path / f"{number}.dlc")
        xdlc.save(made, paths[-1])
    assert paths[0].read_bytes() == paths[1].read_bytes()
    reporter = Reporter(trials=0)
    run(model, n.samples(20), accuracy="best", report=reporter, **KINDS)
    rungs = reporter.result.as_json()["rungs"]
    assert [rung["widths"] for rung in rungs][:3] == ["A8W8", "A16W8", "A16W16"]
    assert [rung["is_enough"] for rung in rungs][:3] == [False, False, True]


@pytest.mark.parametrize(
    ("tool", "flags"),
    [
        ("xdlc-quant", ()),
        ("xdlc-quant", ("--act_bw", "8", "--weights_bw=8")),
        ("snpe-dlc-quant", ("--bitwidth", "8", "--use_enhanced_quantizer", "--debug")),
    ],
)
def test_the_command_of_a_warning_works(net, tmp_path, tool, flags):
    n, model = cancelling(net)
    xdlc.save(model, tmp_path / "net.dlc")
    np.savez(tmp_path / "samples.npz", x=np.stack([sample["x"] for sample in n.samples(20)]))
    words = ["-i", tmp_path / "net.dlc", "-l", tmp_path / "samples.npz", "-o", tmp_path / "q.dlc"]
    words += ["--output_kind", "y", "signal"]
    first = invoke(*words, *flags, tool=tool).stderr.splitlines()[-1]
    program, *fixed = shlex.split(first.rpartition(": ")[2])
    assert program == tool
    assert "warning" not in invoke(*fixed, tool=tool).stderr
    assert xdlc.load(tmp_path / "q.dlc").main.tensors["y_w"].dtype is SFIXED16


def test_the_command_line_climbs_too(net, tmp_path):
    n, model = cancelling(net)
    xdlc.save(model, tmp_path / "net.dlc")
    np.savez(tmp_path / "samples.npz", x=np.stack([sample["x"] for sample in n.samples(20)]))
    words = ["-i", tmp_path / "net.dlc", "-l", tmp_path / "samples.npz", "-o", tmp_path / "q.dlc"]
    assert "A16W16" in invoke(*words, "--output_kind", "y", "signal", "--accuracy", "best").stdout


@needs_htp
def test_on_htp(net):
    soc = "qcs6490"
    n, model = cancelling(net)
    (feeds,) = n.samples(1, seed=9)
    expected = xdlc.run(model, feeds)["y"]
    narrow, best = (
        quantize(model, n.samples(20), target=soc, **options, **KINDS)
        for options in ({"act_bitwidth": 16}, {"accuracy": "best"})
    )
    narrow, best = (
        sqnr(expected, xdlc.run(one, feeds, runtime="htp", soc=soc)["y"]) for one in (narrow, best)
    )
    assert narrow < 10.0
    assert best > 20.0


def test_no_remedy_is_tried_after_one_that_keeps_all_outputs(net):
    n = net(1, 6, 6, 4)
    hidden = n.neuron(n.conv(n.x, 8, "c"), RELU, "r")
    outputs = [n.conv(hidden, 2, name, kernel=1) for name in ("y", "z")]
    for name in ("y", "z"):  # each has a channel that takes little of its range
        kernel, bias = (np.array(n.graph.tensors[f"{name}_{part}"].numpy()) for part in "wb")
        kernel[..., 0] *= 3e-3
        bias[0] *= 3e-3
        n.graph.tensors[f"{name}_w"].data = ArrayData(kernel)
        n.graph.tensors[f"{name}_b"].data = ArrayData(bias)
    trials = []
    kinds = dict.fromkeys(("y", "z"), "signal")
    _, _, warnings = run(
        n.done(*outputs), n.samples(10), output_kind=kinds, step=lambda title, *_: trials.append(title)
    )
    assert len(warnings) == 2
    assert all(warning.endswith("act_bitwidth=16") for warning in warnings)
    assert trials.count("trying remedies") == 2
