"""Acceptance test of a change: whether quantized outputs gain by it on samples that it was not made from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from xdlc.ir import Graph, Model, Op, Tensor, TensorData
from xdlc.ir.data import Array
from xdlc.opdefs.traits import types_with
from xdlc.quant.auto_range import judged
from xdlc.quant.decision import Form, Use
from xdlc.quant.job import Job
from xdlc.quant.precision import asked_precision
from xdlc.quant.samples import Sample, Samples
from xdlc.runtime.cpu import CpuSession

SAMPLES = 16
"""Most samples that ranges of a trial come from, and most others that it is judged by."""

MIN_GAIN = 0.05
"""Least gain in dB for which a change is kept."""

CERTAINTY = 2.0
"""How many standard errors of its mean over samples a gain has to be."""

_TINY = 1e-30
"""Least power, which counts as none."""

_LOWEST, _HIGHEST = -20.0, 120.0

Change = TypeVar("Change")


class Guard:
    """Judges models by what quantization leaves of their outputs, on samples that nothing was fitted to.

    Where an output is squashed (Softmax, Sigmoid), its input shows more: a class that is sure to win has
    the same probability with much noise as with little.

    Args:
        job: The quantization under way.
        reference: The float model whose results are right; default: the job's.

    Attributes:
        seen: Samples to fit to: the other half of those that the guard takes.
        judged: Samples to judge by; the same if there is but one.
    """

    def __init__(self, job: Job, reference: Model | None = None) -> None:
        held = job.samples.first(2 * SAMPLES)
        self._job = job
        half = len(held) // 2
        self.seen: list[Sample] = held[: len(held) - half]
        self.judged: list[Sample] = held[len(held) - half :] or held
        self.names = judged(job.graph, types_with("squashes"))
        self._real = self._run(reference or job.model, quantized=False)

    def _run(self, model: Model, *, quantized: bool) -> list[dict[str, Array]]:
        session = self._job.session(model, quantized=quantized, outputs=self.names)
        runs = (session.run(sample) for sample in self.judged)
        return [{name: results[name] for name in self.names} for results in runs]

    def sqnr(self, model: Model) -> Array:
        """Return what :meth:`judge` returns for a float model quantized with the ranges of ``seen``.

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
        return self.judge(self._run(trial.model, quantized=True))

    def judge(self, results: Sequence[Mapping[str, Array]]) -> Array:
        """Return the SQNR in dB of each sample, averaged over outputs.

        Args:
            results: The tensors ``names`` of a run of a quantized model on each sample of ``judged``.
        """
        import numpy as np

        rows = [
            [_sqnr(real[name], rounded[name]) for name in self.names]
            for real, rounded in zip(self._real, results, strict=True)
        ]
        return np.asarray(rows, np.float64).reshape(len(rows), -1).mean(axis=1)


def _sqnr(real: Array, rounded: Array) -> float:
    import numpy as np

    wanted = np.asarray(real, np.float64)
    signal, noise = (wanted**2).sum(), ((np.asarray(rounded, np.float64) - wanted) ** 2).sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = 10 * np.log10(signal / noise)
    return float(np.clip(np.nan_to_num(ratio, nan=_HIGHEST), _LOWEST, _HIGHEST))


def is_gain(before: Array, after: Array) -> bool:
    """Return whether figures in dB, sample by sample, got better by more than chance explains."""
    import numpy as np

    gains = np.asarray(after) - np.asarray(before)
    if not gains.size or gains.mean() < MIN_GAIN:
        return False
    error = gains.std(ddof=1) / np.sqrt(gains.size) if gains.size > 1 else 0.0
    return bool(gains.mean() >= CERTAINTY * error)


def keep_what_helps(
    guard: Guard,
    model: Model,
    changes: Sequence[Change],
    make: Callable[[Model, Change], None],
    reached: Array,
    most: int,
) -> tuple[list[Change], Array]:
    """Find changes that raise the SQNR together; those that do not as a whole are tried in halves.

    Args:
        guard: What judges.
        model: The float model; it is not changed.
        changes: Independent of each other, those of which most is hoped for first.
        make: Makes a change in a clone of ``model``.
        reached: SQNR in dB of each sample without them.
        most: Trials to make at most.

    Returns:
        The changes to make, and the SQNR in dB of each sample with them.
    """
    kept: list[Change] = []
    pending, trials = [list(changes)] if changes and reached.size else [], 0
    while pending and trials < most:
        tried = pending.pop(0)
        twin = model.clone()
        for change in [*kept, *tried]:
            make(twin, change)
        found = guard.sqnr(twin)
        trials += 1
        if is_gain(reached, found):
            kept, reached = [*kept, *tried], found
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


class Judge:
    """Compares quantized networks with the float one, by the input of a last Softmax or Sigmoid.

    After these the error of a few samples near the edge of a decision would outweigh that of all others.

    Args:
        job: The quantization under way.
        exact: The float network.
        samples: Samples to compare them on.
    """

    def __init__(self, job: Job, exact: Graph, samples: Sequence[Sample]) -> None:
        self._job = job
        self._samples = samples
        self._names = judged(exact, types_with("squashes"))
        session = job.session(exact, quantized=False, outputs=self._names)
        self._wanted = [self._outputs(session, sample) for sample in samples]

    def error(self, quantized: Graph) -> float:
        """Return the error against float values in dB, the mean over samples and outputs; less is better."""
        import numpy as np

        session = self._job.session(quantized, outputs=self._names)
        found = []
        for sample, wanted in zip(self._samples, self._wanted, strict=True):
            for real, given in zip(wanted, self._outputs(session, sample), strict=True):
                power = float((real**2).sum())
                noise = float(((given - real) ** 2).sum())
                found.append(10 * math.log10(max(noise, _TINY) / max(power, _TINY)))
        return float(np.mean(found)) if found else 0.0

    def _outputs(self, session: CpuSession, sample: Sample) -> list[Array]:
        import numpy as np

        given = session.run(sample)
        return [given[name].astype(np.float64) for name in self._names]
