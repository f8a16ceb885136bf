"""Whether a change holds on samples that it was not made from, and how to take it back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdlc.ir import Graph, Op, Tensor, TensorData
from xdlc.quant.decision import Form, Use
from xdlc.quant.job import Job
from xdlc.quant.rules import is_real
from xdlc.quant.samples import Sample
from xdlc.runtime.cpu import CpuSession


@dataclass(frozen=True, slots=True)
class Kept:
    """What was stored of layers before they were fitted."""

    forms: dict[Use, Form]
    data: dict[Tensor, TensorData]

    @classmethod
    def of(cls, job: Job, ops: Iterable[Op]) -> Kept:
        """Return what a job has decided of the weights and biases of some ops."""
        uses = [(op, index) for op in ops for index in (1, 2) if (op, index) in job.decision.statics]
        tensors = [tensor for op, index in uses if (tensor := op.inputs[index]) is not None]
        return cls(
            {use: job.decision.statics[use] for use in uses},
            {tensor: tensor.data for tensor in tensors if tensor.data is not None},
        )

    def restore(self, job: Job) -> None:
        """Put it back."""
        job.decision.statics.update(self.forms)
        for tensor, data in self.data.items():
            tensor.data = data


class Judge:
    """Compares quantized networks with the float one.

    Args:
        exact: The float network.
        samples: What to compare them on.
    """

    def __init__(self, exact: Graph, samples: Sequence[Sample]) -> None:
        self._samples = samples
        self._names = [tensor.name for tensor in exact.outputs if is_real(tensor)]
        session = CpuSession(exact, quantized=False)
        self._wanted = [session.run(sample) for sample in samples]

    def error(self, quantized: Graph) -> float:
        """Return the error of the outputs against float ones in dB, the mean over outputs; less is better."""
        import numpy as np

        session = CpuSession(quantized)
        noise, power = np.zeros(len(self._names)), np.zeros(len(self._names))
        for sample, wanted in zip(self._samples, self._wanted, strict=True):
            given = session.run(sample)
            for at, name in enumerate(self._names):
                real = wanted[name].astype(np.float64)
                noise[at] += ((given[name] - real) ** 2).sum()
                power[at] += (real**2).sum()
        if not self._names:
            return 0.0
        tiny = math.ulp(0.0)
        return float((10 * np.log10(np.maximum(noise, tiny) / np.maximum(power, tiny))).mean())
