"""The scale that keeps most of the distribution: least Kullback-Leibler divergence."""

from __future__ import annotations

from xdlc.ir.data import Array
from xdlc.quant.weight_methods import Steps, holding, weight_method

_BINS = 1024
_CANDIDATES = 48
_ROWS = 256
"""Rows whose histograms are held at a time."""


@weight_method("entropy")
def entropy(rows: Array, steps: Steps) -> Array:
    """Return the scales whose rounded magnitudes tell least apart from the clipped ones.

    After Migacz, 8-bit Inference with TensorRT (2017), as the activations' method of this name, on
    histograms of magnitudes.  Where a row's histogram has fewer bins than there are integers, as for
    16 bits, merging loses nothing and all is kept.
    """
    import numpy as np

    widest = holding(rows, steps)
    if steps.high >= _BINS:
        return widest
    parts = [_kept(rows[at : at + _ROWS], steps.high) for at in range(0, len(rows), _ROWS)]
    return widest * np.concatenate([*parts, np.ones(0)])


def _kept(rows: Array, levels: int) -> Array:
    """Return which part of its range each row keeps."""
    import numpy as np

    magnitudes = np.abs(rows)
    tops = np.maximum(magnitudes.max(axis=1, initial=0.0), np.finfo(np.float32).tiny)[:, None]
    bins = np.minimum((magnitudes / tops * _BINS).astype(np.int64), _BINS - 1)
    bins += np.arange(len(rows))[:, None] * _BINS
    counts = np.bincount(bins.reshape(-1), minlength=len(rows) * _BINS).reshape(len(rows), _BINS)
    best, least = np.ones(len(rows)), np.full(len(rows), np.inf)
    for end in np.unique(np.linspace(_BINS, max(levels, _BINS // 8), _CANDIDATES).astype(int))[::-1]:
        found = _divergence(counts, int(end), levels)
        better = found < least
        best[better], least[better] = end / _BINS, found[better]
    return best


def _divergence(counts: Array, end: int, levels: int) -> Array:
    """Return for each row the divergence of bins merged into ``levels`` from those clipped to ``end``."""
    import numpy as np

    inside = counts[:, :end].astype(np.float64)
    clipped = inside.copy()
    clipped[:, -1] += counts[:, end:].sum(axis=1)
    starts = np.unique(np.arange(levels) * end // levels)
    widths = np.diff([*starts, end])
    taken = inside > 0
    means = np.add.reduceat(inside, starts, axis=1) / np.maximum(
        np.add.reduceat(taken.astype(np.int64), starts, axis=1), 1
    )
    spread = np.where(taken, np.repeat(means, widths, axis=1), 0.0)
    p, q = (part / np.maximum(part.sum(axis=1, keepdims=True), 1.0) for part in (clipped, spread))
    # An end that only clipped values fill has no share in Q: a millionth makes the divergence large, finite.
    logs = np.log(np.where(p > 0, p, 1.0) / np.maximum(np.where(p > 0, q, 1.0), 1e-6))
    return (p * logs).sum(axis=1)
