"""The scale of least expected noise."""

from __future__ import annotations

from xdlc.ir.data import Array
from xdlc.quant.weight_methods import Steps, weight_method
from xdlc.quant.weight_methods._search import least_cost


@weight_method("sqnr")
def sqnr(rows: Array, steps: Steps) -> Array:
    """Return the scales for which signal over expected noise is highest.

    A value inside is off by an error that is uniform over a step, ``scale^2 / 12`` in the mean square; a
    value outside by its distance from the nearer end.  Other than with ``mse`` it does not count that
    some values happen to lie on the grid.
    """
    return least_cost(rows, steps, _expected_noise)


def _expected_noise(rows: Array, scales: Array, steps: Steps) -> Array:
    import numpy as np

    each = scales[:, None]
    beyond = rows - np.clip(rows, each * steps.low, each * steps.high)
    inside = (beyond == 0.0).sum(axis=1)
    return np.square(beyond).sum(axis=1, dtype=np.float64) + inside * (scales.astype(np.float64) ** 2 / 12)
