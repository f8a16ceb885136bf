"""Range and mean square of each channel of activations, over a few samples of the float model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdlc.ir import Model, Tensor
from xdlc.ir import dtype as dt
from xdlc.ir.data import Array
from xdlc.quant.samples import Sample

if TYPE_CHECKING:
    from xdlc.runtime.lower import Lowered


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


_KINDS = ("ReduceMin", "ReduceMax", "ReduceSumSquare")


def channel_ranges_of(
    model: Model, tensors: Sequence[Tensor], samples: Iterable[Sample]
) -> dict[Tensor, ChannelRanges]:
    """Return what samples tell of the channels of activations of the main graph.

    Args:
        model: The model, run as float.
        tensors: Activations with at least one element.
        samples: Arrays by input name.
    """
    import numpy as np

    from xdlc.runtime.cpu import CpuSession

    session = CpuSession(model, quantized=False, refine=_Reductions(tensors))
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
