"""Judge of quantized outputs: by what an application reads from them, with dB as the finer scale.

Guards of algorithms, the choice of ranges, trials of widths, warnings and reports compare models by it.  Use:
``OutputJudge(graph, floats, kinds)`` with the float values of some samples, run a quantized model
on the same samples with ``names`` as outputs, and ``score(results)``.  A ``Score`` has a ``Verdict`` an
output; ``is_worse`` and ``is_gain`` compare scores of two models of the same judge.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from xdlc.ir import Graph, Tensor
from xdlc.ir.data import Array
from xdlc.quant.attention_masks import hides
from xdlc.quant.kind_inference import SOFTMAXES, has_unit_range, is_picture, kind_of
from xdlc.quant.noise_power import Noise
from xdlc.quant.op_specs import single_name
from xdlc.quant.output_kinds import OutputKind
from xdlc.quant.tensor_slices import TensorSlice, output_parts, unlike_parts

USELESS, POOR = 0.90, 0.97
"""An output that keeps less of the float task than this is useless, or poor."""

MIN_GAIN = 0.05
"""Least gain in dB for which a change is kept."""

CERTAINTY = 2.0
"""How many standard errors of its mean over samples a gain has to be."""

TOLERANCE = 0.005
"""How much less of the task a change may keep: the least that is no rounding."""

NEAR, NEAR_LOGIT = 0.1, 0.4
"""A score that close to its threshold in float decides nothing; the same of logits and of the two largest."""

TOLERATED = 0.25
"""Error of a coordinate that is tolerated, in units of its spread."""

LEAST_SPREAD = 0.05
"""Least spread that a unit is made of, over that of all values; of constants, over their size."""

LEAST_SPREAD_OF_MANY = 0.2
"""The same of coordinates of many candidates, which differ by their places more than by their boxes."""

LEAST_AREA = 0.001
"""Least part of a picture that an IoU is taken of."""

ROUNDING = 1e-9
"""Spread over size of values, at most, that is rounding of a mean."""

LONGEST_TEXT = 256
"""Most steps with labels that are read as one, like the characters of a text between blanks."""

FEW = 4
"""Least samples that a spread over samples is taken of."""

_Z = 1.645
"""Standard errors of the one-sided bound of 95 %."""

_LOWEST, _HIGHEST = -20.0, 120.0

Pairs = Sequence[tuple[Array, Array]]
"""Values of the float model and of the quantized one, of each sample."""


def judged(graph: Graph) -> list[str]:
    """Return the names of the tensors by which outputs with values are judged."""
    return list(dict.fromkeys(judged_by(tensor).name for tensor in graph.outputs if tensor.size))


def judged_by(output: Tensor) -> Tensor:
    """Return the tensor that an output is judged by: itself, or the input of a Softmax without masks.

    A class that is sure to win has the same probability with much noise as with little.
    """
    producer = output.producer
    if producer is not None and single_name(producer) in SOFTMAXES and not hides(producer):
        return producer.inputs[0] or output
    return output


@dataclass(frozen=True, slots=True)
class Verdict:
    """How much of what an application reads from an output a quantized model keeps.

    Attributes:
        output: Its name.
        kind: What it was taken for.
        kept: Share of the float task that is kept, 0 to 1: the worst of its measures.
        at_most: The most that may be kept, since few samples were measured; ``kept`` where that is no matter.
        words: The measures in words.
        doubt: Why the samples are too few to judge by; empty: they are enough.
    """

    output: str
    kind: OutputKind
    kept: float
    at_most: float
    words: str
    doubt: str = ""

    @property
    def is_useless(self) -> bool:
        """Whether the output is likely useless."""
        return self.at_most < USELESS

    @property
    def is_poor(self) -> bool:
        """Whether the output is likely poor, or useless."""
        return self.at_most < POOR

    def __str__(self) -> str:
        """Return the measures in a few words."""
        return ", ".join(filter(None, (self.words, self.doubt)))


def worst(verdicts: Iterable[Verdict]) -> Verdict | None:
    """Return the verdict of the output that keeps least, None if there are none."""
    return min(verdicts, key=lambda verdict: (verdict.at_most, verdict.kept), default=None)


@dataclass(frozen=True, slots=True)
class Score:
    """The judgement of a model on some samples.

    Attributes:
        verdicts: One an output.
        db: SQNR in dB of what is judged alone, [samples, parts]: a finer scale, for the same samples alone.
    """

    verdicts: tuple[Verdict, ...]
    db: Array

    @property
    def kept(self) -> float:
        """The share of the float task that the worst output keeps; 1 without outputs."""
        return min((verdict.kept for verdict in self.verdicts), default=1.0)

    @property
    def is_poor(self) -> bool:
        """Whether an output is likely poor."""
        return any(verdict.is_poor for verdict in self.verdicts)

    @property
    def mean_db(self) -> float:
        """The mean SQNR in dB over samples and outputs; 0 without outputs."""
        return float(self.db.mean()) if self.db.size else 0.0

    def is_worse(self, before: Score) -> bool:
        """Return whether an output keeps less of its task than under another model of the same judge."""
        pairs = zip(self.verdicts, before.verdicts, strict=True)
        return any(after.kept < first.kept - TOLERANCE for after, first in pairs)

    def is_gain(self, before: Score, *, certainty: float = CERTAINTY) -> bool:
        """Return whether no output keeps less, and dB gain by more than chance explains.

        Args:
            before: The score of another model by the same judge.
            certainty: How many standard errors the gain has to be.
        """
        import numpy as np

        if self.is_worse(before) or not self.db.size:
            return False
        gains = (self.db - before.db).mean(axis=1)
        error = gains.std(ddof=1) / np.sqrt(gains.size) if gains.size > 1 else 0.0
        return bool(gains.mean() >= max(MIN_GAIN, certainty * error))


@dataclass(frozen=True, slots=True)
class Part:
    """An output, or a part of it that is unlike the others, and how it is judged.

    Attributes:
        output: Its name.
        name: The tensor that it is judged by.
        place: Where it is in that.
        kind: What it is taken for.
        threshold: What scores have to exceed.
        label: The place in words; empty: it is the whole.
    """

    output: str
    name: str
    place: TensorSlice | None
    kind: OutputKind
    threshold: float
    label: str = ""

    def of(self, results: Mapping[str, Array]) -> Array:
        """Return the part from the tensors of a run."""
        import numpy as np

        array = np.atleast_1d(results[self.name])
        if array.dtype == np.float16:  # whose squares and exponentials overflow
            array = array.astype(np.float32)
        return array if self.place is None else self.place.of(array)

    def fine(self, array: Array) -> Array:
        """Return the values that dB are measured of: probabilities of logits beside a threshold.

        A far negative logit has no probability, whatever its error.
        """
        import numpy as np

        if self.kind not in (OutputKind.SCORES, OutputKind.MAP) or self.threshold:
            return array
        return 1.0 / (1.0 + np.exp(-np.clip(array, -60.0, 60.0)))


@dataclass(slots=True)
class OutputJudge:
    """Judges quantized models by what an application reads from their outputs.

    Args:
        graph: The float graph.
        floats: Values of the tensors ``judged(graph)`` in the float model, a mapping a sample.
        kinds: Kinds of outputs by name; others are inferred.

    Attributes:
        names: The tensors that a quantized model has to give out.
    """

    graph: Graph
    floats: Sequence[Mapping[str, Array]]
    kinds: Mapping[str, OutputKind] = field(default_factory=dict)
    names: list[str] = field(init=False)
    parts: list[Part] = field(init=False)

    def __post_init__(self) -> None:
        """Infer the kinds of all outputs."""
        self.names = judged(self.graph)
        known = output_parts(self.graph)
        outputs = dict.fromkeys(tensor for tensor in self.graph.outputs if tensor.size)
        self.parts = [part for output in outputs for part in self._parts(output, known)]

    def _parts(self, output: Tensor, known: Mapping[str, tuple[TensorSlice, ...]]) -> list[Part]:
        source = judged_by(output)
        arrays = [values[source.name] for values in self.floats]
        unlike = unlike_parts(known.get(output.name, ()), arrays) if source is output and arrays else ()
        if len(unlike) < 2 or output.name in self.kinds:
            unlike = (TensorSlice(0, 0, output.shape[0] if output.rank else 1, (output,)),)
        found = []
        for place in unlike:
            whole = len(unlike) == 1
            values = arrays if whole else [place.of(array) for array in arrays]
            kind = self.kinds.get(output.name) or kind_of(output, place.sources, values)
            threshold = 0.5 if has_unit_range(place.sources) else 0.0
            label = "" if whole else f"{place.start}:{place.stop} of axis {place.axis}"
            found.append(Part(output.name, source.name, None if whole else place, kind, threshold, label))
        return found

    def score(self, results: Sequence[Mapping[str, Array]]) -> Score:
        """Return the score of a model.

        Args:
            results: The tensors ``names`` of a run of the model on each sample, or on the first ones.
        """
        import numpy as np

        verdicts: dict[str, Verdict] = {}
        columns = []
        for part in self.parts:
            pairs = [
                (part.of(wanted), part.of(found)) for wanted, found in zip(self.floats, results, strict=False)
            ]
            if part.kind is not OutputKind.LABELS:
                columns.append([_db(part.fine(wanted), part.fine(found)) for wanted, found in pairs])
            verdict = _verdict(part, pairs)
            before = verdicts.get(part.output)
            if before is None or verdict.at_most < before.at_most:
                verdicts[part.output] = verdict
        table = np.asarray(columns, np.float64).reshape(-1, len(results)).T
        return Score(tuple(verdicts.values()), table)


def _db(wanted: Array, found: Array) -> float:
    noise = Noise()
    noise.add(wanted, found)
    return min(max(noise.db, _LOWEST), _HIGHEST) if noise.signal or noise.noise else _HIGHEST


@dataclass(slots=True)
class _Measured:
    """What was measured of a part: the share of the task that is kept, the most that may be, and in words."""

    kept: float
    at_most: float
    words: str
    doubt: str = ""


def _verdict(part: Part, pairs: Pairs) -> Verdict:
    import numpy as np

    pairs = [pair for pair in pairs if any(array.size for array in pair)]
    are_finite = [np.isfinite(wanted) for wanted, _ in pairs]
    if not all(are.all() for are in are_finite):  # masks
        pairs = [
            (np.where(are, wanted, 0.0), np.where(are, found, 0.0))
            for are, (wanted, found) in zip(are_finite, pairs, strict=True)
        ]
    if not pairs:
        measured = _Measured(1.0, 1.0, "no values", "no value was measured")
    elif not all(np.isfinite(found).all() for _, found in pairs):
        measured = _Measured(0.0, 0.0, "NaN or infinite")
    else:
        measured = _MEASURES[part.kind](pairs, part.threshold)
    words = f"{part.label}: {measured.words}" if part.label else measured.words
    return Verdict(part.output, part.kind, measured.kept, measured.at_most, words, measured.doubt)


def _share(agreed: float, total: float) -> tuple[float, float]:
    """Return a share and the upper end of its confidence interval (Wilson), one-sided at 95 %."""
    share = agreed / total
    square = _Z * _Z / total
    spread = math.sqrt(share * (1 - share) * square + square * square / 4)
    return share, min(1.0, (share + square / 2 + spread) / (1 + square))


def _of_labels(pairs: Pairs, threshold: float) -> _Measured:
    import numpy as np

    del threshold
    labels = [(wanted, found, wanted == found) for wanted, found in pairs if wanted.shape == found.shape]
    if len(labels) < len(pairs):
        return _Measured(0.0, 0.0, "another number of labels")
    equal = float(np.mean([same.mean() for _, _, same in labels]))
    return _agreement(labels, f"{equal:.1%} equal")


def _of_classes(pairs: Pairs, threshold: float) -> _Measured:
    """Measure agreement about the largest class; one that is nearly as large in float will do."""
    import numpy as np

    del threshold
    labels, equal, total = [], 0, 0
    for wanted, found in pairs:
        first, second = wanted.argmax(-1)[..., None], found.argmax(-1)[..., None]
        behind = (np.take_along_axis(wanted, first, -1) - np.take_along_axis(wanted, second, -1))[..., 0]
        near = min(NEAR_LOGIT, 0.1 * float(wanted.std(dtype=np.float64)))
        labels.append((first[..., 0], second[..., 0], behind <= near))
        equal, total = equal + int(np.count_nonzero(first == second)), total + first.size
    return _agreement(labels, f"top-1 equal in {equal / total:.1%}")


def _agreement(labels: Sequence[tuple[Array, Array, Array]], words: str) -> _Measured:
    """Measure agreement about labels, of the rarer ones where most have the same: blanks and backgrounds.

    Args:
        labels: Of each sample the labels in float, those of the quantized model, and where both will do.
        words: The plain agreement.
    """
    import numpy as np

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
    if common is not None:
        words = f"{words}, {agreed / total:.1%} without the most frequent"
    doubt = "" if values.size > 1 else "all samples have the same label"
    if is_picture((*labels[0][0].shape, 1)) and shares:
        return _of_shares(shares, f"{words}, agreement")
    kept, at_most = _share(agreed, total)
    if common is not None and rows <= LONGEST_TEXT:
        texts = sum(bool(same.all()) for _, _, same in labels)
        kept_texts, at_most_texts = _share(texts, len(labels))
        kept, at_most = min(kept, kept_texts), min(at_most, at_most_texts)
        words = f"{words}, {texts} of {len(labels)} samples without a change"
    return _Measured(kept, at_most, words, doubt)


def _of_shares(shares: Sequence[float], words: str) -> _Measured:
    """Measure agreement of pictures: the mean, and the worst, which counts half."""
    mean, least = sum(shares) / len(shares), min(shares)
    kept = min(mean, (1.0 + least) / 2)
    return _Measured(kept, kept, f"{words} {mean:.3f}, of the worst sample {least:.3f}")


def _of_map(pairs: Pairs, threshold: float) -> _Measured:
    """Measure the IoU of what is above the threshold."""
    import numpy as np

    shares = []
    for wanted, found in pairs:
        first, second = wanted > threshold, found > threshold
        union = int(np.count_nonzero(first | second))
        if union >= max(LEAST_AREA * wanted.size, 8):
            shares.append(np.count_nonzero(first & second) / union)
    if shares:
        return _of_shares(shares, "IoU")
    return _doubtful(pairs, f"no sample has a pixel above {threshold:g}")


def _of_scores(pairs: Pairs, threshold: float) -> _Measured:
    """Measure agreement about what is above the threshold; a float score close to it decides nothing.

    A sample without any is right if it stays without.
    """
    import numpy as np

    near = NEAR if threshold else NEAR_LOGIT
    agreed = total = real = false = lost = 0
    for wanted, found in pairs:
        first, second = wanted > threshold, found > threshold
        wrong = (first != second) & (np.abs(wanted - threshold) > near)
        union = int(np.count_nonzero(first | wrong))
        missed = int(np.count_nonzero(wrong & first))
        agreed += union - int(np.count_nonzero(wrong)) if union else 1
        total += union or 1
        real, lost = real + int(np.count_nonzero(first)), lost + missed
        false += int(np.count_nonzero(wrong)) - missed
    if not real and not false:
        return _doubtful(pairs, f"no score above {threshold:g} in float")
    words = f"{real} scores above {threshold:g} in float, {lost} lost, {false} false"
    return _Measured(*_share(agreed, total), words)


def _doubtful(pairs: Pairs, doubt: str) -> _Measured:
    """Measure values as such where nothing is there that an application would see."""
    import numpy as np

    peak = max((float(np.abs(wanted).max(initial=0.0)) for wanted, _ in pairs), default=0.0)
    worst_error = max(
        (float(np.abs(found - wanted).max(initial=0.0)) for wanted, found in pairs), default=0.0
    )
    if peak <= NEAR and worst_error <= NEAR:
        return _Measured(1.0, 1.0, f"no value and no error above {NEAR:g}", doubt)
    measured = _of_signal(pairs, 0.0)
    measured.doubt = doubt
    return measured


def _of_coordinates(pairs: Pairs, threshold: float) -> _Measured:
    """Measure how many coordinates are off by less than a part of what they differ by between samples."""
    import numpy as np

    del threshold
    if len({wanted.shape for wanted, _ in pairs}) != 1:
        return _of_signal(pairs, 0.0)
    exact = np.stack([np.asarray(wanted, np.float64) for wanted, _ in pairs])
    errors = np.abs(np.stack([np.asarray(found, np.float64) for _, found in pairs]) - exact)
    across = exact.std(axis=tuple(range(exact.ndim - 1)) if _rows_of(exact) > 1 else None)
    unit = np.broadcast_to(np.asarray(across), exact.shape[1:])
    if len(pairs) >= FEW:
        least = LEAST_SPREAD if _rows_of(exact) == 1 else LEAST_SPREAD_OF_MANY
        unit = np.maximum(exact.std(axis=0), least * unit)
    size = np.sqrt(np.square(exact).mean())
    unit = np.where(unit > ROUNDING * size, unit, LEAST_SPREAD * size)  # constants have no spread
    ratios = np.divide(errors, unit, out=np.where(errors > 0.0, np.inf, 0.0), where=unit > 0.0)
    kept = float(np.count_nonzero(ratios <= TOLERATED) / ratios.size)
    doubt = "" if len(pairs) >= FEW else f"{len(pairs)} samples show no spread"
    largest = float(np.quantile(ratios, 0.95))
    words = f"{kept:.1%} of coordinates off by less than {TOLERATED:g} of their spread, 95 % by {largest:.2f}"
    return _Measured(kept, kept, words, doubt)


def _rows_of(stacked: Array) -> int:
    return int(stacked[0].size // stacked.shape[-1])


def _of_embedding(pairs: Pairs, threshold: float) -> _Measured:
    """Measure cosines, of what differs between samples where there are enough."""
    import numpy as np

    del threshold
    length = pairs[0][0].shape[-1]
    exact = np.concatenate([np.asarray(wanted, np.float64).reshape(-1, length) for wanted, _ in pairs])
    rounded = np.concatenate([np.asarray(found, np.float64).reshape(-1, length) for _, found in pairs])
    plain = float(_cosines(exact, rounded).mean())
    centre = exact.mean(axis=0)
    is_constant = np.abs(exact - centre).max(initial=0.0) <= ROUNDING * np.abs(exact).max(initial=0.0)
    if len(exact) < FEW or is_constant:
        doubt = f"{len(exact)} vectors show no ranking" if len(exact) < FEW else "all vectors are equal"
        return _Measured(plain, plain, f"cosine {plain:.4f}", doubt)
    kept = min(plain, float(_cosines(exact - centre, rounded - centre).mean()))
    alike, found_alike = _cosines(exact[:, None], exact[None]), _cosines(rounded[:, None], exact[None])
    np.fill_diagonal(alike, -np.inf)
    np.fill_diagonal(found_alike, -np.inf)
    rows = np.arange(len(exact))
    behind = alike.max(axis=1) - alike[rows, found_alike.argmax(axis=1)]
    nearest, at_most = _share(float(np.count_nonzero(behind <= NEAR / 2)), len(exact))
    words = f"cosine {plain:.4f}, {kept:.4f} about the mean, {nearest:.1%} have the same neighbour"
    return _Measured(min(kept, nearest), min(kept, at_most), words)


def _cosines(one: Array, other: Array) -> Array:
    """Return the cosines of vectors; 1 of two that are zero."""
    import numpy as np

    squares = np.square(one).sum(axis=-1), np.square(other).sum(axis=-1)
    norms = np.sqrt(squares[0] * squares[1])
    alike = np.where(squares[0] == squares[1], 1.0, 0.0)
    return np.divide((one * other).sum(axis=-1), norms, out=alike, where=norms > 0.0)


def _of_signal(pairs: Pairs, threshold: float) -> _Measured:
    """Measure the share of the variance that is kept: a constant carries nothing."""
    import numpy as np

    del threshold
    noise, count = Noise(), 0
    total: Array | float = 0.0
    for wanted, found in pairs:
        noise.add(wanted, found)
        rows = np.asarray(wanted, np.float64).reshape(-1, wanted.shape[-1])
        total, count = total + rows.sum(axis=0), count + len(rows)
    if not noise.signal:
        return _Measured(1.0, 1.0, "zero in float", "all values are zero in float")
    constant = float(np.square(np.asarray(total) / count).sum()) * count
    varying = Noise(max(noise.signal - constant, LEAST_SPREAD**2 * noise.signal), noise.noise)
    if count < FEW:
        varying = noise
    kept = max(0.0, 1.0 - noise.noise / varying.signal) if math.isfinite(noise.noise) else 0.0
    return _Measured(kept, kept, f"{varying.db:.1f} dB about the mean")


_MEASURES: dict[OutputKind, Callable[[Pairs, float], _Measured]] = {
    OutputKind.CLASSES: _of_classes,
    OutputKind.LABELS: _of_labels,
    OutputKind.MAP: _of_map,
    OutputKind.SCORES: _of_scores,
    OutputKind.BOXES: _of_coordinates,
    OutputKind.LANDMARKS: _of_coordinates,
    OutputKind.EMBEDDING: _of_embedding,
    OutputKind.SIGNAL: _of_signal,
}
