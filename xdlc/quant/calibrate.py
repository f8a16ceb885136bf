"""Ranges and means of activations over samples: one streaming pass, a few numbers a tensor and sample."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xdlc.errors import ModelError, UsageError, XdlcError
from xdlc.ir import Graph, Tensor
from xdlc.ir import dtype as dt
from xdlc.quant.ranges import NOTHING, Range, range_of

if TYPE_CHECKING:
    import numpy as np

    from xdlc.runtime.cpu import CpuSession

Sample = Mapping[str, "np.ndarray"]


@dataclass(slots=True)
class Calibration:
    """What samples tell of activations.

    Attributes:
        ranges: Smallest and largest value of each watched tensor.
        means: Mean over samples and all axes but the last, float64, of each averaged tensor.
    """

    ranges: dict[Tensor, Range] = field(default_factory=dict)
    means: dict[Tensor, np.ndarray] = field(default_factory=dict)


def calibrate(
    graph: Graph,
    tensors: Sequence[Tensor],
    samples: Iterable[Sample],
    *,
    averaged: Sequence[Tensor] = (),
    progress: Callable[[int], None] | None = None,
) -> Calibration:
    """Return what is to be known of activations over all samples of the float graph.

    The graph is lowered once with reductions behind each tensor, so that a run returns numbers and
    no activations; memory stays that of a float session.

    Args:
        graph: The graph to run; encodings it has already are ignored.
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
    from xdlc.runtime.lower import lower

    watched = [tensor for tensor in tensors if tensor.size and tensor.producer is not None]
    given = [tensor for tensor in tensors if tensor.size and tensor.producer is None]
    ranges = dict.fromkeys(tensors, NOTHING)
    lowered = lower(graph, quantized=False)
    keys: list[str] = []
    for number, tensor in enumerate(watched):
        value = lowered.value(tensor.name, any_layout=True)
        # ReduceMin and ReduceMax of onnxruntime pass over NaN; a sum does not.
        for kind in ("ReduceMin", "ReduceMax", "ReduceSum"):
            keys.append(f"{kind}:{number}")
            (reduced,) = lowered.add_node(kind, [value], keepdims=0)
            lowered.add_output(keys[-1], reduced, dt.FLOAT32, ())
    for number, tensor in enumerate(averaged):
        order = lowered.layout(tensor.name)
        axes = [position for position, axis in enumerate(order) if axis != tensor.rank - 1]
        inputs = [lowered.value(tensor.name, any_layout=True), lowered.add_constant(np.array(axes, np.int64))]
        (mean,) = lowered.add_node("ReduceMean", inputs, keepdims=0)
        lowered.add_output(f"mean:{number}", mean, dt.FLOAT32, (tensor.shape[-1],))
    sums = {tensor: np.zeros(tensor.shape[-1]) for tensor in averaged}
    session = CpuSession(lowered)
    count = 0
    for sample in samples:
        found = _run(session, sample, count)
        for tensor in given:
            seen = range_of(np.asarray(sample[tensor.name]))
            ranges[tensor] = ranges[tensor].merge(_finite(seen, 0.0, tensor, count))
        for number, tensor in enumerate(watched):
            low, high, total = (float(found[key]) for key in keys[3 * number : 3 * number + 3])
            ranges[tensor] = ranges[tensor].merge(_finite(Range(low, high), total, tensor, count))
        for number, tensor in enumerate(averaged):
            sums[tensor] += found[f"mean:{number}"]
        count += 1
        if progress is not None:
            progress(count)
    if not count:
        raise UsageError(
            "no calibration samples were given", where="samples", fix="give at least one sample; 32 is usual"
        )
    return Calibration(ranges, {tensor: total / count for tensor, total in sums.items()})


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
