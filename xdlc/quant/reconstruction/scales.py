"""Scales of weights tried on a grid, the best of each channel kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdlc.ir.data import Array
from xdlc.quant.reconstruction.rounding import error_of

Round = Callable[[Array, Array], Array]
"""From real weights [G, K, N] and scales [G, 1, N] to integers, for any number of columns N."""

FEW = 64
"""With fewer integers than that it is worth clipping the largest weights."""

AT_ONCE = 1 << 21
"""Weights that are rounded at once."""


def scales_to_try(
    decided: Array, matrix: Array, top: int, least: Array, factors: Sequence[float], *, one: bool
) -> list[Array]:
    """Return the scales that were decided, and parts of those that just hold the largest weight.

    Args:
        decided: [G, 1, M].
        matrix: Float weights, [G, K, M].
        top: Largest integer.
        least: Smallest scales allowed, [G, 1, M].
        factors: The parts.
        one: Whether all channels have one scale.
    """
    import numpy as np

    whole = np.abs(matrix).max(axis=1, keepdims=True) / top
    if one:
        whole, least = np.full_like(whole, whole.max()), np.full_like(least, least.max())
    whole = np.where(whole > 0, whole, decided)
    return [decided, *(np.maximum(whole * factor, least) for factor in factors)]


def best_scales(
    gram: Array, real: Array, scales: Sequence[Array], rounding: Round, *, one: bool
) -> tuple[Array, Array]:
    """Return the scales of least error and the integers that go with them.

    Args:
        gram: Weights of errors, [G, K, K].
        real: Best real weights, [G, K, M].
        scales: What to try, each [G, 1, M]; of equal ones the first is taken.
        rounding: How integers are found.
        one: Whether all channels have one scale.
    """
    import numpy as np

    width = real.shape[2]
    best = np.full(scales[0].shape, np.inf)
    kept, integers = scales[0].astype(real.dtype), np.zeros_like(real)
    together = max(1, AT_ONCE // max(real.size, 1))
    for first in range(0, len(scales), together):
        part = scales[first : first + together]
        copies = np.tile(real, (1, 1, len(part)))
        tried = np.concatenate(part, axis=2).astype(real.dtype)
        found = rounding(copies, tried)
        errors = error_of(gram, copies - found * tried)[:, None]
        for at in range(len(part)):
            columns = slice(at * width, (at + 1) * width)
            error = errors[..., columns]
            if one:
                error = np.full_like(error, error.sum(dtype=np.float64))
            better = error < best
            best = np.where(better, error, best)
            kept = np.where(better, tried[..., columns], kept)
            integers = np.where(better, found[..., columns], integers)
    return kept, integers
