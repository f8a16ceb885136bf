"""Search for the cheapest levels that are good enough; knows nothing of networks.

From above: all groups at the lowest level that is good enough, then down again where it costs least.
Noise of rounding in different places adds up, so that the noise that lowering a part adds, by what it
saves, orders the parts well; how many of them can be lowered together is found by halving, each time by
trial.  With many groups, parts are runs of neighbours first, which are split where they cannot be lowered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

Levels: TypeAlias = tuple[int, ...]
Part: TypeAlias = tuple[int, ...]

MOST_PARTS = 40
"""Parts that are tried alone in a round."""
MOST_SINGLE = 12
"""Parts that are tried one after the other at the end."""
NEGLIGIBLE = 0.0002
"""Part of the lowest cost that is not worth going all the way down for: other samples may want the bits."""


class Trials(Protocol):
    """What the search asks about levels, one number a group."""

    def sqnr(self, levels: Levels) -> float:
        """Return the SQNR in dB."""

    def rough(self, levels: Levels) -> float:
        """Return an SQNR in dB that is good for comparing levels, and quickly found."""

    def is_enough(self, levels: Levels) -> bool:
        """Return whether the goal is kept."""

    def cost(self, levels: Levels) -> float:
        """Return the cost, in any unit."""

    def own_cost(self, group: int, level: int) -> float:
        """Return the cost of a group alone: without changes of width around it."""


@dataclass(slots=True)
class Found:
    """The result of a search.

    Attributes:
        levels: The level of each group.
        reached: Whether they keep the goal.
        gains: For each group that was tried: the dB lost when it, or the part that it was in, was lowered.
    """

    levels: Levels
    reached: bool
    gains: dict[int, float] = field(default_factory=dict)


def search(tops: Sequence[int], trials: Trials) -> Found:
    """Return the cheapest levels found that keep the goal, or the best there are.

    Args:
        tops: The highest level of each group; 0 is the lowest.
        trials: Answers questions about levels.
    """
    ceilings = [tuple(min(level, top) for top in tops) for level in range(max(tops, default=0) + 1)]
    reached = next((levels for levels in ceilings if trials.is_enough(levels)), None)
    if reached is None:
        return Found(max(ceilings, key=trials.sqnr), False)
    found = Found(reached, True)
    for target in range(max(reached, default=0)):
        before = found.levels
        _lower(found, target, trials)
        _raise_islands(found, before, trials)
    return found


def _lower(found: Found, target: int, trials: Trials) -> None:
    """Lower to level ``target`` what can be."""
    least = 0.0 if target else NEGLIGIBLE * trials.cost(tuple(0 for _ in found.levels))
    raised = [
        group
        for group, level in enumerate(found.levels)
        if level > target and trials.own_cost(group, level) - trials.own_cost(group, target) >= least
    ]
    size = -(-len(raised) // MOST_PARTS)
    parts = _split([tuple(raised)], size)
    while parts:
        ranked = _ranked(found, parts, target, trials)
        count = _most(found.levels, ranked, target, trials)
        found.levels = _with(found.levels, ranked[:count], target)
        rest = ranked[count:]
        if size == 1:
            # The first of the rest is what did not fit.
            for part in rest[1 : MOST_SINGLE + 1]:
                lowered = _with(found.levels, [part], target)
                if trials.is_enough(lowered):
                    found.levels = lowered
            return
        size = -(-size // 4)
        parts = _split(rest, size)[:MOST_PARTS]


def _split(parts: Sequence[Part], size: int) -> list[Part]:
    """Return the parts in pieces of at most ``size`` groups, in the same order."""
    return [part[start : start + size] for part in parts for start in range(0, len(part), size)]


def _ranked(found: Found, parts: Sequence[Part], target: int, trials: Trials) -> list[Part]:
    """Return the parts in the order in which to lower them: least noise for what is saved first."""
    before = trials.rough(found.levels)
    ranked: list[tuple[float, Part]] = []
    for part in parts:
        saved = sum(
            trials.own_cost(group, found.levels[group]) - trials.own_cost(group, target) for group in part
        )
        after = trials.rough(_with(found.levels, [part], target))
        for group in part:
            found.gains[group] = before - after
        ranked.append((max(_noise(after) - _noise(before), 0.0) / max(saved, 1e-12), part))
    return [part for _, part in sorted(ranked)]


def _most(levels: Levels, ranked: Sequence[Part], target: int, trials: Trials) -> int:
    """Return how many parts from the first on can be lowered together, found by halving."""
    low, high = 0, len(ranked)
    while low < high:
        middle = (low + high + 1) // 2
        if trials.is_enough(_with(levels, ranked[:middle], target)):
            low = middle
        else:
            high = middle - 1
    return low


def _raise_islands(found: Found, before: Levels, trials: Trials) -> None:
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
    for run in sorted(runs, key=len, reverse=True):
        inside = set(run)
        levels = tuple(
            then if group in inside else now
            for group, (now, then) in enumerate(zip(found.levels, before, strict=True))
        )
        if (
            levels != found.levels
            and trials.cost(levels) <= trials.cost(found.levels)
            and trials.is_enough(levels)
        ):
            found.levels = levels


def _with(levels: Levels, parts: Sequence[Part], target: int) -> Levels:
    lowered = {group for part in parts for group in part}
    return tuple(min(level, target) if group in lowered else level for group, level in enumerate(levels))


def _noise(sqnr: float) -> float:
    return float(10.0 ** (-sqnr / 10.0))
