"""Acceptance test of a change: whether quantized outputs gain by it on samples that it was not made from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from xdlc.ir import Graph, Model, Op, Tensor, TensorData
from xdlc.quant.decision import Form, Use
from xdlc.quant.job import Job
from xdlc.quant.judge import OutputJudge, Score, judged, parts_of_outputs
from xdlc.quant.precision import asked_precision
from xdlc.quant.samples import Sample, Samples

SAMPLES = 16
"""Most samples that ranges of a trial come from, and most others that it is judged by."""

Change = TypeVar("Change")


class SampleJudge:
    """Judges quantized models by samples that it runs.

    Args:
        job: The quantization under way.
        exact: The float model or graph whose results are right.
        samples: Samples to run.

    Attributes:
        judge: What judges the results.
    """

    def __init__(self, job: Job, exact: Model | Graph, samples: Sequence[Sample]) -> None:
        self._job = job
        self._samples = samples
        graph = exact.main if isinstance(exact, Model) else exact
        session = job.session(exact, quantized=False, outputs=judged(graph))
        floats = [session.run(sample) for sample in samples]
        self.judge = OutputJudge(parts_of_outputs(graph, floats, job.output_kinds), floats)

    def score(self, model: Model | Graph) -> Score:
        """Return the score of a quantized model or graph."""
        session = self._job.session(model, outputs=self.judge.names)
        return self.judge.score([session.run(sample) for sample in self._samples])


class Guard(SampleJudge):
    """Judges models on samples that nothing was fitted to.

    Args:
        job: The quantization under way.
        reference: The float model whose results are right; default: the job's.

    Attributes:
        seen: Samples to fit to: the other half of those that the guard takes.
        judged: Samples to judge by; the same if there is but one.
    """

    def __init__(self, job: Job, reference: Model | None = None) -> None:
        held = job.samples.first(2 * SAMPLES)
        half = len(held) // 2
        self.seen: list[Sample] = held[: len(held) - half]
        self.judged: list[Sample] = held[len(held) - half :] or held
        super().__init__(job, reference or job.model, self.judged)

    def score_of_float(self, model: Model) -> Score:
        """Return the score of a float model quantized with the ranges of ``seen``.

        Args:
            model: A float model with the results of the job's; it is not changed.
        """
        job = self._job
        trial = Job(model.clone(), job.options, Samples(self.seen), job.precision, kernels=job.kernels)
        trial.precision = asked_precision(trial.graph, job.options, job.precision.udos)
        trial.place()
        trial.calibrate()
        trial.decide()
        trial.finish()
        return self.score(trial.model)


def keep_what_helps(
    guard: Guard,
    model: Model,
    changes: Sequence[Change],
    make: Callable[[Model, Change], None],
    reached: Score,
    most: int,
) -> tuple[list[Change], Score]:
    """Find changes that help together; those that do not as a whole are tried in halves.

    Args:
        guard: What judges.
        model: The float model; it is not changed.
        changes: Independent of each other, those of which most is hoped for first.
        make: Makes a change in a clone of ``model``.
        reached: The score without them.
        most: Trials to make at most.

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


@dataclass(frozen=True, slots=True)
class LayerBackup:
    """Stored forms and data of layers before they are fitted."""

    forms: dict[Use, Form]
    data: dict[Tensor, TensorData]

    @classmethod
    def of(cls, job: Job, ops: Iterable[Op]) -> LayerBackup:
        """Return the backup of the weights and biases of some ops."""
        uses = [(op, index) for op in ops for index in (1, 2) if (op, index) in job.decision.statics]
        tensors = [tensor for op, index in uses if (tensor := op.inputs[index]) is not None]
        return cls(
            {use: job.decision.statics[use] for use in uses},
            {tensor: tensor.data for tensor in tensors if tensor.data is not None},
        )

    def restore(self, job: Job) -> None:
        """Restore them."""
        job.decision.statics.update(self.forms)
        for tensor, data in self.data.items():
            tensor.data = data
