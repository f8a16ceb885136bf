"""Range with the least Kullback-Leibler divergence from the distribution."""

from __future__ import annotations

import numpy as np

from xdlc.ir.data import Array
from xdlc.quant.calibration.statistics import Statistics
from xdlc.quant.range_methods import Grid, Steps, range_method, shrunk, unclipped_scales
from xdlc.quant.ranges import Range

_BINS = 1024
_CANDIDATES = 48
_ROWS = 256
"""Rows whose histograms are held at a time."""


def entropy_range(statistics: Statistics, grid: Grid) -> Range:
    """Return the range whose rounded distribution diverges least from the clipped one.

    After Migacz, 8-bit Inference with TensorRT (2017).  For each candidate, P is the histogram inside of
    the range with all that is outside added to its first and last bin; Q is the histogram inside of it,
    merged into as many groups of bins as there are integers, each group spread evenly over those of its
    bins that are not empty.  The candidate with the least ``sum(P * log(P / Q))`` wins.  Here both ends are
    drawn in by one factor, so that data on both sides of zero keep their proportion.  Where the histogram
    has fewer bins than there are integers, as for 16 bits, merging loses nothing and all is kept.
    """
    seen, histogram = statistics.seen, statistics.histogram
    levels = 1 << grid.bits
    if seen.is_empty or histogram.counts.size <= levels:
        return seen
    centres, best, least = histogram.centres, seen, np.inf
    for candidate in shrunk(seen, grid):
        held = candidate.with_zero()
        first, last = np.searchsorted(centres, [held.low, held.high])
        if last - first < levels:
            break
        divergence = _divergence(histogram.counts, int(first), int(last), levels)
        if divergence < least:
            best, least = candidate, divergence
    return best.cut(seen)


def _divergence(counts: Array, first: int, last: int, levels: int) -> float:
    """Return the divergence of a rounded distribution from the clipped one.

    It is rounded to ``levels``, and clipped to the bins from ``first`` to ``last``.
    """
    inside = counts[first:last].astype(np.float64)
    clipped = inside.copy()
    clipped[0] += counts[:first].sum()
    clipped[-1] += counts[last:].sum()
    group = np.arange(inside.size) * levels // inside.size
    taken = inside > 0
    mean = np.bincount(group, inside, levels) / np.maximum(np.bincount(group, taken, levels), 1)
    spread = np.where(taken, mean[group], 0.0)
    # An end that only clipped values fill has no share in Q: a millionth makes the divergence large, finite.
    p, q = (part / part.sum() if part.sum() else part for part in (clipped, spread))
    here = p > 0
    return float((p[here] * np.log(p[here] / np.maximum(q[here], 1e-6))).sum())


def entropy_scales(rows: Array, steps: Steps) -> Array:
    """Return the scales with the least divergence of rounded from clipped magnitudes.

    After Migacz, 8-bit Inference with TensorRT (2017), as :func:`entropy_range`, on histograms of
    magnitudes.  Where a row's histogram has fewer bins than there are integers, as for 16 bits, merging
    loses nothing and all is kept.
    """
    widest = unclipped_scales(rows, steps)
    if steps.high >= _BINS:
        return widest
    parts = [_kept(rows[at : at + _ROWS], steps.high) for at in range(0, len(rows), _ROWS)]
    return widest * np.concatenate([*parts, np.ones(0)])


def _kept(rows: Array, levels: int) -> Array:
    """Return the part of its range that each row keeps, as a factor."""
    magnitudes = np.abs(rows)
    tops = np.maximum(magnitudes.max(axis=1, initial=0.0), np.finfo(np.float32).tiny)[:, None]
    bins = np.minimum((magnitudes / tops * _BINS).astype(np.int64), _BINS - 1)
    bins += np.arange(len(rows))[:, None] * _BINS
    counts = np.bincount(bins.reshape(-1), minlength=len(rows) * _BINS).reshape(len(rows), _BINS)
    best, least = np.ones(len(rows)), np.full(len(rows), np.inf)
    for end in np.unique(np.linspace(_BINS, max(levels, _BINS // 8), _CANDIDATES).astype(int))[::-1]:
        found = _divergences(counts, int(end), levels)
        better = found < least
        best[better], least[better] = end / _BINS, found[better]
    return best


def _divergences(counts: Array, end: int, levels: int) -> Array:
    """Return the divergence of each row's bins rounded to ``levels``.

    It is that from the bins clipped to ``end``.
    """
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


range_method("entropy", activations=entropy_range, weights=entropy_scales)
