"""Search by trial for the cheapest widths that reach a goal.

All activations at 8 bits may be hopeless where all at 16 are more than enough.  The ops that have to
have one width form groups (``mixed/groups.py``); the search (``mixed/search.py``) raises all of them until
the goal is kept (16-bit activations, then 16-bit weights, then float), and lowers again what adds least
noise for what it saves.  What is kept is judged on samples that ranges have not seen meanwhile.
"""

from __future__ import annotations

from dataclasses import replace

from xdlc.errors import UsageError
from xdlc.options import spell
from xdlc.quant.algorithms import Stage, algorithm
from xdlc.quant.calibration.calibrate import SAMPLE_BYTES, Calibration, KeptSample, Spread
from xdlc.quant.engine import Engine
from xdlc.quant.judge import judged
from xdlc.quant.ladder import STAGES, climb
from xdlc.quant.mixed.groups import find_groups
from xdlc.quant.mixed.search import SearchResult, WidthSearch, raised_records, search, summary
from xdlc.quant.mixed.trials import Goal, Trials, most_runs
from xdlc.quant.plan import Plan
from xdlc.quant.runs import Runs
from xdlc.quant.samples import is_held_out

MOST_JUDGED = 16
"""Samples that widths are judged on."""
MARGIN = 0.3
"""Reserve above the goal in dB, because the choice fits its own samples best."""
MOST_SEARCHES = 8
"""Searches, each corrected by the result of the network as stored after the one before."""


@algorithm("mixed_precision", Stage.PRECISION)
def mixed_precision(plan: Plan, calibration: Calibration, engine: Engine) -> Plan:
    """Return a plan with the cheapest widths found that reach the options' goal.

    If no widths keep the goal, the plan has the best ones.

    Raises:
        UsageError: If there is no goal.
    """
    options = plan.options
    climbs = not options.has_goal and engine.metric is None
    if climbs and options.accuracy == "fast":
        raise UsageError(
            "mixed precision needs a goal",
            where=spell("algorithms"),
            fix=f"pass {spell('accuracy', 'best')}, {spell('min_sqnr')}, {spell('max_sqnr_drop')}, or "
            f"{spell('evaluate')} and {spell('min_score')}",
        )
    shared = plan.main.groups
    if plan.choice is not None:
        shared = plan.main.ranges(calibration, options, plan.choice).groups or shared
    groups = find_groups(plan.graph, plan.placement, shared, plan.precision, options)
    if not groups:
        return plan.noted("mixed precision: no op supports other widths")
    runs = most_runs(plan.graph, sum(1 for _ in calibration.samples))
    trials = Trials(plan, calibration, engine, groups, _judged(plan, calibration, engine), runs)
    if climbs:
        plan, result = climb(plan, calibration, engine, trials)
        notes = summary(trials, result) if any(result.levels) else []
    else:
        result = _search(trials, engine)
        notes = summary(trials, result)
    search = WidthSearch(
        tuple(raised_records(trials, result)),
        plan.search.rungs,
        trials.goal.sqnr if result.reached else None,
    )
    plan = plan.with_precision(trials.precision(result.levels))
    return replace(plan, search=search).noted(*notes)


def _judged(plan: Plan, calibration: Calibration, engine: Engine) -> list[KeptSample]:
    """Return the samples for judging: held-out ones, and others if these are few.

    The choice of many widths fits few samples, by more than ranges flatter those that they have seen.
    """
    if not calibration.holds_out:
        return calibration.measured
    spreads = [Spread(MOST_JUDGED, SAMPLE_BYTES) for _ in range(2)]
    for number, sample in enumerate(calibration.samples):
        spreads[not is_held_out(number)].add(number, sample)
    runs = Runs(engine, plan.model, quantized=False, outputs=judged(plan.graph))
    for spread in spreads:
        chosen = list(spread.kept)
        for kept, floats in zip(chosen, runs(kept.sample for kept in chosen), strict=True):
            spread.give(kept.number, floats)
    return [kept for spread in spreads for kept in spread.kept][:MOST_JUDGED]


def _search(trials: Trials, engine: Engine) -> SearchResult:
    """Return the search result for the options' goal, measured in the stored form."""
    least = _least_sqnr(trials)
    trials.goal = Goal(least, MARGIN, engine.metric)
    best, tried = None, set()
    while True:
        result = search(trials.ceilings()[: STAGES[trials.plan.options.accuracy] + 1], trials)
        if least is None:
            return result
        if result.levels in tried:
            break
        tried.add(result.levels)
        is_good = trials.exact(result.levels) >= least + MARGIN / 2 and trials.keeps_task(result.levels)
        if is_good and (best is None or trials.cost(result.levels) < trials.cost(best.levels)):
            best = result
        if not result.reached or len(tried) == MOST_SEARCHES:
            break
    if best is None:
        result.reached = trials.exact(result.levels) >= least
    return best or result


def _least_sqnr(trials: Trials) -> float | None:
    """Return the SQNR to reach: the higher of the options' two limits."""
    options = trials.plan.options
    asked = [] if options.min_sqnr is None else [options.min_sqnr]
    if options.max_sqnr_drop is not None:
        asked.append(trials.exact(trials.ceilings()[1]) - options.max_sqnr_drop)
    return max(asked, default=None)
