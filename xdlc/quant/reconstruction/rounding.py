"""Integers and scales of weights near the best float weights, as the inputs weigh the error."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdlc.ir.data import Array

BLOCK = 64
"""Weights of a channel between two products of whole matrices."""


def nearest(real: Array, scales: Array, limits: tuple[int, int]) -> Array:
    """Return the nearest integers."""
    import numpy as np

    return np.clip(np.rint(real / scales), *limits)


def error_of(gram: Array, difference: Array) -> Array:
    """Return the squared error of each channel for a difference of weights [G, K, M], as [G, M]."""
    import numpy as np

    return np.einsum("gkm,gkm->gm", difference, gram @ difference)


def rounded_in_turn(gram: Array, real: Array, scales: Array, limits: tuple[int, int]) -> Array:
    """Return integers [G, K, M], each chosen knowing the errors of those before.

    Args:
        gram: Positive definite, [G, K, K].
        real: Best real weights, [G, K, M].
        scales: [G, 1, M].
        limits: Smallest and largest integer.
    """
    import numpy as np

    # Inputs of much weight go first, while there are many left to make up for them; first is last here.
    order = np.argsort(np.einsum("gkk->gk", gram), axis=1, kind="stable")
    lower = np.linalg.cholesky(
        np.take_along_axis(np.take_along_axis(gram, order[:, :, None], axis=1), order[:, None, :], axis=2)
    )
    wanted = np.take_along_axis(real, order[:, :, None], axis=1)
    steps = scales[:, 0].astype(wanted.dtype)
    integers, owed = np.empty_like(wanted), np.zeros_like(wanted)
    depth = wanted.shape[1]
    for end in range(depth, 0, -BLOCK):
        start = max(end - BLOCK, 0)
        errors = np.empty_like(wanted[:, start:end])
        for at in range(end - 1, start - 1, -1):
            wish = wanted[:, at] + owed[:, at] / lower[:, at, at, None]
            integers[:, at] = np.clip(np.rint(wish / steps), *limits)
            error = wanted[:, at] - integers[:, at] * steps
            owed[:, start:at] += lower[:, at, start:at, None] * error[:, None]
            errors[:, at - start] = error
        owed[:, :start] += lower[:, start:end, :start].transpose(0, 2, 1) @ errors
    back = np.argsort(order, axis=1)
    return np.take_along_axis(integers, back[:, :, None], axis=1)


def descended(
    gram: Array, real: Array, integers: Array, scales: Array, limits: tuple[int, int], sweeps: int
) -> Array:
    """Return integers of which no single one can move to a smaller error, or as far as ``sweeps`` go.

    Args:
        gram: Positive definite, [G, K, K].
        real: Best real weights, [G, K, M].
        integers: Where to begin, [G, K, M].
        scales: [G, 1, M].
        limits: Smallest and largest integer.
        sweeps: Most rounds over all weights.
    """
    import numpy as np

    found = integers.copy()
    steps = scales[:, 0].astype(gram.dtype)
    weight = np.einsum("gkk->gk", gram)[:, :, None]
    depth = found.shape[1]
    pull = gram @ (real - found * steps[:, None])
    for _ in range(sweeps):
        moved = False
        for start in range(0, depth, BLOCK):
            end = min(start + BLOCK, depth)
            before = found[:, start:end].copy()
            inner = pull[:, start:end].copy()
            for at in range(start, end):
                wish = found[:, at] + inner[:, at - start] / (weight[:, at] * steps)
                new = np.clip(np.rint(wish), *limits)
                change = (new - found[:, at]) * steps
                found[:, at] = new
                inner -= gram[:, start:end, at, None] * change[:, None]
            change = (found[:, start:end] - before) * steps[:, None]
            if change.any():
                moved = True
                pull -= gram[:, :, start:end] @ change
        if not moved:
            break
    return found


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
