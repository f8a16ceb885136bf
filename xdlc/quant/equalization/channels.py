"""Range and mean square of each channel of activations, over a few samples of the float model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdlc.ir import Tensor
from xdlc.ir import dtype as dt
from xdlc.ir.data import Array
from xdlc.quant.job import Job
from xdlc.quant.samples import Sample

if TYPE_CHECKING:
    from xdlc.runtime.lower import Lowered

QUIET = 1 / 32
"""Channels with less of the whole range than this count as having it, for other data may hold more."""


@dataclass(slots=True)
class ChannelRanges:
    """What is known of each index of an activation's last axis; float64 arrays.

    Attributes:
        low: Smallest value.
        high: Largest value.
        power: Mean of the squares.
    """

    low: Array
    high: Array
    power: Array

    def expected(self) -> ChannelRanges:
        """Return ranges that other samples are likely to keep.

        The largest of few values says little of the next ones: of channels that are alike, some have seen
        larger values than others.  So each is granted the ratio of peak to root mean square that any has,
        within the range of the whole.
        """
        import numpy as np

        rms = np.sqrt(self.power)
        alive = rms > rms.max(initial=0.0) * QUIET
        ends = []
        for end in (-self.low, self.high):
            ratio = (end[alive] / rms[alive]).max(initial=0.0)
            ends.append(np.maximum(end, np.minimum(ratio * rms, end.max(initial=0.0))))
        return ChannelRanges(-ends[0], ends[1], self.power)


_KINDS = ("ReduceMin", "ReduceMax", "ReduceSumSquare")


def channel_ranges_of(
    job: Job, tensors: Sequence[Tensor], samples: Iterable[Sample]
) -> dict[Tensor, ChannelRanges]:
    """Return what samples tell of the channels of activations of the main graph.

    Args:
        job: The quantization under way; its model is run as float.
        tensors: Activations with at least one element.
        samples: Arrays by input name.
    """
    import numpy as np

    session = job.session(job.model, quantized=False, refine=_Reductions(tensors))
    found: dict[Tensor, ChannelRanges] = {}
    count = 0
    for sample in samples:
        results = session.run(sample)
        count += 1
        for tensor in tensors:
            low, high, square = (np.asarray(results[f"{k}:{tensor.name}"], np.float64) for k in _KINDS)
            mean = square * (tensor.shape[-1] / tensor.size)
            held = found.get(tensor)
            if held is None:
                found[tensor] = ChannelRanges(low, high, mean)
            else:
                held.low, held.high = np.minimum(held.low, low), np.maximum(held.high, high)
                held.power = held.power + mean
    for held in found.values():
        held.power = held.power / count
    return found


class _Reductions:
    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._left = {tensor.name: tensor for tensor in tensors}

    def __call__(self, lowered: Lowered) -> None:
        import numpy as np

        for name in [name for name in self._left if name in lowered.graph.tensors]:
            tensor = self._left.pop(name)
            order = lowered.layout(name)
            axes = np.array([place for place, axis in enumerate(order) if axis != tensor.rank - 1], np.int64)
            inputs = [lowered.value(name, any_layout=True), lowered.add_constant(axes)]
            for kind in _KINDS:
                (reduced,) = lowered.add_node(kind, inputs, keepdims=0)
                lowered.add_output(f"{kind}:{name}", reduced, dt.FLOAT32, (tensor.shape[-1],))
