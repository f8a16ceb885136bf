"""The scale of least squared error."""

from __future__ import annotations

from xdlc.ir.data import Array
from xdlc.quant.weight_methods import Steps, weight_method
from xdlc.quant.weight_methods._search import least_cost


@weight_method("mse")
def mse(rows: Array, steps: Steps) -> Array:
    """Return the scales for which the squared error of really rounded and clipped values is least."""
    return least_cost(rows, steps, squared_error)


def squared_error(rows: Array, scales: Array, steps: Steps) -> Array:
    """Return the sum of squared rounding and clipping errors of each row, in float64."""
    import numpy as np

    each = scales[:, None]
    errors = rows / each
    np.rint(errors, out=errors)
    np.clip(errors, steps.low, steps.high, out=errors)
    errors *= each
    errors -= rows
    return np.square(errors, out=errors).sum(axis=1, dtype=np.float64)
