"""Least squares problem of a layer's weights, with its solutions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np

from xdlc.ir.data import Array

Rows: TypeAlias = tuple[Array, Array]
"""Rows of the quantized input [G, P, K], and the results wanted of them [G, P, M]."""

TOGETHER = 1024
"""Rows of one product of matrices."""

DEEPEST = 1024
"""Most inputs of a result for which there are sums of two parts of the rows."""

LEAST = 1e-20
"""Least noise, for inputs that never vary."""
DAMPING = 0.05
"""Damping of a layer with many rows."""
SCARCE = 1.0
"""Damping to add, times inputs over rows: few rows show few of the correlations."""
PLENTY = 8
"""Rows for each input from which on damping need not be tried out."""
TRIED = (0.02, 0.1, 0.5, 2.0, 8.0)
T = TypeVar("T")
Calls: TypeAlias = Callable[[Iterable[Callable[[], T]]], Iterator[T]]
"""Calls functions, maybe several at a time, and yields their results in order."""
BLOCK = 64
"""Weights of a channel between two products of whole matrices."""
Round = Callable[[Array, Array], Array]
"""From real weights [G, K, N] and scales [G, 1, N] to integers, for any number of columns N."""
FEW = 64
"""Number of integers below which clipping the largest weights can help."""
AT_ONCE = 1 << 21
"""Weights that are rounded at once."""


@dataclass(slots=True)
class Problem:
    """Sums over rows, divided by their number, centred if a bias absorbs the means.

    Attributes:
        gram: Products of inputs, float32 [G, K, K], damped.
        cross: Products of inputs and wanted results, float32 [G, K, M], damped towards the float weights.
        mean_rows: Mean of each input, [G, K]; zeros without a free bias.
        mean_results: Mean of each wanted result, [G, M]; zeros without a free bias.
    """

    gram: Array
    cross: Array
    mean_rows: Array
    mean_results: Array

    def solution(self) -> Array:
        """Return the real weights that fit best, [G, K, M]."""
        return np.linalg.solve(self.gram, self.cross)

    def bias(self, real: Array) -> Array:
        """Return the best bias [G, M] for weights."""
        return self.mean_results - (self.mean_rows[:, None, :] @ real)[:, 0]


class Sums:
    """Sums over rows; sums of several parts can be added.

    Args:
        matrix: Float weights, [G, K, M].
        first: Some rows and results, whose means are taken off all, so that doing so later costs no digits.
        centred: Whether a bias is free, so that only what differs from the means counts.
    """

    def __init__(self, matrix: Array, first: Rows, *, centred: bool) -> None:
        groups, depth, width = matrix.shape
        self.matrix, self.centred, self.count = matrix, centred, 0
        self.origin = tuple(each.mean(axis=1) * centred for each in first)
        self.gram, self.cross = np.zeros((groups, depth, depth), "f4"), np.zeros((groups, depth, width), "f4")
        self.rows, self.results = np.zeros((groups, depth)), np.zeros((groups, width))

    @classmethod
    def of(cls, chunks: Iterable[Rows], matrix: Array, *, centred: bool) -> tuple[Sums, Sums]:
        """Return the sums of even and of odd chunks of rows.

        With more than ``DEEPEST`` inputs the second sums have no rows.

        Args:
            chunks: Rows and results, at least one.
            matrix: Float weights, [G, K, M].
            centred: Whether a bias is free.
        """
        halves: tuple[Sums, Sums] | None = None
        # Sums that are never added to take no memory.
        for place, rows in _joined(chunks, parts=2 if matrix.shape[1] <= DEEPEST else 1):
            if halves is None:
                halves = cls(matrix, rows, centred=centred), cls(matrix, rows, centred=centred)
            halves[place].add(*rows)
        if halves is None:
            raise ValueError("no rows")
        return halves

    def add(self, rows: Array, results: Array) -> None:
        """Add rows [G, P, K] and their target results [G, P, M]."""
        centred, centred_results = rows - self.origin[0][:, None], results - self.origin[1][:, None]
        turned = centred.transpose(0, 2, 1)
        self.gram += turned @ centred
        self.cross += turned @ centred_results
        self.rows += centred.sum(axis=1, dtype=np.float64)
        self.results += centred_results.sum(axis=1, dtype=np.float64)
        self.count += rows.shape[1]

    def merge(self, other: Sums) -> None:
        """Add the rows of sums about the same origin."""
        for mine, its in zip(self._totals(), other._totals(), strict=True):
            mine += its
        self.count += other.count

    def _totals(self) -> tuple[Array, ...]:
        return self.gram, self.cross, self.rows, self.results

    def problem(self, damping: float) -> Problem:
        """Return the problem of the rows.

        Args:
            damping: Noise on each input that is reckoned with beside the samples', as a part of the
                inputs' mean variance; weights stay nearer to float ones.
        """
        gram, cross, rows, results = (total / self.count for total in self._totals())
        if self.centred:
            gram -= (rows[:, :, None] * rows[:, None, :]).astype("f4")
            cross -= (rows[:, :, None] * results[:, None, :]).astype("f4")
            rows, results = rows + self.origin[0], results + self.origin[1]
        else:
            rows, results = np.zeros_like(rows), np.zeros_like(results)
        diagonal = np.einsum("gkk->gk", gram)
        # Inputs that are all zero leave any weight: the float one then.
        noise = np.maximum(damping * diagonal.mean(axis=1, keepdims=True), LEAST)
        diagonal += noise
        cross += noise[:, :, None] * self.matrix
        return Problem(gram, cross, rows, results)


def _joined(chunks: Iterable[Rows], parts: int) -> Iterator[tuple[int, Rows]]:
    """Yield small chunks joined.

    With two parts, chunks of odd place are of part 1, the others of part 0.
    """
    pending: tuple[list[Rows], list[Rows]] = ([], [])

    def joined(place: int) -> tuple[int, Rows]:
        parts = pending[place]
        chunk = (
            np.concatenate([rows for rows, _ in parts], 1),
            np.concatenate([results for _, results in parts], 1),
        )
        parts.clear()
        return place, chunk

    for index, chunk in enumerate(chunks):
        place = index % parts
        pending[place].append(chunk)
        if sum(rows.shape[1] for rows, _ in pending[place]) >= TOGETHER:
            yield joined(place)
    for place in (0, 1):
        if pending[place]:
            yield joined(place)


def called(functions: Iterable[Callable[[], T]]) -> Iterator[T]:
    """Call functions one after another."""
    return (function() for function in functions)


def damping_for(
    halves: tuple[Sums, Sums], weights: Callable[[Problem], Array], calls: Calls[Any] = called
) -> float:
    """Return the damping of a layer; with few rows, the best one on other rows.

    Args:
        halves: Sums over two parts of the rows.
        weights: Returns the weights of a problem, [G, K, M].
        calls: Calls the functions for each damping.
    """
    depth: int = halves[0].matrix.shape[1]
    count = sum(half.count for half in halves)
    if count >= PLENTY * depth or not all(half.count for half in halves):
        return DAMPING + SCARCE * depth / count
    exact = [half.problem(0.0) for half in halves]

    def error(damping: float, place: int) -> float:
        return _error(exact[1 - place], weights(halves[place].problem(damping)))

    parts = calls(partial(error, damping, place) for damping in TRIED for place in (0, 1))
    errors = [first + next(parts) for first in parts]
    return TRIED[errors.index(min(errors))]


def _error(problem: Problem, weights: Array) -> float:
    """Return the mean squared error of weights, up to a constant."""
    return float((weights * (problem.gram @ weights - 2 * problem.cross)).sum(dtype=np.float64))


def nearest(real: Array, scales: Array, limits: tuple[int, int]) -> Array:
    """Return the nearest integers."""
    return np.clip(np.rint(real / scales), *limits)


def error_of(gram: Array, difference: Array) -> Array:
    """Return the squared error [G, M] of a difference of weights [G, K, M]."""
    return np.einsum("gkm,gkm->gm", difference, gram @ difference)


def turns_of(gram: Array) -> tuple[Array, Array]:
    """Return the order in which weights are rounded, and the Cholesky factor in it.

    Args:
        gram: Positive definite, [G, K, K].

    Returns:
        The order, [G, K], and the factor, [G, K, K].
    """
    # Inputs of much weight go first, while there are many left to make up for them; first is last here.
    order = np.argsort(np.einsum("gkk->gk", gram), axis=1, kind="stable")
    rows = np.take_along_axis(gram, order[:, :, None], axis=1)
    return order, np.linalg.cholesky(np.take_along_axis(rows, order[:, None, :], axis=2))


def rounded_in_turn(turns: tuple[Array, Array], real: Array, scales: Array, limits: tuple[int, int]) -> Array:
    """Return integers [G, K, M], rounded in turn to compensate earlier errors.

    Args:
        turns: What ``turns_of`` returned.
        real: Best real weights, [G, K, M].
        scales: [G, 1, M]; [G, K, M] for blocks.
    """
    order, lower = turns
    ordered = np.take_along_axis(real, order[:, :, None], axis=1)
    spread = np.broadcast_to(scales, real.shape).astype(ordered.dtype, copy=False)
    steps = np.take_along_axis(spread, order[:, :, None], axis=1)
    integers, owed = np.empty_like(ordered), np.zeros_like(ordered)
    depth = ordered.shape[1]
    for end in range(depth, 0, -BLOCK):
        start = max(end - BLOCK, 0)
        errors = np.empty_like(ordered[:, start:end])
        for at in range(end - 1, start - 1, -1):
            wish = ordered[:, at] + owed[:, at] / lower[:, at, at, None]
            integers[:, at] = np.clip(np.rint(wish / steps[:, at]), *limits)
            error = ordered[:, at] - integers[:, at] * steps[:, at]
            owed[:, start:at] += lower[:, at, start:at, None] * error[:, None]
            errors[:, at - start] = error
        owed[:, :start] += lower[:, start:end, :start].transpose(0, 2, 1) @ errors
    back = np.argsort(order, axis=1)
    return np.take_along_axis(integers, back[:, :, None], axis=1)


def descended(
    gram: Array, real: Array, integers: Array, scales: Array, limits: tuple[int, int], sweeps: int
) -> Array:
    """Return integers whose error no single change reduces.

    After ``sweeps`` rounds, some changes still may.

    Args:
        gram: Positive definite, [G, K, K].
        real: Best real weights, [G, K, M].
        integers: Where to begin, [G, K, M].
        scales: [G, 1, M]; [G, K, M] for blocks.
        sweeps: Most rounds over all weights.
    """
    result = integers.copy()
    steps = np.broadcast_to(scales, result.shape).astype(gram.dtype)
    weight = np.einsum("gkk->gk", gram)[:, :, None]
    depth = result.shape[1]
    pull = gram @ (real - result * steps)
    for _ in range(sweeps):
        moved = False
        for start in range(0, depth, BLOCK):
            end = min(start + BLOCK, depth)
            before = result[:, start:end].copy()
            inner = pull[:, start:end].copy()
            for at in range(start, end):
                wish = result[:, at] + inner[:, at - start] / (weight[:, at] * steps[:, at])
                new = np.clip(np.rint(wish), *limits)
                change = (new - result[:, at]) * steps[:, at]
                result[:, at] = new
                inner -= gram[:, start:end, at, None] * change[:, None]
            change = (result[:, start:end] - before) * steps[:, start:end]
            if change.any():
                moved = True
                pull -= gram[:, :, start:end] @ change
        if not moved:
            break
    return result


def scales_to_try(
    decided: Array, matrix: Array, top: int, least: Array, factors: Sequence[float], *, shared: bool
) -> list[Array]:
    """Return the decided scales, and fractions of scales that fit the largest weight.

    Args:
        decided: [G, 1, M]; of blocks, [G, K, M], parts of the decided ones are tried.
        matrix: Float weights, [G, K, M].
        top: Largest integer.
        least: Smallest scales allowed, [G, 1, M].
        shared: Whether all channels have one scale.
    """
    if decided.shape[1] > 1:
        return [decided, *(np.maximum(decided * factor, least) for factor in factors)]
    whole = np.abs(matrix).max(axis=1, keepdims=True) / top
    if shared:
        whole, least = np.full_like(whole, whole.max()), np.full_like(least, least.max())
    whole = np.where(whole > 0, whole, decided)
    return [decided, *(np.maximum(whole * factor, least) for factor in factors)]


def best_scales(
    gram: Array,
    real: Array,
    scales: Sequence[Array],
    rounding: Round,
    *,
    shared: bool,
    calls: Calls[Any] = called,
) -> tuple[Array, Array]:
    """Return the scales of least error and their integers.

    Args:
        gram: Weights of errors, [G, K, K].
        real: Best real weights, [G, K, M].
        scales: What to try, each [G, 1, M]; of equal ones the first is taken.
        rounding: How integers are found.
        shared: Whether all channels have one scale.
        calls: Calls the functions for some scales each.
    """
    width = real.shape[2]
    best = np.full(scales[0].shape, np.inf)
    kept, integers = scales[0].astype(real.dtype), np.zeros_like(real)
    together = max(1, AT_ONCE // max(real.size, 1))

    def rounded_with(part: Sequence[Array]) -> tuple[Array, Array, Array]:
        copies = np.tile(real, (1, 1, len(part)))
        tried = np.concatenate(part, axis=2).astype(real.dtype)
        rounded = rounding(copies, tried)
        return tried, rounded, error_of(gram, copies - rounded * tried)[:, None]

    parts = [scales[first : first + together] for first in range(0, len(scales), together)]
    for tried, rounded, errors in calls(partial(rounded_with, part) for part in parts):
        for at in range(tried.shape[2] // width):
            columns = slice(at * width, (at + 1) * width)
            error = errors[..., columns]
            if shared:
                error = np.full_like(error, error.sum(dtype=np.float64))
            better = error < best
            best = np.where(better, error, best)
            kept = np.where(better, tried[..., columns], kept)
            integers = np.where(better, rounded[..., columns], integers)
    return kept, integers
