"""Acceptance test of a change: outputs have to gain by it on unseen samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from xdlc.ir import Graph, Model
from xdlc.options.quantizing import OutputKind
from xdlc.quant.calibration.calibrate import Calibration, calibrated
from xdlc.quant.engine import Engine
from xdlc.quant.judge import OutputJudge, Score, judged, parts_of_outputs
from xdlc.quant.plan import Plan
from xdlc.quant.precision import asked_precision
from xdlc.quant.runs import Runs
from xdlc.quant.samples import Sample, Samples
from xdlc.quant.storing import store

SAMPLES = 16
"""Most samples that ranges of a trial come from, and most others that it is judged by."""

Change = TypeVar("Change")


class SampleJudge:
    """Judges quantized models by their outputs for some samples.

    Args:
        plan: The plan; kinds of outputs are those of its options.
        exact: The float model or graph whose results are right.

    Attributes:
        judge: What judges the results.
    """

    def __init__(self, plan: Plan, engine: Engine, exact: Model | Graph, samples: Sequence[Sample]) -> None:
        self._engine = engine
        self._samples = samples
        graph = exact.main if isinstance(exact, Model) else exact
        floats = list(Runs(engine, exact, quantized=False, outputs=judged(graph))(samples))
        kinds = {name: OutputKind(kind) for name, kind in plan.options.output_kind.items()}
        self.judge = OutputJudge(parts_of_outputs(graph, floats, kinds), floats)

    def score(self, model: Model | Graph) -> Score:
        return self.judge.score(list(Runs(self._engine, model, outputs=self.judge.names)(self._samples)))


class Guard(SampleJudge):
    """Judges quantized models by samples that no change was fitted to.

    Args:
        plan: The plan; the results of its float model are right.

    Attributes:
        seen: Samples to fit to: the other half of those that the guard takes.
        judged: Samples to judge by; the same if there is but one.
    """

    def __init__(self, plan: Plan, calibration: Calibration, engine: Engine) -> None:
        self._plan = plan
        held = calibration.samples.first(2 * SAMPLES)
        half = len(held) // 2
        self.seen: list[Sample] = held[: len(held) - half]
        self.judged: list[Sample] = held[len(held) - half :] or held
        super().__init__(plan, engine, plan.float_model, self.judged)

    def score_of_float(self, model: Model) -> Score:
        """Return the score of a float model quantized with the ranges of ``seen``.

        Args:
            model: A float model with the results of the plan's; it is not changed.
        """
        options, twin = self._plan.options, model.clone()
        precision = asked_precision(twin.main, options, self._plan.precision.udos)
        plan = Plan.of(twin, options, precision)
        store(plan.decided(calibrated(plan, Samples(self.seen), self._engine)), {})
        return self.score(twin)


def keep_what_helps(
    guard: Guard,
    model: Model,
    changes: Sequence[Change],
    make: Callable[[Model, Change], None],
    reached: Score,
    most: int,
) -> tuple[list[Change], Score]:
    """Find the changes that together improve the outputs.

    Those that do not help as a whole are tried in halves.

    Args:
        changes: Independent of each other, those of which most is hoped for first.
        make: Makes a change in a clone of ``model``.
        reached: The score without them.

    Returns:
        The changes to make, and the score with them.
    """
    kept: list[Change] = []
    pending, trials = [list(changes)] if changes and reached.db.size else [], 0
    while pending and trials < most:
        tried = pending.pop(0)
        twin = model.clone()
        for change in [*kept, *tried]:
            make(twin, change)
        score = guard.score_of_float(twin)
        trials += 1
        if score.is_gain(reached):
            kept, reached = [*kept, *tried], score
        elif len(tried) > 1:
            half = len(tried) // 2
            pending += [tried[:half], tried[half:]]
    return kept, reached
