"""Ranges and means of activations over samples: one streaming pass, a few numbers a tensor and sample."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xdlc.errors import ModelError, UsageError, XdlcError
from xdlc.ir import Model, Tensor
from xdlc.ir import dtype as dt
from xdlc.quant.ranges import Range, range_of
from xdlc.quant.samples import Sample
from xdlc.quant.statistics import Statistics

if TYPE_CHECKING:
    import numpy as np

    from xdlc.runtime.cpu import CpuSession
    from xdlc.runtime.lower import Lowered


@dataclass(slots=True)
class Calibration:
    """What samples tell of activations.

    Attributes:
        found: Statistics of each watched tensor.
        means: Mean over samples and all axes but the last, float64, of each averaged tensor.
    """

    found: dict[Tensor, Statistics] = field(default_factory=dict)
    means: dict[Tensor, np.ndarray] = field(default_factory=dict)


def calibrate(
    model: Model,
    tensors: Sequence[Tensor],
    samples: Iterable[Sample],
    *,
    averaged: Sequence[Tensor] = (),
    progress: Callable[[int], None] | None = None,
) -> Calibration:
    """Return what is to be known of activations of the main graph over all samples of the float model.

    The graph is lowered once with reductions behind each tensor, so that a run returns numbers and
    no activations; memory stays that of a float session.

    Args:
        model: The model to run; encodings it has already are ignored.
        tensors: Activations to watch.
        samples: Arrays by input name; read once, one at a time.
        averaged: Activations to take the mean of each channel of.
        progress: Called with the number of samples done.

    Raises:
        UsageError: If a sample does not fit the inputs, or there is none.
        ModelError: If a value is NaN or infinite; names tensor and sample.
    """
    import numpy as np

    from xdlc.runtime.cpu import CpuSession

    watched = [tensor for tensor in tensors if tensor.size and tensor.producer is not None]
    given = [tensor for tensor in tensors if tensor.size and tensor.producer is None]
    known = dict.fromkeys(tensors, Statistics())
    sums = {tensor: np.zeros(tensor.shape[-1]) for tensor in averaged}
    session = CpuSession(model, quantized=False, refine=_Measure(watched, averaged))
    count = 0
    for sample in samples:
        found = _run(session, sample, count)
        for tensor in given:
            seen = range_of(np.asarray(sample[tensor.name]))
            known[tensor] = known[tensor].merge(Statistics.of(_finite(seen, 0.0, tensor, count)))
        for tensor in watched:
            low, high, total = (float(found[_key(kind, tensor)]) for kind in _REDUCTIONS)
            seen = _finite(Range(low, high), total, tensor, count)
            known[tensor] = known[tensor].merge(Statistics.of(seen))
        for tensor in averaged:
            sums[tensor] += found[_key("mean", tensor)]
        count += 1
        if progress is not None:
            progress(count)
    if not count:
        raise UsageError(
            "no calibration samples were given", where="samples", fix="give at least one sample; 32 is usual"
        )
    return Calibration(known, {tensor: total / count for tensor, total in sums.items()})


# ReduceMin and ReduceMax of onnxruntime pass over NaN; a sum does not.
_REDUCTIONS = ("ReduceMin", "ReduceMax", "ReduceSum")


def _key(kind: str, tensor: Tensor) -> str:
    return f"{kind}:{tensor.name}"


class _Measure:
    """Adds the reductions to each part of a graph: of every tensor in the first part that has it."""

    def __init__(self, watched: Sequence[Tensor], averaged: Sequence[Tensor]) -> None:
        self._watched = {tensor.name: tensor for tensor in watched}
        self._averaged = {tensor.name: tensor for tensor in averaged}

    def __call__(self, lowered: Lowered) -> None:
        import numpy as np

        for name in [name for name in self._watched if name in lowered.graph.tensors]:
            tensor = self._watched.pop(name)
            value = lowered.value(name, any_layout=True)
            for kind in _REDUCTIONS:
                (reduced,) = lowered.add_node(kind, [value], keepdims=0)
                lowered.add_output(_key(kind, tensor), reduced, dt.FLOAT32, ())
        for name in [name for name in self._averaged if name in lowered.graph.tensors]:
            tensor = self._averaged.pop(name)
            order = lowered.layout(name)
            axes = [position for position, axis in enumerate(order) if axis != tensor.rank - 1]
            inputs = [lowered.value(name, any_layout=True), lowered.add_constant(np.array(axes, np.int64))]
            (mean,) = lowered.add_node("ReduceMean", inputs, keepdims=0)
            lowered.add_output(_key("mean", tensor), mean, dt.FLOAT32, (tensor.shape[-1],))


def _run(session: CpuSession, sample: Sample, index: int) -> dict[str, Any]:
    try:
        return session.run(sample)
    except XdlcError as error:
        place = f"calibration sample {index}"
        error.where = f"{place}: {error.where}" if error.where else place
        raise


def _finite(seen: Range, total: float, tensor: Tensor, sample: int) -> Range:
    if seen.is_finite and not math.isnan(total):
        return seen
    what = (
        "NaN"
        if math.isnan(total) or math.isnan(seen.low)
        else f"{seen.high if math.isinf(seen.high) else seen.low}"
    )
    place = f"calibration sample {sample}, tensor {tensor.name!r}"
    if tensor.producer is None:
        raise UsageError(f"holds {what}", where=place, fix="leave the sample out, or mend what makes it")
    raise ModelError(
        f"the float model gives {what}, which no encoding can hold",
        where=f"{place} of op {tensor.producer.name!r} ({tensor.producer.type})",
        fix="check that samples are preprocessed as the model expects; leave such samples out",
    )
