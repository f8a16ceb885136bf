"""Search for the scale of least cost, for all rows at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from xdlc.ir.data import Array
from xdlc.quant.weight_methods import Steps, holding

Cost: TypeAlias = Callable[[Array, Array, Steps], Array]
"""Returns the cost, float64, of a scale (second argument) for each row (first); float32 both."""

_COARSE, _COARSE_COUNT = 0.9, 24
_FINE_COUNT = 6
_MOST = 1 << 16
"""Elements of a row that the search looks at; of longer rows every n-th."""


def least_cost(rows: Array, steps: Steps, cost: Cost) -> Array:
    """Return for each row the scale of least cost: that which clips nothing, or one down to a twelfth of it.

    Scales in steps of a tenth are tried, then the neighbourhood of the best in sixths of such a
    step.  Of equals the widest wins.

    Args:
        rows: Finite float32, [rows, elements].
        steps: The integers that weights are stored as.
        cost: What to minimise.
    """
    import numpy as np

    widest = holding(rows, steps)
    seen = rows[:, :: rows.shape[1] // _MOST + 1] if rows.shape[1] > _MOST else rows
    best, least = widest.copy(), np.full(len(rows), np.inf)

    def look(scales: Array) -> None:
        # Rows of zeros, and those whose scale is no normal number, are as good with any scale.
        found = cost(seen, np.maximum(scales, np.finfo(np.float32).tiny).astype(np.float32), steps)
        better = found < least
        best[better], least[better] = scales[better], found[better]

    for power in range(_COARSE_COUNT):
        look(widest * _COARSE**power)
    middle = best.copy()
    for part in range(-_FINE_COUNT + 1, _FINE_COUNT):
        look(np.minimum(middle * _COARSE ** (part / _FINE_COUNT), widest))
    return best
