"""The cheapest widths that keep a goal, found by trial.

All activations at 8 bits may be hopeless where all at 16 are more than enough.  The ops that have to
have one width form groups (``mixed/groups.py``); the search (``mixed/search.py``) raises all of them until
the goal is kept (16-bit activations, then 16-bit weights, then float), and lowers again what adds least
noise for what it saves.  What is kept is judged on samples that ranges have not seen meanwhile.
"""

from __future__ import annotations

from xdlc.errors import UsageError
from xdlc.quant.algorithms import Stage, algorithm
from xdlc.quant.auto_range import SAMPLE_BYTES
from xdlc.quant.job import Job
from xdlc.quant.judge import judged
from xdlc.quant.ladder import STAGES, climb
from xdlc.quant.mixed.groups import find_groups
from xdlc.quant.mixed.record import raised_records, summary
from xdlc.quant.mixed.search import SearchResult, search
from xdlc.quant.mixed.trials import Goal, Trials, most_runs
from xdlc.quant.samples import KeptSample, Spread, is_held_out

MOST_JUDGED = 16
"""Samples that widths are judged on."""
MARGIN = 0.3
"""What is kept beyond the goal, in dB: the choice fits the samples that it was made on a little."""
MOST_SEARCHES = 8
"""Searches, each corrected by the result of the network as stored after the one before."""


@algorithm("mixed_precision", Stage.PRECISION)
def mixed_precision(job: Job) -> None:
    """Set ``job.precision`` to the cheapest widths found that keep the goal of the options, or the best.

    Raises:
        UsageError: If there is no goal.
    """
    options = job.options
    climbs = not options.has_goal and job.evaluate is None
    if climbs and options.accuracy == "fast":
        raise UsageError(
            "mixed precision has no goal",
            where="algorithms",
            fix="give accuracy=best, min_sqnr=DB, max_sqnr_drop=DB, or evaluate=FUNCTION and "
            "min_score=NUMBER",
        )
    base = job.precision
    groups = find_groups(job.graph, job.placement, job.sharing, base, options)
    if not groups:
        job.notes.append("mixed precision: no op has a choice of widths")
        return
    trials = Trials(job, groups, base, _judged(job), most_runs(job, sum(1 for _ in job.samples)))
    if climbs:
        result = climb(job, trials)
        notes = summary(trials, result) if any(result.levels) else []
    else:
        with job.without_held_out():  # ranges that have seen a sample flatter it
            result = _search(job, trials)
            notes = summary(trials, result)
    job.precision = trials.precision(result.levels)
    job.place()
    job.raised = raised_records(trials, result)
    job.goal = trials.goal.sqnr if result.reached else None
    job.notes += notes


def _judged(job: Job) -> list[KeptSample]:
    """Return the samples to judge by: those held out, and others where these are few.

    The choice of many widths fits few samples, by more than ranges flatter those that they have seen.
    """
    if not job.holds_out:
        return job.measured
    spreads = [Spread(MOST_JUDGED, SAMPLE_BYTES) for _ in range(2)]
    for number, sample in enumerate(job.samples):
        spreads[not is_held_out(number)].add(number, sample)
    session = job.session(job.model, quantized=False, outputs=judged(job.graph))
    for spread in spreads:
        for kept in list(spread.kept):
            spread.give(kept.number, session.run(kept.sample))
    return [kept for spread in spreads for kept in spread.kept][:MOST_JUDGED]


def _search(job: Job, trials: Trials) -> SearchResult:
    """Return what is found under the goal of the options, as the network is stored."""
    least = _least_sqnr(job, trials)
    trials.goal = Goal(least, MARGIN, job.evaluate, job.min_score)
    best, tried = None, set()
    while True:
        result = search(trials.ceilings()[: STAGES[job.options.accuracy] + 1], trials)
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


def _least_sqnr(job: Job, trials: Trials) -> float | None:
    """Return the SQNR that has to be kept, the higher of the two in the options."""
    asked = [] if job.options.min_sqnr is None else [job.options.min_sqnr]
    if job.options.max_sqnr_drop is not None:
        asked.append(trials.exact(trials.ceilings()[1]) - job.options.max_sqnr_drop)
    return max(asked, default=None)
