"""Mean of each channel of activations, as a graph computes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from xdlc.ir import dtype as dt
from xdlc.ir.data import Array
from xdlc.quant.ranges import Range

if TYPE_CHECKING:
    from xdlc.runtime.lower import Lowered


class Means:
    """Adds to a graph the mean over all axes but the last of some tensors, under their names with a prefix.

    Args:
        limits: Names of tensors, and the range that each is cut to first; None: it is not.
    """

    def __init__(self, limits: Mapping[str, Range | None]) -> None:
        self._left = dict(limits)

    def __call__(self, lowered: Lowered) -> None:
        """Add what this part of the graph is the first to have."""
        import numpy as np

        for name in [name for name in self._left if name in lowered.graph.tensors]:
            tensor, limit = lowered.graph.tensors[name], self._left.pop(name)
            value, order = lowered.value(name, any_layout=True), lowered.layout(name)
            (value,) = lowered.add_node("Cast", [value], to=1)
            if limit is not None:
                ends = [lowered.add_constant(np.float32(end)) for end in (limit.low, limit.high)]
                (value,) = lowered.add_node("Clip", [value, *ends])
            axes = np.array([place for place, axis in enumerate(order) if axis != tensor.rank - 1], np.int64)
            (mean,) = lowered.add_node("ReduceMean", [value, lowered.add_constant(axes)], keepdims=0)
            lowered.add_output(self.key(name), mean, dt.FLOAT32, (tensor.shape[-1],))

    @staticmethod
    def key(name: str) -> str:
        """Return the name of the result for a tensor."""
        return f"mean:{name}"

    @classmethod
    def read(cls, results: Mapping[str, Array], names: list[str]) -> dict[str, Array]:
        """Return the means of a run by tensor name, float64."""
        import numpy as np

        return {name: np.asarray(results[cls.key(name)], np.float64) for name in names}
