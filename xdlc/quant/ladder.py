"""Ladder of widths: search for the cheapest widths that keep each output's task.

Widths of the whole network come first, for each is one session; what is enough as a whole is then lowered
op by op as far as the task is kept (``mixed/search.py``).  Outputs are judged on held-out samples.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from xdlc.quant.advice import keeps, moved_bytes, widths
from xdlc.quant.calibration.calibrate import Calibration
from xdlc.quant.engine import Engine
from xdlc.quant.mixed.groups import Level
from xdlc.quant.mixed.search import SearchResult, WidthSearch, search
from xdlc.quant.mixed.trials import Goal
from xdlc.quant.output_accuracy import figures_of
from xdlc.quant.plan import Change, Plan
from xdlc.quant.verdicts import Verdict

if TYPE_CHECKING:
    from xdlc.quant.mixed.search import Levels
    from xdlc.quant.mixed.trials import Trials

STAGES = {"fast": 3, "balanced": 1, "best": 3}
"""The last stage of ``mixed.groups.Group.highest`` that each ladder goes to, a goal with it."""

KEPT = (0.99, 0.995)
"""Least share of the float task that outputs keep op by op; the second where the stored network has less."""

SHARE = 4
"""Part of the runs of mixed precision under a goal that are made op by op: one by so many."""

WORTH = 0.9
"""Largest cost of op-by-op widths, relative to whole-network widths, that is acceptable."""


@dataclass(frozen=True, slots=True)
class Rung:
    """Widths that were tried.

    Attributes:
        widths: Their names, like ``A16W8``.
        kept: Share of the float task that the worst output keeps, 0 to 1; None: there is no verdict.
        is_enough: Whether all outputs keep their task.
        bytes: Bytes that an inference moves, in units of the requested widths.
        worst: The worst output in words.
    """

    widths: str
    kept: float | None
    is_enough: bool
    bytes: float
    worst: str
    seconds: float


def climb(plan: Plan, calibration: Calibration, engine: Engine, trials: Trials) -> tuple[Plan, SearchResult]:
    """Return the cheapest widths that keep the task, and a plan with the trials.

    Where none keeps it, they are the best that were tried.
    """
    ceilings = trials.ceilings()[: STAGES[plan.options.accuracy] + 1]
    attempt = partial(_tried, plan, calibration, engine, trials)
    rungs: dict[Levels, Rung] = {}
    for stage, levels in enumerate(ceilings):
        if levels not in rungs:
            name = _name(trials, levels) if stage else _requested(plan)
            rungs[levels] = attempt(levels, name, stage)
        if rungs[levels].is_enough:
            break
    else:
        best = max(rungs, key=lambda levels: (rungs[levels].kept or 0.0, -rungs[levels].bytes))
        return _ended(plan, rungs, ceilings.index(best)), SearchResult(best, False)
    result = SearchResult(levels, True)
    trials.most_runs = trials.runs + trials.most_runs // SHARE
    for kept in KEPT if stage else ():
        trials.goal = Goal(kept=kept)
        lowered = search(ceilings[: stage + 1], trials)
        if not lowered.reached or trials.cost(lowered.levels) > WORTH * trials.cost(levels):
            break
        if lowered.levels not in rungs:
            name = f"{_name(trials, levels)} in part"
            rungs[lowered.levels] = attempt(lowered.levels, name, stage)
        if rungs[lowered.levels].is_enough:
            result = lowered
            break
    return _ended(plan, rungs, stage), result


def _requested(plan: Plan) -> str:
    return str(Level(plan.options.act_bitwidth, plan.options.weights_bitwidth))


def _name(trials: Trials, levels: Levels) -> str:
    """Return the name of the widest level that a group has."""
    chosen = [group.levels[level] for group, level in zip(trials.groups, levels, strict=True)]
    return str(max(chosen, key=lambda level: (level.acts is None, level.acts or 0, level.weights)))


def _inner(stage: int) -> Change:
    """Return the widths of branches and loop bodies at a stage."""
    if not stage:
        return lambda precision: precision
    return partial(widths, 16, 16 if stage > 1 else None)


def _tried(
    plan: Plan,
    calibration: Calibration,
    engine: Engine,
    trials: Trials,
    levels: Levels,
    name: str,
    stage: int,
) -> Rung:
    began = time.perf_counter()
    engine.report(f"trying {name}")
    tried = plan.under(lambda _: trials.precision(levels), _inner(stage)).decided(calibration)
    figures, corrected = figures_of(tried, calibration, engine)
    moved = moved_bytes(tried) / max(trials.unit.bytes, 1.0)
    poorest = worst(figure.verdict for figure in figures)
    text = "no output was judged" if poorest is None else f"{poorest.output!r} as {poorest.kind}: {poorest}"
    seconds = time.perf_counter() - began
    kept, enough = None if poorest is None else poorest.kept, all(map(keeps, figures))
    trials.plan = replace(trials.plan, corrects_biases=corrected)  # for trials of what is near
    return Rung(name, kept, enough, moved, text, seconds)


def worst(verdicts: Iterable[Verdict]) -> Verdict | None:
    """Return the worst verdict of all outputs, None if there are none."""
    return min(verdicts, key=lambda verdict: (verdict.at_most, verdict.kept), default=None)


def _ended(plan: Plan, rungs: dict[Levels, Rung], stage: int) -> Plan:
    """Return a plan with the rungs, and with widths of a stage for inner graphs."""
    ended = plan.under(lambda precision: precision, _inner(stage))
    return replace(ended, search=WidthSearch(rungs=tuple(rungs.values())))


def ladder_note(rungs: Sequence[Rung], accuracy: str) -> str:
    """Return a table of the widths that were tried, one line each."""
    is_reached = any(rung.is_enough for rung in rungs)
    wide = max(len(rung.widths) for rung in rungs)
    lines = [
        (
            f"accuracy {accuracy}: xdlc tried these widths; each line shows the share of correct results of "
            "the worst output"
        )
        + ("" if is_reached else "; no widths are enough, so xdlc uses the best widths")
    ]
    for rung in rungs:
        kept = "" if rung.kept is None else f"{rung.kept:.1%}"
        figures = f"{kept:>7} kept  moves {rung.bytes:.2f} times the bytes  {rung.seconds:5.1f} s"
        lines.append(f"  {rung.widths:<{wide}} {figures}  {rung.worst}")
    return "\n".join(lines)
