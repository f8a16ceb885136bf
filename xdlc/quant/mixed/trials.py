"""Trials of widths: the quantized network run on samples, against the float one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from xdlc.quant.mixed.cost import Cost, graph_cost, op_cost
from xdlc.quant.mixed.groups import Group
from xdlc.quant.mixed.search import Levels
from xdlc.quant.placement import place
from xdlc.quant.precision import Precision

if TYPE_CHECKING:
    from xdlc.quant.calibrate import Calibration
    from xdlc.quant.job import Job
    from xdlc.quant.samples import Sample
    from xdlc.runtime.cpu import CpuSession

Run: TypeAlias = Callable[[Mapping[str, Any]], dict[str, Any]]
Evaluate: TypeAlias = Callable[[Run], float]

MOST_SAMPLES = 24
"""Samples of a part."""
MOST_ROUGH = 6
"""Samples that are enough for comparisons: those with the largest errors."""
MOST_BYTES = 64 << 20
"""Bytes of float results that are kept."""
HIGHEST = 200.0
"""SQNR in dB of results without any error."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What has to be kept.

    Attributes:
        sqnr: Least mean SQNR of the outputs in dB; None: any.
        evaluate: Tells how good a network is, given a function that runs it; None: nothing.
        least: Least result of ``evaluate``.
    """

    sqnr: float | None = None
    evaluate: Evaluate | None = None
    least: float = -math.inf

    def __str__(self) -> str:
        """Say it in words."""
        parts = [] if self.sqnr is None else [f"{self.sqnr:.1f} dB"]
        parts += [] if self.evaluate is None else [f"a score of {self.least:g}"]
        return " and ".join(parts)


class Trials:
    """Trials of levels on a part of the samples; each is made once.

    Args:
        job: The quantization; its precision and decision are those of the last trial.
        groups: What has levels.
        base: The widths that were asked for.
        samples: The samples to run.
        calibration: What ranges are chosen from.
        tried: Called after each trial.
        proof: Trials on other samples, on which the goal has to be kept as well; None: there are too few.
    """

    def __init__(
        self,
        job: Job,
        groups: Sequence[Group],
        base: Precision,
        samples: Sequence[Sample],
        calibration: Calibration,
        tried: Callable[[], None],
        proof: Trials | None = None,
    ) -> None:
        self.job = job
        self.groups = groups
        self.goal = Goal()
        self.count = 0
        self._base = base
        self._samples = samples
        self._calibration = calibration
        self._tried = tried
        self.proof = proof
        self._rough: dict[Levels, float] = {}
        self._worst: list[int] | None = None
        self._sqnr: dict[Levels, float] = {}
        self._score: dict[Levels, float] = {}
        self._costs: dict[Levels, Cost] = {}
        self._wanted = _run_float(job, samples)
        self.unit = self.whole_cost(tuple(0 for _ in groups))

    def precision(self, levels: Levels) -> Precision:
        """Return the widths of all ops under some levels."""
        chosen = self._base.copy()
        for group, level in zip(self.groups, levels, strict=True):
            if level:
                group.set(chosen, group.levels[level])
        return chosen

    def sqnr(self, levels: Levels) -> float:
        """Return the mean over outputs of SQNR in dB, pooled over the samples."""
        if levels not in self._sqnr:
            self._sqnr[levels] = self._measure(self._session(levels), range(len(self._samples)))
        return self._sqnr[levels]

    def rough(self, levels: Levels) -> float:
        """Return the same over the samples that had the largest errors in the first trial."""
        if levels not in self._rough:
            self._rough[levels] = self._measure(
                self._session(levels, plain=True), self._worst or range(MOST_ROUGH)
            )
        return self._rough[levels]

    def lowest(self, levels: Levels) -> float:
        """Return the SQNR of the part of the samples that has the lower one."""
        return self.sqnr(levels) if self.proof is None else min(self.sqnr(levels), self.proof.sqnr(levels))

    def score(self, levels: Levels) -> float:
        """Return the user's score."""
        if levels not in self._score and self.goal.evaluate is not None:
            self._score[levels] = float(self.goal.evaluate(self._session(levels).run))
        return self._score.get(levels, 0.0)

    def is_enough(self, levels: Levels) -> bool:
        """Return whether the goal is kept."""
        wanted = self.goal.sqnr
        if wanted is not None and (self.sqnr(levels) < wanted or self.lowest(levels) < wanted):
            return False
        return self.goal.evaluate is None or self.score(levels) >= self.goal.least

    def whole_cost(self, levels: Levels) -> Cost:
        """Return the cost of an inference."""
        found = self._costs.get(levels)
        if found is None:
            precision = self.precision(levels)
            graph = self.job.graph
            found = graph_cost(graph, place(graph, precision), precision, self._float_bits)
            self._costs[levels] = found
        return found

    def cost(self, levels: Levels) -> float:
        """Return the cost of an inference, in units of that of the widths that were asked for."""
        return self.whole_cost(levels).relative(self.unit)

    def own_cost(self, group: int, level: int) -> float:
        """Return the cost of a group alone, in the same unit."""
        return self.group_cost(group, level).relative(self.unit)

    def group_cost(self, group: int, level: int) -> Cost:
        """Return the cost of a group alone."""
        chosen = self.groups[group].levels[level]
        total = Cost()
        for op in self.groups[group].ops:
            total += op_cost(op, chosen.acts, chosen.weights, self._float_bits)
        return total

    @property
    def _float_bits(self) -> int:
        return 32 if self.job.options.float_bitwidth == 32 else 16

    def _session(self, levels: Levels, *, plain: bool = False) -> CpuSession:
        job = self.job
        job.precision = self.precision(levels)
        whole, job.calibration = job.calibration, self._calibration
        try:
            job.decide()
            session = job.session(job.trial(), plain=plain)
        finally:
            job.calibration = whole
        self.count += 1
        self._tried()
        return session

    def _measure(self, session: CpuSession, chosen: Sequence[int]) -> float:
        """Return the SQNR over the chosen samples; the first time note which have the largest errors."""
        import numpy as np

        names = list(self._wanted[0]) if self._wanted else []
        power, error = np.zeros((2, len(self._wanted), len(names)))
        for index in [index for index in chosen if index < len(self._wanted)]:
            found = session.run(self._samples[index])
            for column, name in enumerate(names):
                reals = self._wanted[index][name].astype(np.float64)
                power[index, column] = np.square(reals).sum()
                error[index, column] = np.square(reals - found[name]).sum()
        if self._worst is None:
            parts = error / np.maximum(power.sum(axis=0), 1e-300)
            self._worst = [int(index) for index in np.argsort(-parts.sum(axis=1), kind="stable")[:MOST_ROUGH]]
        decibels = [_decibels(*totals) for totals in zip(power.sum(axis=0), error.sum(axis=0), strict=True)]
        return sum(decibels) / len(decibels) if decibels else HIGHEST


def _decibels(power: float, error: float) -> float:
    if error <= power * 10.0 ** (-HIGHEST / 10):
        return HIGHEST
    return float(max(10.0 * math.log10(power / error), -HIGHEST)) if power else -HIGHEST


def _run_float(job: Job, samples: Sequence[Sample]) -> list[dict[str, Any]]:
    real = {tensor.name for tensor in job.graph.outputs if tensor.dtype.is_float or tensor.dtype.is_fixed}
    session = job.session(job.model, quantized=False)
    return [
        {name: array for name, array in session.run(sample).items() if name in real} for sample in samples
    ]


def parts_of_samples(job: Job) -> tuple[list[Sample], list[Sample]]:
    """Return the samples to search with, and others to look at the result with; few are used for both.

    As many as keep the float results of both parts in ``MOST_BYTES``.
    """
    bytes_each = sum(tensor.size * 4 for tensor in job.graph.outputs) + sum(
        tensor.size * 4 for tensor in job.graph.inputs
    )
    most = max(4, min(2 * MOST_SAMPLES, MOST_BYTES // max(bytes_each, 1)))
    samples = _spread(job, most)
    if len(samples) < 4:
        return samples, samples
    return samples[::2], samples[1::2]


def _spread(job: Job, most: int) -> list[Sample]:
    """Return at most ``most`` samples, evenly from all."""
    total = max((statistics.count for statistics in job.calibration.found.values()), default=1)
    step = max(1, -(-total // most))
    return [sample for place, sample in enumerate(job.samples) if place % step == 0]
