"""Record of mixed precision: ops that were raised, gain and cost."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdlc.opdefs.traits import macs
from xdlc.quant.mixed.groups import has_weights
from xdlc.quant.mixed.search import TINY

if TYPE_CHECKING:
    from xdlc.quant.ladder import Rung
    from xdlc.quant.mixed.search import SearchResult
    from xdlc.quant.mixed.trials import Trials


@dataclass(frozen=True, slots=True)
class RaisedOp:
    """An op whose widths were raised.

    Attributes:
        op: Its name.
        tensors: The activations that it writes.
        before: Requested widths, like ``A8W8``.
        after: Widths that it has now, or ``float``.
        alone: SQNR in dB that is left if its group alone is at the requested widths, at the
            input of a Softmax instead of its result; None: that was not tried. Ops of a group have the same.
        bytes: Bytes that its group moves more in an inference.
        macs: Its part of the network's multiply-accumulates, 0 to 1.
    """

    op: str
    tensors: tuple[str, ...]
    before: str
    after: str
    alone: float | None
    bytes: int
    macs: float


@dataclass(frozen=True, slots=True)
class WidthSearch:
    """What mixed precision tried, and what it raised.

    Attributes:
        raised: The ops whose widths were raised.
        rungs: What the ladder of ``accuracy`` tried.
        goal: Least SQNR in dB that was kept on the samples that widths were judged by; None: no such goal was
            set, or reached.
    """

    raised: tuple[RaisedOp, ...] = ()
    rungs: tuple[Rung, ...] = ()
    goal: float | None = None


def raised_records(trials: Trials, found: SearchResult) -> list[RaisedOp]:
    """Return a record of each op that was raised, those that are needed most first."""
    total = sum(macs(op) for op in trials.plan.graph.ops)
    records = []
    for index, (group, level) in enumerate(zip(trials.groups, found.levels, strict=True)):
        if not level:
            continue
        more = trials.group_cost(index, level).bytes - trials.group_cost(index, 0).bytes
        for op in group.ops:
            names = [
                (str(choice) if has_weights(op) else str(choice).split("W")[0])
                for choice in (group.levels[0], group.levels[level])
            ]
            records.append(
                RaisedOp(
                    op.name,
                    tuple(tensor.name for tensor in op.outputs),
                    names[0],
                    names[1],
                    None if index not in found.added else -10.0 * math.log10(max(found.added[index], TINY)),
                    round(more),
                    macs(op) / total if total else 0.0,
                )
            )
    return sorted(records, key=lambda record: math.inf if record.alone is None else record.alone)


def summary(trials: Trials, found: SearchResult) -> list[str]:
    """Return what was done, in lines for people.

    Args:
        trials: The trials, with their goal.
    """
    goal, base = trials.goal, tuple(0 for _ in found.levels)
    old, new = trials.whole_cost(base), trials.whole_cost(found.levels)
    kinds = Counter(
        str(group.levels[level]) for group, level in zip(trials.groups, found.levels, strict=True) if level
    )
    raised = ", ".join(f"{number} to {name}" for name, number in sorted(kinds.items())) or "none"
    parts = [f"of {len(found.levels)} groups of ops raised: {raised}"]
    if goal.sqnr is not None:
        now, was = trials.exact(found.levels), trials.exact(base)
        asked = f"{goal.sqnr:.1f} dB requested and {goal.margin:.1f} more, which other samples may take"
        judged = f"judged on {trials.sample_count} samples, {trials.held_out_count} of them held out"
        parts.append(f"worst output at {now:.1f} dB, was {was:.1f}; {asked}; {judged}")
    if goal.metric is not None:
        parts.append(f"score {trials.score(found.levels):g}, {goal.metric.least:g} requested")
    if old.bytes:
        parts.append(f"bytes moved x {new.bytes / old.bytes:.2f}")
    if old.bit_operations:
        parts.append(f"bit operations x {new.bit_operations / old.bit_operations:.2f}")
    listed = "; a report lists the ops" if any(found.levels) else ""
    lines = [f"mixed precision: {'; '.join(parts)}{listed}"]
    if not found.reached and str(goal):
        lines.append(
            f"warning: no choice of widths reaches {goal}: the best reaches {_reached(trials, found)}; lower "
            "the goal, omit what narrows the choice (target, float_ops, act_bitwidth_of, "
            "weights_bitwidth_of), or calibrate with more samples of what the network will see"
        )
    return lines


def _reached(trials: Trials, found: SearchResult) -> str:
    parts = [] if trials.goal.sqnr is None else [f"{trials.exact(found.levels):.1f} dB"]
    parts += [] if trials.goal.metric is None else [f"a score of {trials.score(found.levels):g}"]
    return " and ".join(parts)
