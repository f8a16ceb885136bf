"""Verdicts about outputs: the share of their information that is kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from xdlc.compare.figures import Noise, percent, sqnr
from xdlc.ir.data import Array
from xdlc.options.quantizing import OutputKind

USELESS, POOR = 0.90, 0.97
"""An output that keeps less of the float task than this is useless, or poor."""

NEAR, NEAR_LOGIT = 0.1, 0.4
"""A score that close to its threshold in float decides nothing; the same of logits and of the two largest."""

TOLERATED = 0.25
"""Error of a coordinate that is tolerated, in units of its spread."""

LEAST_SPREAD = 0.05
"""Least spread that a unit is made of, over that of all values; of constants, over their size."""

LEAST_SPREAD_OF_MANY = 0.2
"""The same of coordinates of many candidates, which differ by their places more than by their boxes."""

SIDE = 8
"""Least height and width of a picture."""

SQUARE = 100
"""The same of one without channels, which has the shape of candidates with scores."""

LEAST_AREA = 0.001
"""Least part of a picture that an IoU is taken of."""

ROUNDING = 1e-9
"""Spread over size of values, at most, that is rounding of a mean."""

SAME = 1e-6
"""Spread over size of values, at most, that are rounded to one."""

LONGEST_TEXT = 256
"""Most steps with labels that are read as one, like the characters of a text between blanks."""

FEW = 4
"""Least samples that a spread over samples is taken of."""

LOST_DB = 10.0
"""Classes below this get no benefit of the doubt: the error of their logits is a third of these."""

SMALL, NOTHING = 0.01, 1e-5
"""Shares of the largest value: a channel below the first is looked at alone, below the second not at all."""

MOST_CHANNELS = 64
"""Channels of an output that are looked at."""

MOST_VECTORS = 1024
"""Embeddings whose neighbours are compared."""

LEAST_ROWS = 20
"""Fewer rows with labels are too few to judge by."""

_Z = 1.645
"""Standard errors of the one-sided bound of 95 %."""

Pairs = Sequence[tuple[Array, Array]]
"""Values of the float model and of the quantized one, of each sample."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Share of an output's information that a quantized model keeps for applications.

    Attributes:
        kept: Share of the float task that is kept, 0 to 1: the worst of its measures.
        at_most: The most that may be kept, since few samples were measured; ``kept`` where that is no matter.
        doubt: Why the samples are too few to judge by; empty: they are enough.
        place: The part of the output that keeps least; empty: the whole.
        equal: Share of equal labels, or of rows with the same largest element; None: neither counts.
        rows: How many labels or rows that share is of.
        kind: What it was taken for.
    """

    kept: float
    at_most: float
    words: str
    doubt: str = ""
    place: str = ""
    equal: float | None = None
    rows: int = 0
    kind: OutputKind = OutputKind.SIGNAL
    output: str = ""

    @property
    def is_useless(self) -> bool:
        return self.at_most < USELESS

    @property
    def is_poor(self) -> bool:
        """Whether the output is likely poor, or useless."""
        return self.at_most < POOR

    def __str__(self) -> str:
        """Return the measures in a few words."""
        text = ", ".join(filter(None, (self.words, self.doubt)))
        return f"{self.place}: {text}" if self.place else text


def too_few(rows: int) -> str:
    """Return that rows are too few to judge by; empty: they are enough."""
    return "" if rows >= LEAST_ROWS else f"too few samples to judge ({rows})"


def is_picture(shape: Sequence[int]) -> bool:
    """Return whether a shape has height and width, before channels or without these."""
    if len(shape) > 3:
        return min(shape[-3:-1]) >= SIDE
    return len(shape) == 3 and min(shape[1:]) >= SQUARE and max(shape[1:]) <= 4 * min(shape[1:])


def verdict_of(kind: OutputKind, pairs: Pairs, threshold: float, *, is_certain: bool) -> Verdict:
    """Return the verdict about values of an output.

    Args:
        kind: What they are taken for.
        pairs: Values of the float model and of the quantized one, of each sample.
        threshold: What scores have to exceed.
        is_certain: Whether they are of that kind for sure.  If classes are not, and all samples have one
            label, the noise of the values counts too.
    """
    pairs = [pair for pair in pairs if any(array.size for array in pair)]
    are_finite = [np.isfinite(exact) for exact, _ in pairs]
    if not all(are.all() for are in are_finite):  # masks
        pairs = [
            (np.where(are, exact, 0.0), np.where(are, rounded, 0.0))
            for are, (exact, rounded) in zip(are_finite, pairs, strict=True)
        ]
    if not pairs:
        return Verdict(1.0, 1.0, "no values", "no value was measured", kind=kind)
    if not all(np.isfinite(rounded).all() for _, rounded in pairs):
        return Verdict(0.0, 0.0, "NaN or infinite", kind=kind)
    verdict = replace(_MEASURES[kind](pairs, threshold), kind=kind)
    if kind is OutputKind.CLASSES and verdict.doubt and not is_certain:
        noise = Noise.of(pairs)
        kept, at_most = min(verdict.kept, noise.kept), min(verdict.at_most, noise.kept)
        return replace(verdict, kept=kept, at_most=at_most, words=f"{verdict.words}, {noise.db:.1f} dB")
    least = max(
        NEAR if threshold else 0.0, SAME * max(float(np.abs(exact).max(initial=0.0)) for exact, _ in pairs)
    )
    if kind is not OutputKind.LABELS and _spread(pairs, 0) > least and not _spread(pairs, 1):
        return replace(verdict, kept=0.0, at_most=0.0, words="constant, but the float values vary")
    return verdict


def _spread(pairs: Pairs, side: int) -> float:
    """Return the largest less the smallest value of one side of the pairs."""
    arrays = [pair[side] for pair in pairs if pair[side].size]
    return (
        float(max(array.max() for array in arrays)) - float(min(array.min() for array in arrays))
        if arrays
        else 0.0
    )


def _share(agreed: float, total: float) -> tuple[float, float]:
    """Return a share and its upper bound at 95 % confidence (Wilson, one-sided)."""
    share = agreed / total
    square = _Z * _Z / total
    spread = math.sqrt(share * (1 - share) * square + square * square / 4)
    return share, min(1.0, (share + square / 2 + spread) / (1 + square))


def _of_labels(pairs: Pairs, threshold: float) -> Verdict:
    del threshold
    labels = [(exact, rounded, exact == rounded) for exact, rounded in pairs if exact.shape == rounded.shape]
    if len(labels) < len(pairs):
        return Verdict(0.0, 0.0, "different numbers of labels", equal=0.0)
    equal = float(np.mean([same.mean() for _, _, same in labels]))
    rows = sum(same.size for _, _, same in labels)
    return replace(_agreement(labels, f"{percent(equal)} equal"), equal=equal, rows=rows)


def _of_classes(pairs: Pairs, threshold: float) -> Verdict:
    """Measure agreement of the largest class; one nearly as large in float counts."""
    del threshold
    labels, equal, total = [], 0, 0
    for exact, rounded in pairs:
        first, second = exact.argmax(-1)[..., None], rounded.argmax(-1)[..., None]
        behind = (np.take_along_axis(exact, first, -1) - np.take_along_axis(exact, second, -1))[..., 0]
        near = min(NEAR_LOGIT, 0.1 * float(exact.std(dtype=np.float64)))
        labels.append((first[..., 0], second[..., 0], behind <= near))
        equal, total = equal + int(np.count_nonzero(first == second)), total + first.size
    verdict = _agreement(labels, f"top-1 equal in {percent(equal / total)}")
    is_lost = float(np.median([sqnr(exact, rounded) for exact, rounded in pairs])) < LOST_DB
    at_most = verdict.kept if is_lost else verdict.at_most
    return replace(verdict, at_most=at_most, equal=equal / total, rows=total)


def _agreement(labels: Sequence[tuple[Array, Array, Array]], words: str) -> Verdict:
    """Measure agreement of labels; of the rarer ones if one label is the majority."""
    rows = max(same.size for _, _, same in labels)
    values, counts = np.unique(np.concatenate([first.ravel() for first, _, _ in labels]), return_counts=True)
    common = values[counts.argmax()] if rows > 1 and counts.max() > counts.sum() / 2 else None
    shares, agreed, total = [], 0, 0
    for first, second, same in labels:
        counted = np.ones(first.shape, bool) if common is None else (first != common) | (second != common)
        right, union = int(np.count_nonzero(same & counted)), int(np.count_nonzero(counted))
        agreed, total = agreed + right, total + union
        if union >= max(LEAST_AREA * first.size, 8):
            shares.append(right / union)
        if not union:
            agreed, total = agreed + 1, total + 1
    if common is not None and values.size > 1:
        words = f"{words}, {percent(agreed / total)} without the most frequent"
    doubt = "" if values.size > 1 else "all samples have the same label"
    if is_picture((*labels[0][0].shape, 1)) and shares:
        return _of_shares(shares, f"{words}, agreement")
    kept, at_most = _share(agreed, total)
    if common is not None and rows <= LONGEST_TEXT:
        texts = sum(bool(same.all()) for _, _, same in labels)
        kept_texts, at_most_texts = _share(texts, len(labels))
        kept, at_most = min(kept, kept_texts), min(at_most, at_most_texts)
        words = f"{words}, {texts} of {len(labels)} samples are equal"
    return Verdict(kept, at_most, words, doubt)


def _of_shares(shares: Sequence[float], words: str) -> Verdict:
    """Measure agreement of pictures by the mean and the worst, which counts half."""
    mean, least = sum(shares) / len(shares), min(shares)
    kept = min(mean, (1.0 + least) / 2)
    return Verdict(kept, kept, f"{words} {mean:.3f}, worst sample {least:.3f}")


def _of_map(pairs: Pairs, threshold: float) -> Verdict:
    """Measure the IoU of the areas above the threshold."""
    shares = []
    for exact, rounded in pairs:
        first, second = exact > threshold, rounded > threshold
        union = int(np.count_nonzero(first | second))
        if union >= max(LEAST_AREA * exact.size, 8):
            shares.append(np.count_nonzero(first & second) / union)
    if shares:
        return _of_shares(shares, "IoU")
    return _doubtful(pairs, f"no sample has a pixel above {threshold:g}")


def _of_scores(pairs: Pairs, threshold: float) -> Verdict:
    """Measure agreement of scores above the threshold; ignore scores close to it.

    A sample without any is right if it stays without.
    """
    near = NEAR if threshold else NEAR_LOGIT
    agreed = total = real = false = lost = 0
    for exact, rounded in pairs:
        first, second = exact > threshold, rounded > threshold
        wrong = (first != second) & (np.abs(exact - threshold) > near)
        union = int(np.count_nonzero(first | wrong))
        missed = int(np.count_nonzero(wrong & first))
        agreed += union - int(np.count_nonzero(wrong)) if union else 1
        total += union or 1
        real, lost = real + int(np.count_nonzero(first)), lost + missed
        false += int(np.count_nonzero(wrong)) - missed
    if not real and not false:
        return _doubtful(pairs, f"no score above {threshold:g} in float")
    words = f"{real} scores above {threshold:g} in float, {lost} lost, {false} wrong"
    return Verdict(*_share(agreed, total), words)


def _doubtful(pairs: Pairs, doubt: str) -> Verdict:
    """Measure the values themselves where no score is above the threshold."""
    peak = max((float(np.abs(exact).max(initial=0.0)) for exact, _ in pairs), default=0.0)
    worst_error = max(
        (float(np.abs(rounded - exact).max(initial=0.0)) for exact, rounded in pairs), default=0.0
    )
    if peak <= NEAR and worst_error <= NEAR:
        return Verdict(1.0, 1.0, f"no value and no error above {NEAR:g}", doubt)
    return replace(_of_signal(pairs, 0.0), doubt=doubt)


def _of_coordinates(pairs: Pairs, threshold: float) -> Verdict:
    """Measure the share of coordinates whose error is small relative to their spread."""
    del threshold
    if len({array.shape for array, _ in pairs}) != 1:
        return _of_signal(pairs, 0.0)
    exact = np.stack([np.asarray(array, np.float64) for array, _ in pairs])
    errors = np.abs(np.stack([np.asarray(array, np.float64) for _, array in pairs]) - exact)
    across = exact.std(axis=tuple(range(exact.ndim - 1)) if _rows_of(exact) > 1 else None)
    unit = np.broadcast_to(np.asarray(across), exact.shape[1:])
    if len(pairs) >= FEW:
        least = LEAST_SPREAD if _rows_of(exact) == 1 else LEAST_SPREAD_OF_MANY
        unit = np.maximum(exact.std(axis=0), least * unit)
    size = np.sqrt(np.square(exact).mean())
    unit = np.where(unit > ROUNDING * size, unit, LEAST_SPREAD * size)  # constants have no spread
    ratios = np.divide(errors, unit, out=np.where(errors > 0.0, np.inf, 0.0), where=unit > 0.0)
    kept = float(np.count_nonzero(ratios <= TOLERATED) / ratios.size)
    doubt = "" if len(pairs) >= FEW else f"{len(pairs)} sample{_shows(len(pairs))} no spread"
    largest = float(np.quantile(ratios, 0.95))
    words = f"{percent(kept)} of coordinates are off by less than {TOLERATED:g} of their spread"
    words += f", 95 % by {largest:.2f}"
    return Verdict(kept, kept, words, doubt)


def _shows(count: int) -> str:
    return " shows" if count == 1 else "s show"


def _rows_of(stacked: Array) -> int:
    return int(stacked[0].size // stacked.shape[-1])


def _of_embedding(pairs: Pairs, threshold: float) -> Verdict:
    """Measure cosine similarity; subtract the mean if there are enough samples."""
    del threshold
    length = pairs[0][0].shape[-1]
    exact = np.concatenate([np.asarray(array, np.float64).reshape(-1, length) for array, _ in pairs])
    rounded = np.concatenate([np.asarray(array, np.float64).reshape(-1, length) for _, array in pairs])
    plain = float(_cosines(exact, rounded).mean())
    centre = exact.mean(axis=0)
    is_constant = np.abs(exact - centre).max(initial=0.0) <= ROUNDING * np.abs(exact).max(initial=0.0)
    if len(exact) < FEW or is_constant:
        doubt = (
            f"{len(exact)} vector{_shows(len(exact))} no ranking"
            if len(exact) < FEW
            else "all vectors are equal"
        )
        return Verdict(plain, plain, f"cosine {plain:.4f}", doubt)
    kept = min(plain, float(_cosines(exact - centre, rounded - centre).mean()))
    places = np.unique(np.linspace(0, len(exact) - 1, MOST_VECTORS).astype(int))
    units = [_units(vectors[places]) for vectors in (exact, rounded)]
    alike, rounded_alike = units[0] @ units[0].T, units[1] @ units[0].T
    np.fill_diagonal(alike, -np.inf)
    np.fill_diagonal(rounded_alike, -np.inf)
    behind = alike.max(axis=1) - alike[np.arange(len(places)), rounded_alike.argmax(axis=1)]
    nearest, at_most = _share(float(np.count_nonzero(behind <= NEAR / 2)), len(places))
    words = (
        f"cosine {plain:.4f}, {kept:.4f} about the mean, {percent(nearest)} have the same nearest neighbour"
    )
    return Verdict(min(kept, nearest), min(kept, at_most), words)


def _units(vectors: Array) -> Array:
    """Return vectors of length 1; zero vectors are unchanged."""
    norms = np.sqrt(np.square(vectors).sum(axis=-1, keepdims=True))
    return np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0.0)


def _cosines(exact: Array, rounded: Array) -> Array:
    """Return the cosines of vectors; 1 of two that are zero."""
    squares = np.square(exact).sum(axis=-1), np.square(rounded).sum(axis=-1)
    norms = np.sqrt(squares[0] * squares[1])
    alike = np.where(squares[0] == squares[1], 1.0, 0.0)
    return np.divide((exact * rounded).sum(axis=-1), norms, out=alike, where=norms > 0.0)


def _of_signal(pairs: Pairs, threshold: float) -> Verdict:
    """Measure the kept share of variance; that of the worst small channel if lower."""
    del threshold
    verdict = _of_variance(pairs)
    for channel in _small_channels(pairs):
        noise = Noise.of([(exact[..., channel], rounded[..., channel]) for exact, rounded in pairs])
        if noise.kept < verdict.kept:
            place = f"channel {channel} of the last axis, which has small values"
            verdict = Verdict(noise.kept, noise.kept, f"{noise.db:.1f} dB", place=place)
    return verdict


def _small_channels(pairs: Pairs) -> list[int]:
    """Return the channels with small values, whose loss others would hide."""
    count = pairs[0][0].shape[-1]
    are_alike = all(exact.size > count == exact.shape[-1] for exact, _ in pairs)
    if not are_alike or not 2 <= count <= MOST_CHANNELS:
        return []
    peaks = np.max([np.abs(exact).reshape(-1, count).max(axis=0) for exact, _ in pairs], axis=0)
    channels: list[int] = np.flatnonzero(
        (NOTHING * peaks.max() < peaks) & (peaks < SMALL * peaks.max())
    ).tolist()
    return channels


def _of_variance(pairs: Pairs) -> Verdict:
    """Measure the kept share of the variance; a constant has none."""
    noise, count = Noise(), 0
    total: Array | float = 0.0
    for exact, rounded in pairs:
        noise.add(exact, rounded)
        rows = np.asarray(exact, np.float64).reshape(-1, exact.shape[-1])
        total, count = total + rows.sum(axis=0), count + len(rows)
    if not noise.signal:
        return Verdict(1.0, 1.0, "zero in float", "all values are zero in float")
    constant = float(np.square(np.asarray(total) / count).sum()) * count
    varying = Noise(max(noise.signal - constant, LEAST_SPREAD**2 * noise.signal), noise.noise)
    if count < FEW:
        varying = noise
    return Verdict(varying.kept, varying.kept, f"{varying.db:.1f} dB about the mean")


_MEASURES: dict[OutputKind, Callable[[Pairs, float], Verdict]] = {
    OutputKind.CLASSES: _of_classes,
    OutputKind.LABELS: _of_labels,
    OutputKind.MAP: _of_map,
    OutputKind.SCORES: _of_scores,
    OutputKind.BOXES: _of_coordinates,
    OutputKind.LANDMARKS: _of_coordinates,
    OutputKind.EMBEDDING: _of_embedding,
    OutputKind.SIGNAL: _of_signal,
}
