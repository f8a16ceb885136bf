"""Equalizes the chains of a job and says what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdlc.ir import Model, Op
from xdlc.ir.data import Array
from xdlc.quant.equalization.chains import find_chains
from xdlc.quant.equalization.channels import channel_ranges_of
from xdlc.quant.equalization.guard import Guard, keep_what_helps
from xdlc.quant.equalization.noise import best_factors
from xdlc.quant.equalization.rescale import rescale
from xdlc.quant.job import Job

WORTH_TRYING = 0.1
"""Least gain in dB that the noise model has to promise."""


@dataclass(slots=True)
class _Plan:
    name: str
    factors: Array
    gain: float


def equalize(job: Job, name: str, is_source: Callable[[Op], bool]) -> None:
    """Rescale the chains from some ops where the noise model promises and a trial shows a gain.

    Args:
        job: The quantization under way, before calibration; its graph is changed.
        name: The algorithm, for notes.
        is_source: Which ops may be divided.
    """
    chains = find_chains(job.graph, is_source)
    if not chains:
        job.notes.append(f"{name}: no op whose channels could be rescaled")
        return
    guard = Guard(job)
    reads = {sink: sink.inputs[0] for chain in chains for sink in chain.sinks}
    tensors = list(dict.fromkeys(tensor for tensor in reads.values() if tensor is not None))
    seen = channel_ranges_of(job.model, tensors, guard.seen)
    known = {sink: seen[tensor] for sink, tensor in reads.items() if tensor is not None}
    plans = []
    for chain in chains:
        factors, gain = best_factors(chain, known, job.options, job.precision)
        if gain >= WORTH_TRYING:
            plans.append(_Plan(chain.source.name, factors, gain))
    plans.sort(key=lambda plan: -plan.gain)

    def make(model: Model, plan: _Plan) -> None:
        (chain,) = find_chains(model.main, lambda op: op.name == plan.name)
        rescale(model.main, chain, plan.factors)

    kept, before, after = keep_what_helps(guard, job.model, plans, make)
    for plan in kept:
        make(job.model, plan)
    job.notes.append(
        f"{name}: {len(kept)} of {len(chains)} chains rescaled, {len(plans) - len(kept)} refused; "
        f"SQNR of the outputs {before:.1f} dB before, {after:.1f} dB after"
    )
    job.notes += [f"{name}: rescaled behind {plan.name!r}, {plan.gain:.1f} dB less noise" for plan in kept]
    job.notes += [
        f"{name}: refused behind {plan.name!r}, the outputs did not gain by it"
        for plan in plans
        if plan not in kept
    ]
