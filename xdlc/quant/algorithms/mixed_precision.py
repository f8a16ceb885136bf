"""The cheapest widths that keep a goal, found by trial.

All activations at 8 bits may be hopeless where all at 16 are more than enough.  The ops that have to
have one width form groups (``mixed/groups.py``); the search (``mixed/search.py``) raises all of them until
the goal is kept (16-bit activations, then 16-bit weights, then float), and lowers again what adds least
noise for what it saves.  Half of the samples guide it; the goal has to be kept on the other half as
well, under ranges that have not seen it.
"""

from __future__ import annotations

from xdlc.errors import UsageError
from xdlc.quant.algorithms import Stage, algorithm
from xdlc.quant.job import Job
from xdlc.quant.mixed.groups import find_groups
from xdlc.quant.mixed.record import raised_records, summary
from xdlc.quant.mixed.search import Levels, search
from xdlc.quant.mixed.trials import Goal, Trials, parts_of_samples

MARGIN = 4.0
"""What is asked for beyond the goal, in dB: what samples of later use came out lower in networks measured."""


@algorithm("mixed_precision", Stage.PRECISION)
def mixed_precision(job: Job) -> None:
    """Set ``job.precision`` to the cheapest widths found that keep the goal of the options.

    Raises:
        UsageError: If there is no goal, or no widths keep it.
    """
    options = job.options
    if options.min_sqnr is None and options.max_sqnr_drop is None and job.evaluate is None:
        raise UsageError(
            "mixed precision has no goal",
            where="algorithms",
            fix="give min_sqnr (dB), max_sqnr_drop (dB), or evaluate and min_score",
        )
    base = job.precision
    groups = find_groups(job.graph, job.placement, job.sharing, base, options)
    if not groups:
        job.notes.append("mixed precision: no op has a choice of widths")
        return
    count = 0

    def tried() -> None:
        nonlocal count
        count += 1
        if job.tried is not None:
            job.tried(count)

    guiding, proving = parts_of_samples(job)
    # Ranges that have seen a sample flatter it.
    seen = job.calibration if proving is guiding else job.calibration_of(guiding)
    proof = None if proving is guiding else Trials(job, groups, base, proving, seen, tried)
    trials = Trials(job, groups, base, guiding, job.calibration, tried, proof)
    least = _least_sqnr(job, trials)
    trials.goal = Goal(None if least is None else least + MARGIN, job.evaluate, job.min_score)
    found = search([len(group.levels) - 1 for group in groups], trials)
    if not found.reached:
        job.precision = base
        raise UsageError(
            f"no widths keep {trials.goal}; the widest reach {trials.lowest(found.levels):.1f} dB",
            where="mixed_precision",
            fix="ask for less; a target that takes 16-bit weights and float, or none, allows more",
        )
    job.precision = trials.precision(found.levels)
    job.place()
    job.raised = raised_records(trials, found)
    job.notes += summary(trials, found, count)


def _least_sqnr(job: Job, trials: Trials) -> float | None:
    """Return the SQNR that has to be kept, of the two that options may ask for the higher."""
    asked = [] if job.options.min_sqnr is None else [job.options.min_sqnr]
    if job.options.max_sqnr_drop is not None:
        wide: Levels = tuple(
            next((place for place, level in enumerate(group.levels) if level.acts == 16), 0)
            for group in trials.groups
        )
        asked.append(trials.lowest(wide) - MARGIN - job.options.max_sqnr_drop)
    return max(asked, default=None)
