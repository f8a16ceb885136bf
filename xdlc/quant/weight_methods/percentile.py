"""The scale that a given part of all magnitudes needs."""

from __future__ import annotations

from xdlc.ir.data import Array
from xdlc.quant.weight_methods import Steps, holding, weight_method


@weight_method("percentile")
def percentile(rows: Array, steps: Steps) -> Array:
    """Return the scales that clip no more than what is beyond the percentile of each row.

    A row so short that the part left out is less than one value keeps all of them.
    """
    import numpy as np

    needed = np.where(rows < 0, rows / steps.low, rows / steps.high)
    kept = np.quantile(needed, steps.percentile / 100.0, axis=1, method="higher")
    # Where most values are zero the quantile is too, and would leave nothing of the others.
    return np.where(kept > 0, kept, holding(rows, steps)).astype(np.float64)
