from dataclasses import replace

import numpy as np
import pytest

from tests.support.control_flow_models import (
    ADD,
    binary,
    graph_of,
    if_model,
    loop_model,
    model_of,
    op,
    while_params,
)
from tests.support.running import run
from xdlc.errors import BackendError, UsageError
from xdlc.ir import Tensor, static, u32
from xdlc.ir.dtype import BOOL8, FLOAT32, INT32
from xdlc.opdefs.control_flow_rules import verify_control_flow
from xdlc.quant import quantize
from xdlc.quant.calibration.calibrate import calibrate, calibrated
from xdlc.quant.calibration.worker import Watch
from xdlc.quant.engine import Engine
from xdlc.quant.options import QuantOptions
from xdlc.quant.plan import Plan
from xdlc.quant.samples import Samples
from xdlc.quant.storing import inner_graphs, quantized_copy, store
from xdlc.quant.udo import UdoConstraints
from xdlc.worker.executors import open_workers

RELU = 4


def fixed(graph):
    """Types of the ops that compute in fixed point."""
    return [
        op.type
        for op in graph.ops
        if any(tensor.dtype.is_fixed for tensor in op.outputs) and op.type not in ("Quantize", "Dequantize")
    ]


def contract(graph):
    return [(tensor.dtype.name, tensor.shape) for tensor in (*graph.inputs, *graph.outputs)]


def branching(count=8, choose=lambda n: n % 2 == 0):
    model, rng = if_model((4, 8)), np.random.default_rng(5)
    samples = [
        {"c": np.array([choose(n)]), "x": rng.standard_normal((4, 8)).astype("f")} for n in range(count)
    ]
    return model, samples


def close(model, quantized, samples, name="y", atol=0.06):
    for sample in samples:
        np.testing.assert_allclose(run(quantized, sample)[name], run(model, sample)[name], atol=atol)


def test_both_branches_are_quantized():
    model, samples = branching()
    quantized = quantize(model, samples)
    assert not verify_control_flow(quantized.graphs)
    for name, graph in quantized.graphs.items():
        graph.verify()
        assert contract(graph)[1:] == contract(model.graphs[name])[1:] or name == "main"
    assert fixed(quantized.graphs["main_then"]) == ["Relu"]
    assert fixed(quantized.graphs["main_else"]) == ["ElementWiseNeg"]
    assert [op.type for op in quantized.graphs["main_then"].ops] == ["Quantize", "Relu", "Dequantize"]
    assert all(op.origin.reason for op in quantized.graphs["main_then"].ops if op.is_inserted)
    close(model, quantized, samples)


def decided_with_branches(model, samples):
    options = QuantOptions()
    plan = replace(Plan.of(model, options), inner=inner_graphs(model, options, UdoConstraints()))
    calibration = calibrated(plan, Samples(samples), Engine())
    return plan.decided(calibration), calibration


def test_a_branch_that_no_sample_takes_stays_float():
    model, samples = branching(choose=lambda n: True)
    plan, _ = decided_with_branches(model.clone(), samples)
    notes = store(plan, {})
    assert any("'main_else' stays float: no sample ran it" in note for note in notes)
    assert fixed(plan.model.graphs["main_then"]) == ["Relu"]
    other = plan.model.graphs["main_else"]
    assert contract(other) == contract(model.graphs["main_else"])
    assert [op.type for op in other.ops] == ["ElementWiseNeg"]
    close(model, plan.model, samples)


def test_each_branch_has_the_ranges_of_its_own_samples():
    model, samples = branching(12, choose=lambda n: n < 4)
    for index, sample in enumerate(samples):
        sample["x"][0, 0] = 10.0 + index
    tensors = {name: model.graphs[name].outputs[0] for name in ("main_then", "main_else")}
    for jobs in (1, 2):
        watch = Watch(list(tensors.values()), histograms=True)
        with open_workers(jobs) as workers:
            found = calibrate(model, watch, samples, Engine(workers=workers)).statistics
        then, other = (found[tensor] for tensor in tensors.values())
        assert (then.seen.high, then.count) == (13.0, 4)
        assert (other.seen.low, other.count) == (-21.0, 8)
        assert (then.histogram.total, other.histogram.total) == (4 * 32, 8 * 32)


def test_means_of_a_branch_are_those_of_its_samples():
    model, samples = branching(6, choose=lambda n: n == 2)
    (tensor,) = model.graphs["main_then"].inputs
    result = model.graphs["main_then"].outputs[0]
    means = calibrate(model, Watch([], averaged=[result]), samples, Engine()).means
    np.testing.assert_allclose(means[result], np.maximum(samples[2]["x"], 0).mean(axis=0), atol=1e-6)
    assert tensor not in means


def test_a_loop_body_is_quantized():
    model = loop_model()
    samples = [{"x": np.full(3, 0.5, "f"), "n": np.int32([n]), "f": np.full(3, 1.1, "f")} for n in (1, 3, 5)]
    quantized = quantize(model, samples)
    assert not verify_control_flow(quantized.graphs)
    body, cond = quantized.graphs["main_body"], quantized.graphs["main_cond"]
    assert fixed(body) == ["ElementWiseBinary"]
    assert not fixed(cond)
    assert {tensor.dtype for tensor in (*body.inputs, *body.outputs)} == {FLOAT32, INT32}
    close(model, quantized, samples, atol=0.02)


def test_runs_of_a_loop_add_up_to_one_sample():
    model = loop_model()
    (product,) = (op.outputs[0] for op in model.graphs["main_body"].ops if op.outputs[0].dtype is FLOAT32)
    sample = {"x": np.ones(3, "f"), "n": np.int32([5]), "f": np.full(3, 2.0, "f")}
    found = calibrate(model, Watch([product], averaged=[product], histograms=True), [sample], Engine())
    statistics = found.statistics[product]
    assert (statistics.seen.low, statistics.seen.high, statistics.count) == (2.0, 32.0, 1)
    assert statistics.histogram.total == 3 * 3  # runs 1, 2 and 4
    np.testing.assert_allclose(found.means[product], np.full(3, (2 + 4 + 8 + 16 + 32) / 5))


def growing_model():
    """A loop that collects ``relu(x + i)``-like rows: ``y = concat(y, relu(x))``."""
    types = [("y", (1, 3), FLOAT32), ("i", (1,), INT32), ("x", (1, 3), FLOAT32)]

    def main(graph, x):
        start, zero = static("start", np.zeros((1, 3), "f")), static("zero", np.zeros(1, np.int32))
        y = Tensor("all", (1, 3), FLOAT32, dynamic_axes=(0,))
        return op(graph, "While", [start, zero, x], [y], while_params(), name="collect", package="xdlc")

    def cond(graph, y, i, x):
        return [binary(graph, 8, i, static("most", np.int32([3])), "more", BOOL8)]

    def body(graph, y, i, x):
        y.dynamic_axes = (0,)
        doubled = binary(graph, ADD, x, x, "doubled")
        params = {"operation": u32(RELU)}
        (piece,) = op(graph, "ElementWiseNeuron", [doubled], [Tensor("piece", (1, 3), FLOAT32)], params)
        result = Tensor("next", (2, 3), FLOAT32, dynamic_axes=(0,))
        op(graph, "Concat", [y, piece], [result], {"axis": u32(0)}, name="grow")
        return [result, binary(graph, ADD, i, static("one", np.ones(1, np.int32)), "j")]

    return model_of(
        graph_of("main", [("x", (1, 3), FLOAT32)], main),
        graph_of("main_cond", types, cond),
        graph_of("main_body", types, body),
    )


def test_what_a_loop_collects_stays_as_it_is():
    model = growing_model()
    samples = [{"x": np.float32([[n, -n, 1]])} for n in range(4)]
    quantized = quantize(model, samples)
    body = quantized.graphs["main_body"]
    grow = next(op for op in body.ops if op.name == "grow")
    assert grow.inputs[0] is body.inputs[0]
    assert {tensor.dtype for tensor in (*grow.inputs, *grow.outputs)} == {FLOAT32}
    assert fixed(body) == ["ElementWiseBinary", "ElementWiseNeuron"]
    close(model, quantized, samples, name="all", atol=0.03)


@pytest.mark.parametrize("algorithm", [[], ["cle"]])
def test_trials_quantize_inner_graphs_too(algorithm):
    model, samples = branching()
    plan, calibration = decided_with_branches(model.clone(), samples)
    trial = quantized_copy(plan, calibration)
    assert fixed(trial.graphs["main_then"]) == ["Relu"]
    assert not fixed(plan.model.graphs["main_then"])
    close(model, trial, samples)
    close(model, quantize(model, samples, algorithms=algorithm), samples)


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_loop_without_an_end_ends_calibration(jobs):
    sample = {"x": np.ones(3, "f"), "n": np.ones(1, np.int32), "f": np.ones(3, "f")}
    with pytest.raises(BackendError, match=r"after 0\.05 s"):
        quantize(loop_model(most=2**31 - 1), [sample], loop_timeout=0.05, jobs=jobs)
    with pytest.raises(UsageError, match="loop_timeout is 0"):
        quantize(loop_model(), [sample], loop_timeout=0)
    assert QuantOptions(loop_timeout=60).loop_timeout == 15
    with pytest.raises(BackendError, match="the loop did not end"):
        Engine(loop_timeout=0.05).session(loop_model(most=2**31 - 1)).run(sample)
