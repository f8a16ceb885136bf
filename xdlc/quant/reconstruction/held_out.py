"""Whether a change holds on samples that it was not made from, and how to take it back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdlc.ir import Graph, Op, Tensor, TensorData
from xdlc.ir.data import Array
from xdlc.quant.decision import Form, Use
from xdlc.quant.job import Job
from xdlc.quant.op_specs import is_real, single_name
from xdlc.quant.samples import Sample
from xdlc.runtime.cpu import CpuSession

TINY = 1e-30
"""Least power, which stands for none."""

_DECISIONS = ("Softmax", "Sigmoid", "HardSigmoid", "LogSoftmax")


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
    """Compares quantized networks with the float one, by what goes into a last Softmax or Sigmoid.

    After these the error of a few samples near the edge of a decision would outweigh that of all others.

    Args:
        job: The quantization under way.
        exact: The float network.
        samples: What to compare them on.
    """

    def __init__(self, job: Job, exact: Graph, samples: Sequence[Sample]) -> None:
        self._job = job
        self._samples = samples
        self._names = list(
            dict.fromkeys(_before_decision(tensor).name for tensor in exact.outputs if is_real(tensor))
        )
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
                found.append(10 * math.log10(max(noise, TINY) / max(power, TINY)))
        return float(np.mean(found)) if found else 0.0

    def _outputs(self, session: CpuSession, sample: Sample) -> list[Array]:
        import numpy as np

        given = session.run(sample)
        return [given[name].astype(np.float64) for name in self._names]


def _before_decision(tensor: Tensor) -> Tensor:
    maker = tensor.producer
    source = maker.inputs[0] if maker is not None and maker.inputs else None
    if maker is None or source is None or source.is_static or single_name(maker) not in _DECISIONS:
        return tensor
    return source
