"""Equalization of the chains of a plan, accepted where trials show a gain."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from xdlc.ir import Model, Op
from xdlc.ir.data import Array
from xdlc.quant.acceptance import Guard, keep_what_helps
from xdlc.quant.calibration.calibrate import Calibration
from xdlc.quant.engine import Engine
from xdlc.quant.equalization.chains import Chain, Shift, find_chains, rescale, shift
from xdlc.quant.equalization.factors import ChannelStatistics, best_factors, channel_statistics
from xdlc.quant.judge import Score
from xdlc.quant.plan import Plan

TRIALS, MORE_TRIALS = 12, 3
"""Most trials of the first kind of change, and of each kind that is tried after it."""

WORTH_TRYING = 0.1
"""Least gain in dB that the noise model has to promise."""

MARGIN = 0.1
"""How far below all values seen, in parts of their range, constants after Relu stay."""


@dataclass(slots=True, eq=False)
class _Change:
    """A change of the chain after one op; ``edit`` makes it."""

    name: str
    edit: Callable[..., None]
    values: Array
    gain: float


@dataclass(slots=True)
class _Outcome:
    kept: list[_Change] = field(default_factory=list)
    refused: list[_Change] = field(default_factory=list)


def equalize(
    plan: Plan, calibration: Calibration, engine: Engine, name: str, is_source: Callable[[Op], bool]
) -> Plan:
    """Return a plan whose chains after some ops are rescaled, then shifted, where a trial shows a gain.

    First factors by the ranges that were seen are tried, where none of them helps more cautious ones.
    Last come constants ("high-bias absorption").

    Args:
        plan: The plan, before calibration; its graph is changed.
        is_source: Which ops may be changed.
    """
    chains = {chain.source.name: chain for chain in find_chains(plan.graph, is_source)}
    if not chains:
        return plan.noted(f"{name}: no op whose channels could be rescaled")
    guard = Guard(plan, calibration, engine)
    seen = _seen(plan, engine, guard, chains)
    before = guard.score_of_float(plan.model)
    reached = before
    rescaled, shifted = _Outcome(), _Outcome()
    for cautious, most in ((False, TRIALS), (True, MORE_TRIALS)):
        if rescaled.kept:
            break
        changes = []
        for chain in chains.values():
            known = {s: seen[s].expected() if cautious else seen[s] for s in chain.sinks}
            factors, gain = best_factors(chain, known, plan.options, plan.precision)
            changes.append(_Change(chain.source.name, rescale, factors, gain))
        reached = _try(plan.model, guard, changes, rescaled, reached, most)
    factors_of = {change.name: change.values for change in rescaled.kept}
    changes = [_absorption(chain, seen, factors_of.get(key)) for key, chain in chains.items()]
    reached = _try(plan.model, guard, changes, shifted, reached, MORE_TRIALS)
    notes = [
        f"{name}: {len(rescaled.kept)} of {len(chains)} chains rescaled, {len(shifted.kept)} shifted; "
        f"SQNR of the outputs {before.mean_db:.1f} dB before, {reached.mean_db:.1f} dB after"
    ]
    for done, outcome in (("rescaled", rescaled), ("shifted", shifted)):
        for change in outcome.kept:
            notes.append(f"{name}: {done} after {change.name!r}, {change.gain:.1f} dB less noise expected")
        settled = {change.name for change in outcome.kept}
        for refused in dict.fromkeys(change.name for change in outcome.refused if change.name not in settled):
            notes.append(f"{name}: not {done} after {refused!r}: the outputs did not gain by it")
    return plan.noted(*notes)


def _seen(plan: Plan, engine: Engine, guard: Guard, chains: dict[str, Chain]) -> dict[Op, ChannelStatistics]:
    reads = {sink: sink.inputs[0] for chain in chains.values() for sink in chain.sinks}
    tensors = list(dict.fromkeys(tensor for tensor in reads.values() if tensor is not None))
    found = channel_statistics(plan.model, tensors, guard.seen, engine)
    return {sink: found[tensor] for sink, tensor in reads.items() if tensor is not None}


def _try(
    model: Model, guard: Guard, changes: list[_Change], outcome: _Outcome, reached: Score, most: int
) -> Score:
    """Make those of some changes that help; return the score with them."""
    worth = (change for change in changes if change.gain >= WORTH_TRYING)
    tried = sorted(worth, key=lambda change: -change.gain)
    kept, reached = keep_what_helps(guard, model, tried, _make, reached, most)
    for change in kept:
        _make(model, change)
    outcome.kept += kept
    outcome.refused += [change for change in tried if change not in kept]
    return reached


def _make(model: Model, change: _Change) -> None:
    (chain,) = find_chains(model.main, lambda op: op.name == change.name)
    change.edit(model.main, chain, change.values)


def _absorption(chain: Chain, seen: dict[Op, ChannelStatistics], factors: Array | None) -> _Change:
    """Plan to take from each channel the middle of its range, after Relu what all its values exceed."""
    import numpy as np

    scale = np.ones(chain.count) if factors is None else factors
    low = np.min([seen[sink].low for sink in chain.sinks], axis=0) / scale
    high = np.max([seen[sink].high for sink in chain.sinks], axis=0) / scale
    constants = np.zeros(chain.count)
    if chain.shift is Shift.ANY:
        constants = (low + high) / 2
    elif chain.shift is Shift.BELOW:
        # Other samples may hold a little less, which Relu would cut off.
        constants = np.maximum(low - MARGIN * (high - low), 0.0)
    before = max(high.max(), 0.0) - min(low.min(), 0.0)
    after = max((high - constants).max(), 0.0) - min((low - constants).min(), 0.0)
    gain = 20 * math.log10(before / after) if before > 0 and after > 0 else 0.0
    return _Change(chain.source.name, shift, constants, gain)
