import json
import sys
from dataclasses import replace

import numpy as np
import onnx
import pytest

from tests.quant.conftest import decided_plan
from tests.support.accuracy import sqnr
from tests.support.onnx_models import build, node
from xdlc.api import convert
from xdlc.compare.figures import EXACT, Noise
from xdlc.errors import UsageError
from xdlc.ir import ArrayData, Scalar, ScaleOffset, Tensor, make_op, static, u32
from xdlc.ir.dtype import FLOAT32, STRING, UFIXED8
from xdlc.ir.quantization import to_float, to_quantized
from xdlc.quant import quantize
from xdlc.quant.advice import Remedies
from xdlc.quant.calibration.calibrate import Calibration
from xdlc.quant.engine import Engine
from xdlc.quant.report import Reporter, measure
from xdlc.quant.report.comparison import groups, rounded
from xdlc.quant.samples import HELD_OUT
from xdlc.quant.storing import quantized_copy
from xdlc.runtime.cpu import CpuSession


def _network(net):
    n = net(1, 8, 8, 4)
    first = n.conv(n.x, 8, "first")
    relu = n.neuron(first, 4, "relu")
    second = n.conv(relu, 6, "second")
    gate = n.neuron(second, 6, "gate")
    both = n.concat([second, gate], "both")
    return n, n.done(n.conv(both, 3, "last", kernel=1))


def _decided(model, samples, **options):
    return Remedies(*decided_plan(model.clone(), samples, **options), Engine(), [])


def _report(net, **options):
    n, model = _network(net)
    decided = _decided(model, n.samples(4), **options)
    return decided.plan, n.samples(3, seed=9), measure(decided, n.samples(3, seed=9))


def _ravel(session, samples, name):
    return [session.run(sample)[name].ravel() for sample in samples]


def test_outputs_are_those_of_the_finished_model(net):
    n, model = _network(net)
    reporter = Reporter(samples=n.samples(3, seed=9))
    quantized = quantize(model, n.samples(4), report=reporter)
    samples = n.samples(3, seed=9)
    wanted = _ravel(CpuSession(model), samples, "last")
    (output,) = reporter.result.outputs
    assert output.sqnr == pytest.approx(
        sqnr(wanted, _ravel(CpuSession(quantized), samples, "last")), abs=1e-3
    )
    assert reporter.result.sqnr == output.sqnr
    assert output.sqnr < min(output.weights_only, output.activations_only)


def test_cumulative_ratios_are_those_of_the_running_network(net):
    plan, samples, report = _report(net)
    floats = CpuSession(plan.model, outputs=["both"])
    quantized = CpuSession(quantized_copy(plan, Calibration()), outputs=["both"])
    found = next(tensor for tensor in report.tensors if tensor.name == "both")
    wanted = sqnr(_ravel(floats, samples, "both"), _ravel(quantized, samples, "both"))
    assert found.cumulative == pytest.approx(wanted, abs=1e-3)


def test_isolated_ratios_are_those_of_rounding_alone(net):
    plan, samples, report = _report(net)
    graph = plan.graph
    session = CpuSession(plan.model, outputs=["both"])
    values = _ravel(session, samples, "both")
    form = plan.decision.activations[graph.tensors["both"]]
    found = next(tensor for tensor in report.tensors if tensor.name == "both")
    assert found.isolated == pytest.approx(sqnr(values, [rounded(held, form) for held in values]), abs=1e-3)
    op = next(op for op in report.ops if op.name == "second_op")
    tensor = next(tensor for tensor in report.tensors if tensor.name == "second")
    assert op.isolated < tensor.isolated, "the op's weights are rounded too"


def test_values_that_a_relu_cuts_off_do_not_count(net):
    _, _, report = _report(net)
    first, relu = (
        next(tensor for tensor in report.tensors if tensor.name == name) for name in ("first", "relu")
    )
    assert first.seen_low < -1
    assert first.grid_low == 0
    assert "relu" in first.heard
    assert first.clipped == relu.clipped == 0
    assert first.isolated == pytest.approx(relu.isolated, abs=0.2)
    assert first.cumulative == pytest.approx(relu.cumulative, abs=0.2)


def test_sensitivity_is_what_the_outputs_lose(net):
    plan, samples, report = _report(net)
    keep = plan.graph.tensors["both"]
    session = CpuSession(plan.model, outputs=["both"])
    tail = _tail(plan.model)
    float_outputs, changed_outputs = [], []
    for sample in samples:
        results = session.run(sample)
        float_outputs.append(results["last"].ravel())
        changed = rounded(results["both"], plan.decision.activations[keep])
        changed_outputs.append(tail(changed).ravel())
    tensor = next(tensor for tensor in report.tensors if tensor.name == "both")
    assert tensor.sensitivity == pytest.approx(sqnr(float_outputs, changed_outputs), abs=0.05)


def _tail(model):
    op = next(op for op in model.main.ops if op.name == "last_op")
    weight, bias = op.inputs[1].numpy(), op.inputs[2].numpy()
    return lambda value: value @ weight[0, 0] + bias


def test_sensitivity_of_an_op_is_that_of_its_parts(net):
    _, _, report = _report(net)
    for op in report.ops:
        parts = [ratio for ratio in (op.sensitivity_weights, op.sensitivity_activation) if ratio is not None]
        if parts:
            noise = sum(10 ** (-ratio / 10) for ratio in parts)
            assert op.sensitivity == pytest.approx(-10 * np.log10(noise), abs=1e-6)
    assert sum(op.sensitivity_weights is not None for op in report.ops) == 3


def test_fewer_trials_are_said_to_be_fewer(net):
    n, model = _network(net)
    decided = _decided(model, n.samples(2))
    report = measure(decided, n.samples(1, seed=3), trials=2)
    assert report.unmeasured[0].startswith("xdlc measured sensitivity for the 2 worst of")
    tried, traced = measure(decided, n.samples(1, seed=3)), measure(decided, n.samples(1, seed=3), trials=0)
    pairs = [(op.sensitivity, other.sensitivity) for op, other in zip(tried.ops, traced.ops, strict=True)]
    assert all((first is None) is (second is None) for first, second in pairs)
    assert any(first is not None for first, _ in pairs)


def test_traced_parts_of_an_output_add_up_to_its_noise(net):
    n, model = _network(net)
    report = measure(_decided(model, n.samples(2)), n.samples(2, seed=3), trials=0)
    parts = [op.sensitivity for op in report.ops if op.sensitivity is not None]
    first = next(tensor for tensor in report.tensors if tensor.role == "input")
    noise = sum(10 ** (-part / 10) for part in (*parts, first.sensitivity))
    assert -10 * np.log10(noise) == pytest.approx(report.outputs[0].sqnr, abs=0.01)


def test_weights_and_their_channels(net):
    plan, _, report = _report(net, weights_bitwidth=4)
    weight = next(tensor for tensor in report.tensors if tensor.name == "second_w")
    data = plan.graph.tensors["second_w"].numpy()
    assert (weight.role, weight.bits, weight.granularity) == ("weight", 4, "channel")
    assert weight.channels.lows == pytest.approx(data.min(axis=(0, 1, 2)))
    assert weight.channels.highs == pytest.approx(data.max(axis=(0, 1, 2)))
    assert sum(weight.histogram.counts) == data.size
    assert 10 < weight.isolated < 25
    bias = next(tensor for tensor in report.tensors if tensor.name == "second_b")
    assert (bias.role, bias.bits) == ("bias", 32)
    power = np.mean(plan.graph.tensors["second_b"].numpy() ** 2)
    assert bias.isolated > 10 * np.log10(power / (bias.scale / 2) ** 2)


def test_clipping_is_counted(net):
    n, model = _network(net)
    decided = _decided(model, n.samples(2, scale=0.1))
    report = measure(decided, n.samples(2, seed=4, scale=1.0))
    x = next(tensor for tensor in report.tensors if tensor.name == "x")
    values = np.stack([sample["x"] for sample in n.samples(2, seed=4)])
    step = x.scale / 2
    wanted = np.mean((values > x.grid_high + step) | (values < x.grid_low - step))
    assert x.clipped == pytest.approx(wanted)
    assert x.beyond == pytest.approx(max(values.max() - x.grid_high, x.grid_low - values.min()), rel=1e-5)
    assert x.used == 1.0
    assert x.calibrated_high < 0.5 < x.seen_high


def test_ops_that_stay_float_say_why(net):
    n = net(1, 4, 4, 4)
    model = n.done(n.conv(n.op("ElementWiseUnary", [n.x], (1, 4, 4, 4), "odd", operation=u32(10)), 2, "y"))
    report = measure(_decided(model, n.samples(2)), n.samples(1, seed=2))
    odd = next(op for op in report.ops if op.name == "odd_op")
    assert odd.placement == "float"
    assert "fixed-point kernel" in odd.reason
    assert report.ops[-1] is odd


def test_worst_come_first(net):
    _, _, report = _report(net)
    for rows in (report.ops, report.tensors):
        ratios = [row.isolated for row in rows if row.isolated is not None]
        assert ratios == sorted(ratios)


def test_held_out_samples_are_measured_without_them_and_calibrate_all_the_same(net, tmp_path):
    n, model = _network(net)
    reporter = Reporter(trials=0)
    samples = n.samples(2 * HELD_OUT)
    samples[HELD_OUT - 1]["x"][0, 0, 0, 0] = 50.0
    reported = quantize(model, iter(samples), report=reporter, act_quantizer_calibration="min-max")
    assert reporter.result.samples == 2
    assert not any("calibration samples" in line for line in reporter.result.unmeasured)
    (x,) = (tensor for tensor in reporter.result.tensors if tensor.name == "x")
    assert x.clipped > 0.0  # under the ranges of the others
    assert x.grid_high > 49.0  # as it is stored
    assert x.calibrated_high == 50.0
    plain = quantize(model, samples, act_quantizer_calibration="min-max")
    reported.save(tmp_path / "a.dlc")
    plain.save(tmp_path / "b.dlc")
    assert (tmp_path / "a.dlc").read_bytes() == (tmp_path / "b.dlc").read_bytes()


def test_too_few_samples_to_hold_any_out_are_said_to_be(net):
    n, model = _network(net)
    reporter = Reporter()
    quantize(model, n.samples(2), report=reporter)
    assert reporter.result.samples == 2
    assert "calibration samples" in reporter.result.unmeasured[-1]


def test_progress_reaches_the_end(net):
    n, model = _network(net)
    steps = []
    measure(
        _decided(model, n.samples(1)), n.samples(2), progress=lambda done, total: steps.append((done, total))
    )
    assert [done for done, _ in steps] == list(range(1, len(steps) + 1))
    assert steps[-1][0] == steps[-1][1]


def test_a_plan_without_held_out_samples_is_refused(net):
    n, model = _network(net)
    with pytest.raises(UsageError, match="no held-out samples"):
        measure(_decided(model, n.samples(1)), [])


def test_a_held_out_sample_that_does_not_fit_is_named(net):
    n, model = _network(net)
    with pytest.raises(UsageError, match="held-out sample 1"):
        measure(_decided(model, n.samples(1)), [*n.samples(1), {"x": np.zeros((1, 2, 2, 4), np.float32)}])


def test_a_network_of_integers_has_a_report(tmp_path):
    table = np.arange(4, dtype=np.int32)
    model = build([node("Gather", "table i", axis=0)], {"i": table[:3]}, {"table": table}, ["y"], 17)
    onnx.save(model, tmp_path / "net.onnx")
    reporter = Reporter()
    quantize(convert(tmp_path / "net.onnx"), [{"i": table[1:]}, {"i": table[:3]}] * 3, report=reporter)
    assert [(output.name, output.same) for output in reporter.result.outputs] == [("y", 1.0)]


def test_groups_bound_what_is_held(net):
    _, model = _network(net)
    tensors = [tensor for op in model.main.ops for tensor in op.outputs]
    parts = list(groups(tensors, limit=4 * (tensors[0].size + tensors[1].size)))
    assert [tensor for part in parts for tensor in part] == tensors
    assert parts[0] == tensors[:2]
    assert all(len(part) == 1 or sum(4 * t.size for t in part) <= 4096 for part in parts)


def test_reports_in_groups_are_the_same(net, monkeypatch):
    n, model = _network(net)
    decided, samples = _decided(model, n.samples(4)), n.samples(3, seed=9)
    report = measure(decided, samples)
    monkeypatch.setattr("xdlc.quant.report.comparison.groups.__defaults__", (3000,))
    again = measure(decided, samples)
    first, second = json.dumps(report.as_json()), json.dumps(again.as_json())
    assert first == second


def test_exact_values_and_masks_have_ratios():
    noise = Noise()
    assert noise.db == EXACT
    noise.add(np.float32([1, -np.inf]), np.float32([1, -np.inf]))
    assert noise.db == EXACT
    noise.add(np.float32([3, -np.inf]), np.float32([2, 0]))
    assert noise.db == pytest.approx(10.0)
    empty = Noise()
    empty.add(np.float32([0]), np.float32([1]))
    assert empty.db == -EXACT


def test_rounding_is_the_encodings():
    values = np.float32([-1.0, -0.26, 0.0, 0.3, 9.0])
    form = UFIXED8, ScaleOffset(0.5, -1)
    np.testing.assert_array_equal(rounded(values, form), np.float32([-0.5, -0.5, 0.0, 0.5, 9.0]))


def test_tensors_that_are_never_rounded_have_no_rounding(net):
    n = net(1, 8, 8, 4)
    second = n.conv(n.conv(n.x, 6, "first"), 6, "second")
    slope = static("slope", np.full(6, 0.25, np.float32))
    model = n.done(n.op("Prelu", [second, slope], second.shape, "y"))
    report = measure(_decided(model, n.samples(2)), n.samples(1, seed=3))
    joined = next(tensor for tensor in report.tensors if tensor.name == "second")
    assert joined.heard.startswith("not rounded: y_op ")
    assert (joined.cumulative, joined.isolated, joined.sensitivity) == (None, None, None)
    op = next(op for op in report.ops if op.name == "second_op")
    assert op.sensitivity == op.sensitivity_weights
    assert op.isolated > 30


def test_saturating_readers_do_not_make_a_range_look_bad(net):
    n = net(1, 8, 8, 4)
    model = n.done(n.neuron(n.conv(n.x, 4, "wide"), 6, "gate"))
    wide = next(op for op in model.main.ops).inputs[1]
    wide.data = ArrayData(wide.numpy() * 50)
    report = measure(_decided(model, n.samples(2)), n.samples(1, seed=3))
    found = next(tensor for tensor in report.tensors if tensor.name == "wide")
    assert found.seen_high > 100 > 20 > found.grid_high
    assert "7.848" in found.heard
    assert found.clipped == 0
    assert found.isolated > 30


def test_graphs_that_run_others_are_measured_but_for_sensitivity(net):
    n = net(1, 4, 4, 4)
    y = n.conv(n.x, 4, "before")
    model = n.done(n.conv(_branch(n, y), 2, "after"))
    for name, operation in (("then", 4), ("other", 8)):
        model.add_graph(_called(net, name, operation))
    report = measure(_decided(model, n.samples(2)), n.samples(2, seed=3))
    assert report.unmeasured == ("xdlc did not measure sensitivity, because the graph runs other graphs",)
    assert report.sqnr > 10
    assert next(op for op in report.ops if op.name == "chosen_op").placement == "float"


def _branch(n, x):
    condition = static("condition", np.array([True]))
    out = Tensor("chosen", x.shape, FLOAT32)
    params = {"then_graph": Scalar(STRING, "then"), "else_graph": Scalar(STRING, "other")}
    n.graph.append(make_op(n.graph, "If", [condition, x], [out], params, name="chosen_op", package="xdlc"))
    return out


def _called(net, name, operation):
    n = net(1, 4, 4, 4)
    model = n.done(n.neuron(n.x, operation, "y"))
    model.main.name = name
    return model.main


def test_every_encoding_says_where_it_came_from(net):
    _, _, report = _report(net)
    sources = {tensor.name: tensor.source for tensor in report.tensors}
    assert all(sources.values())
    assert sources["first_w"].startswith("range method ")
    assert sources["first_b"] == "product of the scales of input and weight"


def test_ops_of_other_widths_are_told(net):
    n, model = _network(net)
    reporter = Reporter(samples=n.samples(2, seed=9), trials=0)
    quantize(model, n.samples(4), report=reporter, act_bitwidth_of={"last_op": 16})
    assert reporter.result.exceptions == ("last_op: activations 16 bits",)
    last = next(op for op in reporter.result.ops if op.name == "last_op")
    assert last.act_bits == 16
    reporter = Reporter(samples=n.samples(2, seed=9), trials=0)
    quantize(model, n.samples(6), report=reporter, min_sqnr=35.0)
    raised = [op.raised for op in reporter.result.ops if op.raised]
    assert raised
    assert all(line.startswith("A8") for line in raised)
    assert any(line.startswith("mixed precision") for line in reporter.result.notes)


def test_weights_are_compared_with_those_before_algorithms_touched_them(net):
    n, model = _network(net)
    reporter = Reporter(trials=0)
    decided = _decided(model, n.samples(2), weights_bitwidth=4)
    reporter.begin(n.samples(2, seed=9), is_own=True)
    plan = replace(decided.plan, reference=decided.plan.model.clone())
    weight = plan.graph.tensors["first_w"]
    op = next(op for op in plan.graph.ops if op.name == "first_op")
    dtype, encoding = plan.decision.statics[op, 1]
    held = Tensor("w", weight.shape, dtype, encoding)
    weight.data = ArrayData(to_float(to_quantized(weight.numpy(), held), encoding, where="w"))
    reporter.finish(Remedies(plan, decided.calibration, Engine(), []), str)
    found = next(tensor for tensor in reporter.result.tensors if tensor.name == "first_w")
    assert found.isolated < 25


def test_held_out_samples_come_from_files_too(net, tmp_path):
    n, model = _network(net)
    path = tmp_path / "held.npz"
    np.savez(path, x=np.stack([sample["x"] for sample in n.samples(3, seed=9)]))
    reporter = Reporter(samples=path, trials=0)
    quantize(model, n.samples(2), report=reporter)
    assert reporter.result.samples == 3


def test_large_networks_are_measured_with_fewer_samples(net, monkeypatch):
    n, model = _network(net)
    monkeypatch.setattr(sys.modules["xdlc.quant.report.measure"], "WORK", 1)
    report = measure(_decided(model, n.samples(2)), n.samples(6, seed=3), trials=0)
    assert report.samples == 4
    assert report.unmeasured[0] == "xdlc measured only 4 held-out samples, because the network is large"


@pytest.mark.parametrize("samples", [[], [{}], [{"x": np.zeros((1, 2, 2, 4), np.float32)}]])
def test_held_out_samples_that_do_not_fit_are_refused_before_the_work_begins(net, samples):
    n, model = _network(net)
    with pytest.raises(UsageError, match=r"report_list|held-out"):
        quantize(model, n.samples(2), report=Reporter(samples=samples), step=pytest.fail)


def test_warnings_of_decisions_are_among_what_is_lost(net):
    n, model = _network(net)
    decided = _decided(model, n.samples(2))
    decided.plan = decided.plan.noted("a note", "warning: something is lost")
    report = measure(decided, n.samples(1, seed=9), trials=0)
    assert report.lost == ("something is lost",)


def test_the_report_has_the_name_of_the_file(net):
    n, model = _network(net)

    def named(**options):
        reporter = Reporter(trials=0, **options)
        quantize(model, n.samples(2), report=reporter)
        return reporter.result.model

    assert named() == "net"
    model.metadata["history"] = [{"tool": "t"}, {"tool": "t", "args": {"input_network": "a/b.onnx"}}]
    assert named() == "b.onnx"
    assert named(title="c.dlc") == "c.dlc"


def test_a_reporter_without_samples_takes_those_of_the_figures(net):
    n, model = _network(net)
    reporter = Reporter(trials=0)
    quantize(model, n.samples(6), report=reporter, report_list=iter(n.samples(3, seed=9)))
    assert reporter.result.samples == 3


def test_values_that_quantization_removes_are_not_reported(net):
    n = net(1, 4, 4, 3)
    encoding = ScaleOffset(0.1, -128)
    result = n.conv(n.x, 4, "first")
    for name in ("a", "b"):
        stored = Tensor(f"{name}_stored", result.shape, UFIXED8, encoding)
        real = Tensor(name, result.shape, FLOAT32)
        n.graph.append(make_op(n.graph, "Quantize", [result], [stored], name=f"{name}_quantize"))
        n.graph.append(make_op(n.graph, "Dequantize", [stored], [real], name=f"{name}_dequantize"))
        result = real
    reporter = Reporter(trials=0)
    quantized = quantize(n.done(n.conv(result, 2, "last")), n.samples(3), report=reporter)
    reported = {tensor.name for tensor in reporter.result.tensors if tensor.role == "activation"}
    assert reported
    assert reported <= quantized.main.tensors.keys()
