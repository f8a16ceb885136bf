"""Search for the cheapest levels that are good enough, independent of networks.

From above: all groups at the lowest level that is good enough, then down again where it costs least.
Noise of rounding in different places adds up, so that the noise that lowering a group adds, by what it
saves, orders the groups well; how many of them can be lowered together is found by halving, each time by
trial.  What is left of the noise that is allowed goes to groups further on in that order.  With more groups
than can be tried alone, runs of neighbours are ordered first, and those that stay are split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

Levels: TypeAlias = tuple[int, ...]
Part: TypeAlias = tuple[int, ...]

MOST_FAILURES = 24
"""Groups that are tried in vain once most are lowered."""
NEAR = 0.1
"""How far above the goal, in dB, no more groups are tried."""
FAR = 0.7
"""How far above the goal, in dB, groups are swapped."""
MOST_ISLANDS = 100
"""Runs of lowered neighbours of which the cost of raising them again is computed."""
NEGLIGIBLE = 0.0002
"""Part of the lowest cost that is not worth going all the way down for: other samples may want the bits."""
TINY = 1e-20
"""Noise over signal, or a saving, that counts as none."""


class Trials(Protocol):
    """Queries of the search about levels, one number a group."""

    def slack(self, levels: Levels) -> float:
        """Return how far above the goal levels are, in dB where it is one of dB; negative: below."""

    def sqnr(self, levels: Levels) -> float:
        """Return the SQNR in dB."""

    def added(self, base: Levels, levels: Levels) -> float:
        """Return noise over signal that levels have beyond others, in any unit; quickly found."""

    def cost(self, levels: Levels) -> float:
        """Return the cost, in any unit."""

    def own_cost(self, group: int, level: int) -> float:
        """Return the cost of a group alone: without changes of width around it."""

    def most_parts(self, groups: int) -> int:
        """Return how many of so many groups may be tried alone."""

    def is_affordable(self) -> bool:
        """Return whether more trials may be made."""


@dataclass(slots=True)
class SearchResult:
    """The result of a search.

    Attributes:
        levels: The level of each group.
        reached: Whether they keep the goal.
        added: For each group that was tried: noise over signal that it added when it alone, or the part that
            it was in, was lowered.
    """

    levels: Levels
    reached: bool
    added: dict[int, float] = field(default_factory=dict)


def search(ceilings: Sequence[Levels], trials: Trials) -> SearchResult:
    """Return the cheapest levels found that keep the goal, or the best there are.

    Args:
        ceilings: Levels to come down from, the lowest that keep the goal; the first are all 0.
        trials: Answers questions about levels.
    """
    reached = next((levels for levels in ceilings if trials.slack(levels) >= 0.0), None)
    if reached is None:
        return SearchResult(max(ceilings, key=trials.sqnr), False)
    found = SearchResult(reached, True)
    for target in range(max(reached, default=0)):
        before = found.levels
        rest = _lower(found, target, trials)
        if _raise_islands(found, before, trials):
            _fill(found, rest, target, trials)
    _swap(found, reached, trials)
    return found


def _lower(found: SearchResult, target: int, trials: Trials) -> list[Part]:
    """Lower to level ``target`` what can be; return the others, those that cost least noise first."""
    least = 0.0 if target else NEGLIGIBLE * trials.cost(tuple(0 for _ in found.levels))
    raised = [
        group
        for group, level in enumerate(found.levels)
        if level > target and trials.own_cost(group, level) - trials.own_cost(group, target) >= least
    ]
    size = max(-(-len(raised) // trials.most_parts(len(raised))), 1)
    rest = _split([tuple(raised)], size)
    while True:
        ranked = _ranked(found, rest, target, trials)
        low, high = 0, len(ranked)
        while low < high:
            middle = (low + high + 1) // 2
            if trials.slack(_lowered(found.levels, ranked[:middle], target)) >= 0.0:
                low = middle
            else:
                high = middle - 1
        found.levels = _lowered(found.levels, ranked[:low], target)
        if size == 1 or not trials.is_affordable():
            return _fill(found, _split(ranked[low:], 1), target, trials)
        size = -(-size // 4)
        rest = _split(ranked[low:], size)


def _split(parts: Sequence[Part], size: int) -> list[Part]:
    """Return the parts in pieces of at most ``size`` groups, in the same order."""
    return [part[start : start + size] for part in parts for start in range(0, len(part), size)]


def _ranked(found: SearchResult, parts: Sequence[Part], target: int, trials: Trials) -> list[Part]:
    """Return the parts, those first that add least noise for what lowering them saves."""
    ranked: list[tuple[float, Part]] = []
    for part in parts:
        saved = sum(
            trials.own_cost(group, found.levels[group]) - trials.own_cost(group, target) for group in part
        )
        added = trials.added(found.levels, _lowered(found.levels, [part], target))
        for group in part:
            found.added[group] = added / len(part)
        ranked.append((added / max(saved, TINY), part))
    return [part for _, part in sorted(ranked)]


def _fill(found: SearchResult, rest: list[Part], target: int, trials: Trials) -> list[Part]:
    """Lower what fits yet, one after the other, or more at once while that does; return what does not."""
    left: list[Part] = []
    start, size, failures = 0, 1, 0
    while start < len(rest) and failures < MOST_FAILURES and trials.is_affordable():
        slack = trials.slack(found.levels)
        if slack < NEAR:
            break
        part = rest[start : start + size]
        lowered = _lowered(found.levels, part, target)
        fits = _fits(found, lowered, slack)
        if fits and trials.slack(lowered) >= 0.0:
            found.levels = lowered
            start, size = start + size, 2 * size
        elif size > 1:
            size //= 2
        else:
            left += part
            start += 1
            failures += fits
    return [*left, *rest[start:]]


def _swap(found: SearchResult, before: Levels, trials: Trials) -> None:
    """Raise one lowered group in place of a dearer one that stayed, where too much is left of the noise."""
    saved = {
        group: trials.own_cost(group, before[group]) - trials.own_cost(group, 0) for group in found.added
    }
    pairs = sorted(
        (saved[lowered] - saved[kept], kept, lowered)
        for kept in saved
        for lowered in saved
        if found.levels[kept] == before[kept] and not found.levels[lowered] and saved[lowered] < saved[kept]
    )
    failures = 0
    for _, kept, lowered in pairs:
        slack = trials.slack(found.levels)
        if slack < FAR or failures == MOST_FAILURES or not trials.is_affordable():
            return
        if found.levels[kept] != before[kept] or found.levels[lowered]:
            continue
        levels = tuple(
            0 if group == kept else before[group] if group == lowered else level
            for group, level in enumerate(found.levels)
        )
        if not _fits(found, levels, slack) or trials.cost(levels) >= trials.cost(found.levels):
            continue
        if trials.slack(levels) >= 0.0:
            found.levels = levels
        else:
            failures += 1


def _fits(found: SearchResult, levels: Levels, slack: float) -> bool:
    """Return whether levels keep the goal if noise adds up: a trial that passes against that is luck."""
    before, after = (
        sum(noise for group, noise in found.added.items() if not held[group])
        for held in (found.levels, levels)
    )
    return not before or after / before <= 10.0 ** (slack / 10.0)


def _raise_islands(found: SearchResult, before: Levels, trials: Trials) -> bool:
    """Raise runs of lowered neighbours again whose changes of width cost more than they save."""
    runs: list[list[int]] = []
    for group, (now, then) in enumerate(zip(found.levels, before, strict=True)):
        if now == then:
            continue
        if runs and runs[-1][-1] == group - 1:
            runs[-1].append(group)
        else:
            runs.append([group])
    runs += [[group] for run in runs for group in run if len(run) > 1]
    lowered = found.levels
    for run in sorted(runs, key=len, reverse=True)[:MOST_ISLANDS]:
        inside = set(run)
        levels = tuple(
            then if group in inside else now
            for group, (now, then) in enumerate(zip(found.levels, before, strict=True))
        )
        cheaper = levels != found.levels and trials.cost(levels) <= trials.cost(found.levels)
        if cheaper and trials.slack(levels) >= 0.0:
            found.levels = levels
    return found.levels != lowered


def _lowered(levels: Levels, parts: Sequence[Part], target: int) -> Levels:
    lowered = {group for part in parts for group in part}
    return tuple(min(level, target) if group in lowered else level for group, level in enumerate(levels))
