"""Search for the cheapest levels that reach a goal, and the record of the search.

It knows no networks.

From above: all groups at the lowest level that is good enough, then down again where it costs least.
Noise of rounding in different places adds up, so that the noise that lowering a group adds, by what it
saves, orders the groups well; how many of them can be lowered together is found by halving, each time by
trial.  What is left of the noise that is allowed goes to groups further on in that order.  With more groups
than can be tried alone, runs of neighbours are ordered first, and those that stay are split.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from xdlc.opdefs.traits import macs
from xdlc.options import spell
from xdlc.quant.mixed.groups import has_weights

if TYPE_CHECKING:
    from xdlc.quant.ladder import Rung
    from xdlc.quant.mixed.trials import Trials


Levels: TypeAlias = tuple[int, ...]
Part: TypeAlias = tuple[int, ...]

MOST_FAILURES = 24
"""Groups that are tried in vain once most are lowered."""
NEAR = 0.1
"""Distance above the goal in dB within which the search stops."""
FAR = 0.7
"""How far above the goal, in dB, groups are swapped."""
MOST_ISLANDS = 100
"""Runs of lowered neighbours of which the cost of raising them again is computed."""
NEGLIGIBLE = 0.0002
"""Share of the lowest cost below which lowering further is not worthwhile."""
TINY = 1e-20
"""Noise over signal, or saving, that counts as zero."""


class LevelQueries(Protocol):
    """Queries of the search about levels, one number a group."""

    def slack(self, levels: Levels) -> float:
        """Return how far levels are above the goal, in its unit; negative if below."""

    def sqnr(self, levels: Levels) -> float: ...

    def added(self, base: Levels, levels: Levels) -> float:
        """Return the noise over signal that levels add to ``base``, in any unit.

        This has to be fast.
        """

    def cost(self, levels: Levels) -> float: ...

    def own_cost(self, group: int, level: int) -> float:
        """Return the cost of a group, without conversions of width at its borders."""

    def most_parts(self, groups: int) -> int:
        """Return how many of the groups may be tried singly."""

    def is_affordable(self) -> bool:
        """Return whether more trials may be made."""


@dataclass(slots=True)
class SearchResult:
    """The result of a search.

    Attributes:
        reached: Whether they keep the goal.
        added: For each group that was tried: noise over signal that it added when it alone, or the part that
            it was in, was lowered.
    """

    levels: Levels
    reached: bool
    added: dict[int, float] = field(default_factory=dict)


def search(ceilings: Sequence[Levels], trials: LevelQueries) -> SearchResult:
    """Return the cheapest levels that reach the goal, or the best levels if none do.

    Args:
        ceilings: Levels to come down from, the lowest that keep the goal; the first are all 0.
        trials: Answers questions about levels.
    """
    reached = next((levels for levels in ceilings if trials.slack(levels) >= 0.0), None)
    if reached is None:
        return SearchResult(max(ceilings, key=trials.sqnr), False)
    result = SearchResult(reached, True)
    for target in range(max(reached, default=0)):
        before = result.levels
        rest = _lower(result, target, trials)
        if _raise_islands(result, before, trials):
            _fill(result, rest, target, trials)
    _swap(result, reached, trials)
    return result


def _lower(result: SearchResult, target: int, trials: LevelQueries) -> list[Part]:
    """Lower groups to level ``target``; return the parts that stay above it.

    The first of these cost least noise.
    """
    least = 0.0 if target else NEGLIGIBLE * trials.cost(tuple(0 for _ in result.levels))
    raised = [
        group
        for group, level in enumerate(result.levels)
        if level > target and trials.own_cost(group, level) - trials.own_cost(group, target) >= least
    ]
    size = max(-(-len(raised) // trials.most_parts(len(raised))), 1)
    rest = _split([tuple(raised)], size)
    while True:
        ranked = _ranked(result, rest, target, trials)
        low, high = 0, len(ranked)
        while low < high:
            middle = (low + high + 1) // 2
            if trials.slack(_lowered(result.levels, ranked[:middle], target)) >= 0.0:
                low = middle
            else:
                high = middle - 1
        result.levels = _lowered(result.levels, ranked[:low], target)
        if size == 1 or not trials.is_affordable():
            return _fill(result, _split(ranked[low:], 1), target, trials)
        size = -(-size // 4)
        rest = _split(ranked[low:], size)


def _split(parts: Sequence[Part], size: int) -> list[Part]:
    """Return the parts split into pieces of at most ``size`` groups, in order."""
    return [part[start : start + size] for part in parts for start in range(0, len(part), size)]


def _ranked(result: SearchResult, parts: Sequence[Part], target: int, trials: LevelQueries) -> list[Part]:
    """Return the parts, sorted by added noise per saved cost."""
    ranked: list[tuple[float, Part]] = []
    for part in parts:
        saved = sum(
            trials.own_cost(group, result.levels[group]) - trials.own_cost(group, target) for group in part
        )
        added = trials.added(result.levels, _lowered(result.levels, [part], target))
        for group in part:
            result.added[group] = added / len(part)
        ranked.append((added / max(saved, TINY), part))
    return [part for _, part in sorted(ranked)]


def _fill(result: SearchResult, rest: list[Part], target: int, trials: LevelQueries) -> list[Part]:
    """Lower parts one by one, or several at once while that works; return the rest."""
    left: list[Part] = []
    start, size, failures = 0, 1, 0
    while start < len(rest) and failures < MOST_FAILURES and trials.is_affordable():
        slack = trials.slack(result.levels)
        if slack < NEAR:
            break
        part = rest[start : start + size]
        lowered = _lowered(result.levels, part, target)
        fits = _fits(result, lowered, slack)
        if fits and trials.slack(lowered) >= 0.0:
            result.levels = lowered
            start, size = start + size, 2 * size
        elif size > 1:
            size //= 2
        else:
            left += part
            start += 1
            failures += fits
    return [*left, *rest[start:]]


def _swap(result: SearchResult, before: Levels, trials: LevelQueries) -> None:
    """Raise a lowered group in place of a dearer one while much noise is left."""
    saved = {
        group: trials.own_cost(group, before[group]) - trials.own_cost(group, 0) for group in result.added
    }
    pairs = sorted(
        (saved[lowered] - saved[kept], kept, lowered)
        for kept in saved
        for lowered in saved
        if result.levels[kept] == before[kept] and not result.levels[lowered] and saved[lowered] < saved[kept]
    )
    failures = 0
    for _, kept, lowered in pairs:
        slack = trials.slack(result.levels)
        if slack < FAR or failures == MOST_FAILURES or not trials.is_affordable():
            return
        if result.levels[kept] != before[kept] or result.levels[lowered]:
            continue
        levels = tuple(
            0 if group == kept else before[group] if group == lowered else level
            for group, level in enumerate(result.levels)
        )
        if not _fits(result, levels, slack) or trials.cost(levels) >= trials.cost(result.levels):
            continue
        if trials.slack(levels) >= 0.0:
            result.levels = levels
        else:
            failures += 1


def _fits(result: SearchResult, levels: Levels, slack: float) -> bool:
    """Return whether levels reach the goal if noise is additive.

    A trial that passes although noise does not fit is luck.
    """
    before, after = (
        sum(noise for group, noise in result.added.items() if not held[group])
        for held in (result.levels, levels)
    )
    return not before or after / before <= 10.0 ** (slack / 10.0)


def _raise_islands(result: SearchResult, before: Levels, trials: LevelQueries) -> bool:
    """Raise runs of lowered groups whose width conversions cost more than they save."""
    runs: list[list[int]] = []
    for group, (now, then) in enumerate(zip(result.levels, before, strict=True)):
        if now == then:
            continue
        if runs and runs[-1][-1] == group - 1:
            runs[-1].append(group)
        else:
            runs.append([group])
    runs += [[group] for run in runs for group in run if len(run) > 1]
    lowered = result.levels
    for run in sorted(runs, key=len, reverse=True)[:MOST_ISLANDS]:
        inside = set(run)
        levels = tuple(
            then if group in inside else now
            for group, (now, then) in enumerate(zip(result.levels, before, strict=True))
        )
        cheaper = levels != result.levels and trials.cost(levels) <= trials.cost(result.levels)
        if cheaper and trials.slack(levels) >= 0.0:
            result.levels = levels
    return result.levels != lowered


def _lowered(levels: Levels, parts: Sequence[Part], target: int) -> Levels:
    lowered = {group for part in parts for group in part}
    return tuple(min(level, target) if group in lowered else level for group, level in enumerate(levels))


@dataclass(frozen=True, slots=True)
class RaisedOp:
    """An op whose widths were raised.

    Attributes:
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
    """Result of a mixed precision search: the tried levels and the raised ops.

    Attributes:
        raised: The ops whose widths were raised.
        rungs: What the ladder of ``accuracy`` tried.
        goal: Least SQNR in dB that was kept on the samples that widths were judged by; None: no such goal was
            set, or reached.
    """

    raised: tuple[RaisedOp, ...] = ()
    rungs: tuple[Rung, ...] = ()
    goal: float | None = None


def raised_records(trials: Trials, result: SearchResult) -> list[RaisedOp]:
    """Return a record of each raised op, the most needed ones first."""
    total = sum(macs(op) for op in trials.plan.graph.ops)
    records = []
    for index, (group, level) in enumerate(zip(trials.groups, result.levels, strict=True)):
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
                    None if index not in result.added else -10.0 * math.log10(max(result.added[index], TINY)),
                    round(more),
                    macs(op) / total if total else 0.0,
                )
            )
    return sorted(records, key=lambda record: math.inf if record.alone is None else record.alone)


def summary(trials: Trials, result: SearchResult) -> list[str]:
    """Return a summary of the search, in lines for users."""
    goal, base = trials.goal, tuple(0 for _ in result.levels)
    old, new = trials.whole_cost(base), trials.whole_cost(result.levels)
    kinds = Counter(
        str(group.levels[level]) for group, level in zip(trials.groups, result.levels, strict=True) if level
    )
    raised = ", ".join(f"{number} to {name}" for name, number in sorted(kinds.items())) or "none"
    parts = [f"{len(result.levels)} groups of ops; xdlc raised {raised}"]
    if goal.sqnr is not None:
        now, was = trials.exact(result.levels), trials.exact(base)
        asked = f"the goal is {goal.sqnr:.1f} dB, plus a reserve of {goal.margin:.1f} dB for other samples"
        judged = f"xdlc judged {trials.sample_count} samples, of which it held out {trials.held_out_count}"
        parts.append(f"the worst output is at {now:.1f} dB, and was at {was:.1f} dB ({asked}; {judged})")
    if goal.metric is not None:
        parts.append(f"the score is {trials.score(result.levels):g}, the goal {goal.metric.least:g}")
    if old.bytes:
        parts.append(f"moves {new.bytes / old.bytes:.2f} times the bytes")
    if old.bit_operations:
        parts.append(f"{new.bit_operations / old.bit_operations:.2f} times the bit operations")
    listed = "; the report lists the ops" if any(result.levels) else ""
    lines = [f"mixed precision: {'; '.join(parts)}{listed}"]
    narrowing = ", ".join(map(spell, ("target", "float_ops", "act_bitwidth_of", "weights_bitwidth_of")))
    if not result.reached and str(goal):
        lines.append(
            f"warning: no widths reach {goal}: the best reach {_reached(trials, result)}; "
            f"lower the goal, remove restrictions ({narrowing}), or calibrate with more varied samples"
        )
    return lines


def _reached(trials: Trials, result: SearchResult) -> str:
    parts = [] if trials.goal.sqnr is None else [f"{trials.exact(result.levels):.1f} dB"]
    parts += [] if trials.goal.metric is None else [f"a score of {trials.score(result.levels):g}"]
    return " and ".join(parts)
