"""Scales of weights tried on a grid, the best of each channel kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdlc.ir.data import Array
from xdlc.quant.reconstruction.rounding import error_of

Round = Callable[[Array, Array], Array]
"""From real weights [G, K, N] and scales [G, 1, N] to integers, for any number of columns N."""

AT_ONCE = 1 << 21
"""Weights that are rounded at once."""


def best_scales(
    gram: Array, real: Array, start: Array, factors: Sequence[float], rounding: Round, *, one: bool
) -> tuple[Array, Array]:
    """Return the scales of least error and the integers that go with them.

    Args:
        gram: Weights of errors, [G, K, K].
        real: Best real weights, [G, K, M].
        start: Scales [G, 1, M].
        factors: What to multiply them with.
        rounding: How integers are found.
        one: Whether all channels have one scale.
    """
    import numpy as np

    best = np.full(start.shape, np.inf)
    scales, integers = start, np.empty_like(real)
    together = max(1, AT_ONCE // max(real.size, 1))
    for first in range(0, len(factors), together):
        part = factors[first : first + together]
        copies = np.tile(real, (1, 1, len(part)))
        tried = np.concatenate([start * factor for factor in part], axis=2).astype(real.dtype)
        found = rounding(copies, tried)
        errors = error_of(gram, copies - found * tried)[:, None]
        for at in range(len(part)):
            columns = slice(at * real.shape[2], (at + 1) * real.shape[2])
            error = errors[..., columns]
            if one:
                error = np.full_like(error, error.sum(dtype=np.float64))
            better = error < best
            best = np.where(better, error, best)
            scales = np.where(better, tried[..., columns], scales)
            integers = np.where(better, found[..., columns], integers)
    return scales, integers
