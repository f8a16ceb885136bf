"""Fit of the layers of a network one after the other, kept if it holds on other samples."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from zlib import crc32

from xdlc.ir import Op, Tensor
from xdlc.ir.data import Array
from xdlc.opdefs.control_flow import has_control_flow
from xdlc.quant.acceptance import LayerBackup, SampleJudge
from xdlc.quant.job import Job
from xdlc.quant.op_specs import single_name
from xdlc.quant.reconstruction.problem import Problem, Rows, Sums, damping_for
from xdlc.quant.reconstruction.rounding import rounded_in_turn
from xdlc.quant.reconstruction.sites import Fitted, Site, find_sites, scales_of, show, store
from xdlc.quant.reconstruction.walk import Walk
from xdlc.quant.samples import Spread

MOST_SAMPLES = 128
MEMORY = 96 << 20
"""Bytes of activations between two levels, over all samples; there are fewer samples where one takes more."""

LEAST_SAMPLES = 4
EACH = 8
"""Of so many samples one is held out."""

LEAST_JUDGED = 8
"""Least samples to judge the outputs by."""

ROWS = 4096
"""Rows of a layer, over all samples; twice its inputs if those are more."""

Solve = Callable[[Site, Problem, Array, Array], Fitted]
"""From a layer, what it has to fit, its float weights [G, K, M] and its scales to what it is to store."""


def fit_network(job: Job, name: str, solve: Solve, *, data: bool) -> None:
    """Fit each layer to its float results, fed with the results of the quantized layers before it.

    Every layer that can be is fitted, in the order of execution.  If the outputs of the network are
    farther from float ones than before, on samples held out where there are enough, all is taken
    back.  What was omitted and why is added to the job's notes.

    Args:
        job: A job whose encodings are decided.
        name: Name of the algorithm, for notes and progress.
        solve: Fits a layer.
        data: Whether weights and biases change, beside the scales.
    """
    sites, others = find_sites(job)
    job.notes.extend(f"{name}: {line}" for line in others)
    if has_control_flow(job.graph):
        job.notes.append(f"{name}: not applied, for the graph runs other graphs")
        return
    if not sites:
        job.notes.append(f"{name}: not applied, for there is no layer with weights that it can fit")
        return
    named = {op.outputs[0].name: site for op, site in sites.items()}
    exact = (job.reference or job.model).clone().main
    left = Walk(exact, lambda op: _result(op) in named, quantized=False, kernels=job.kernels)
    most = max(LEAST_SAMPLES, min(MOST_SAMPLES, MEMORY // max(left.peak(), 1)))
    spread = Spread(most, sys.maxsize)
    for number, sample in enumerate(job.samples):
        spread.add(number, sample)
    samples = [kept.sample for kept in spread.kept]
    fitted = [sample for index, sample in enumerate(samples) if index % EACH != EACH - 1]
    held = samples[EACH - 1 :: EACH]
    # A few samples are uncertain: what they miss is made up from the others.
    held += fitted[: max(LEAST_JUDGED - len(held), 0)]
    before = LayerBackup.of(job, sites)
    judge = SampleJudge(job, exact, held)
    trial = job.trial()
    first = judge.score(trial.main)
    right = Walk(trial.main, lambda op: _result(op) in named, quantized=True, kernels=job.kernels)
    left.enter(fitted)
    right.enter(fitted)
    done = 0
    for _ in range(left.count):
        left.advance()
        right.advance()
        twins = {_result(op): op for op in right.waiting()}
        for op in left.waiting():
            site = named[_result(op)]
            twin = twins[_result(op)]
            found = _fit(job, site, (left, op), (right, twin), solve)
            store(job, site, found, data=data)
            show(job, site, found, twin)
            done += 1
            if job.step is not None:
                job.step(name, done, len(sites))
    last = judge.score(job.trial().main)
    gain = last.mean_db - first.mean_db
    if gain < 0 or last.is_worse(first):
        before.restore(job)
        job.notes.append(
            f"{name}: taken back, for on {len(held)} samples the outputs "
            + (f"are {-gain:.1f} dB farther from float ones" if gain < 0 else "keep less of their task")
            + " with it"
        )
        return
    job.notes.append(
        f"{name}: {len(sites)} layers fitted; on {len(held)} samples the outputs are "
        f"{gain:.1f} dB nearer to float ones"
        if gain
        else f"{name}: no effect, the {len(sites)} layers were as near to float ones before"
    )


def _result(op: Op) -> str:
    return op.outputs[0].name if op.outputs else ""


def _added_to(exact: Walk, rounded: Walk, op: Op) -> Tensor | None:
    """Return what is added to the result of a layer and to nothing else, if that is known already.

    The layer then makes up for the error of that too, as far as it can.
    """
    result = op.outputs[0]
    reader = exact.graph.sole_consumer(result)
    if reader is None or single_name(reader) != "ElementWiseAdd" or exact.graph.is_output(result):
        return None
    for other in reader.inputs:
        if other is None or other is result or other.is_static or other.shape != result.shape:
            continue
        if exact.has(other) and rounded.has(other):
            return other
    return None


def _fit(job: Job, site: Site, left: tuple[Walk, Op], right: tuple[Walk, Op], solve: Solve) -> Fitted:
    import numpy as np

    (exact, op), layout = left, site.layout
    weight, bias = op.inputs[1], op.inputs[2] if len(op.inputs) > 2 else None
    if weight is None:
        raise ValueError(f"op {op.name!r} has no weight")
    matrix = np.ascontiguousarray(layout.matrix(weight.numpy().astype(np.float32)))
    added = np.zeros(1, np.float32) if bias is None else bias.numpy().astype(np.float32)
    added = np.broadcast_to(added, layout.groups * layout.width).reshape(layout.groups, 1, layout.width)
    beside = _added_to(exact, right[0], op)

    def rows() -> Iterator[Rows]:
        source, stored = op.inputs[0], right[1].inputs[0]
        if source is None or stored is None:
            return
        each = -(-max(ROWS, 2 * layout.depth) // exact.samples)
        rng = np.random.default_rng(crc32(_result(op).encode()))
        for index in range(exact.samples):
            values = exact.value(index, source)
            total = layout.positions(values.shape)
            chosen = np.arange(total) if total <= each else np.sort(rng.choice(total, each, replace=False))
            real = layout.rows(values, chosen)
            wanted = real @ matrix + added
            if beside is not None:
                lost = exact.value(index, beside) - right[0].value(index, beside)
                wanted += lost.reshape(total, layout.groups, layout.width)[chosen].transpose(1, 0, 2)
            yield layout.rows(right[0].value(index, stored), chosen), wanted

    scales = scales_of(site, job)
    halves = Sums.of(rows(), matrix, centred=site.bias is not None)

    def weights(problem: Problem) -> Array:
        return rounded_in_turn(problem.gram, problem.solution(), scales, site.limits) * scales

    damping = damping_for(halves, weights)
    halves[0].merge(halves[1])
    problem = halves[0].problem(damping)
    del halves
    return solve(site, problem, matrix, scales)
