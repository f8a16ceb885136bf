"""Judge of quantized outputs, by their use in applications and by SQNR in dB.

Guards of algorithms, the choice of ranges, trials of widths, warnings and reports compare models by it.  Use:
``OutputJudge(parts_of_outputs(graph, floats, kinds), floats)`` with the float values of some samples, run a
quantized model on the same samples with ``names`` as outputs, and ``score(results)``.  A ``Score`` has a
``Verdict`` an output; ``is_worse`` and ``is_gain`` compare scores of two models of the same judge.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from xdlc.compare.figures import sqnr
from xdlc.errors import UsageError, nearest_names
from xdlc.ir import Graph, Op, Tensor
from xdlc.ir.data import Array
from xdlc.options import spell
from xdlc.options.quantizing import OutputKind
from xdlc.quant.attention_masks import hides
from xdlc.quant.op_specs import is_real, rule_of, single_name
from xdlc.quant.verdicts import FEW, Verdict, is_picture, verdict_of
from xdlc.quant.widening.mixed_scales import TensorSlice, parts_of, unlike_parts, writer

MIN_GAIN = 0.05
"""Least gain in dB for which a change is kept."""

CERTAINTY = 2.0
"""How many standard errors of its mean over samples a gain has to be."""

TOLERANCE = 0.005
"""Largest loss of a task's share that counts as rounding."""


def judged(graph: Graph) -> list[str]:
    """Return the names of the tensors by which non-empty outputs are judged."""
    return list(dict.fromkeys(judged_by(tensor).name for tensor in graph.outputs if tensor.size))


def judged_by(output: Tensor) -> Tensor:
    """Return the tensor that an output is judged by.

    It has channels last, and is the input of a Softmax without masks.

    A class that is sure to win has the same probability with much noise as with little.
    """
    plain = channels_last(output)
    producer = plain.producer
    if producer is not None and single_name(producer) in SOFTMAXES and not hides(producer):
        return producer.inputs[0] or plain
    return plain


def channels_last(output: Tensor) -> Tensor:
    """Return the tensor before a last Transpose to channels-first, or the output."""
    op, rank = output.producer, output.rank
    if op is None or op.type != "Transpose" or op.inputs[0] is None or rank < 4:
        return output
    order = [int(axis) for axis in op.param("perm")]
    return op.inputs[0] if order == [0, rank - 1, *range(1, rank - 1)] else output


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
        return any(verdict.is_poor for verdict in self.verdicts)

    @property
    def mean_db(self) -> float:
        """The mean SQNR in dB over samples and outputs; 0 without outputs."""
        return float(self.db.mean()) if self.db.size else 0.0

    def is_worse(self, before: Score) -> bool:
        """Return whether an output keeps less of its task than under another model.

        Both are scores of the same judge.
        """
        pairs = zip(self.verdicts, before.verdicts, strict=True)
        return any(after.kept < first.kept - TOLERANCE for after, first in pairs)

    def is_gain(self, before: Score, *, certainty: float = CERTAINTY) -> bool:
        """Return whether no output keeps less, and SQNR rises significantly.

        Args:
            before: The score of another model by the same judge.
            certainty: How many standard errors the gain has to be.
        """
        if self.is_worse(before) or not self.db.size:
            return False
        gains = (self.db - before.db).mean(axis=1)
        error = gains.std(ddof=1) / np.sqrt(gains.size) if gains.size > 1 else 0.0
        return bool(gains.mean() >= max(MIN_GAIN, certainty * error))


@dataclass(frozen=True, slots=True)
class Part:
    """An output, or a dissimilar part of it, and the way to judge it.

    Attributes:
        name: The tensor that it is judged by.
        kind: What it is taken for.
        threshold: What scores have to exceed.
        label: The place in words; empty: it is the whole.
        is_certain: Whether the user states its kind, or a Softmax does.
        is_probability: Whether logits are judged by what a Softmax makes of them.
    """

    output: str
    name: str
    place: TensorSlice | None
    kind: OutputKind
    threshold: float
    label: str = ""
    is_certain: bool = False
    is_probability: bool = False

    def of(self, results: Mapping[str, Array]) -> Array:
        """Return the values of this part in results, in a type that can hold squares."""
        array = np.atleast_1d(results[self.name])
        if self.kind is not OutputKind.LABELS and array.dtype not in (np.float32, np.float64):
            array = array.astype(np.float32 if array.dtype.itemsize < 4 else np.float64)
        if self.is_probability:
            powers = np.exp(array - array.max(axis=-1, keepdims=True))
            array = powers / powers.sum(axis=-1, keepdims=True)
        return array if self.place is None else self.place.of(array)

    def fine(self, array: Array) -> Array:
        """Return the values to measure dB of; logits of scores and masks as probabilities.

        A far negative logit has no probability, whatever its error.
        """
        if self.kind not in (OutputKind.SCORES, OutputKind.MAP) or self.threshold:
            return array
        return 1.0 / (1.0 + np.exp(-np.clip(array, -60.0, 60.0)))


def parts_of_outputs(
    graph: Graph, floats: Sequence[Mapping[str, Array]], kinds: Mapping[str, OutputKind]
) -> list[Part]:
    """Return the outputs to judge, each as a whole or as dissimilar parts.

    Args:
        floats: Values of the tensors ``judged(graph)`` in the float model, a mapping a sample.
        kinds: Kinds of outputs by name; others are inferred.
    """
    outputs = dict.fromkeys(tensor for tensor in graph.outputs if tensor.size)
    return [part for output in outputs for part in _parts(output, floats, kinds)]


def _parts(
    output: Tensor, floats: Sequence[Mapping[str, Array]], kinds: Mapping[str, OutputKind]
) -> list[Part]:
    source, plain = judged_by(output), channels_last(output)
    arrays = [values[source.name] for values in floats]
    has_parts = source is plain and arrays and is_real(plain) and output.name not in kinds
    unlike = unlike_parts(parts_of(plain), arrays) if has_parts else ()
    if len(unlike) < 2:
        unlike = (TensorSlice(0, 0, plain.shape[0] if plain.rank else 1, (plain,)),)
    parts = []
    for place in unlike:
        whole = len(unlike) == 1
        values = arrays if whole else [place.of(array) for array in arrays]
        kind = kinds.get(output.name) or kind_of(plain, place.sources, values)
        is_probability = source is not plain and kind in (OutputKind.SCORES, OutputKind.MAP)
        threshold = 0.5 if is_probability or has_unit_range(place.sources) else 0.0
        label = "" if whole else f"{place.start}:{place.stop} of axis {place.axis}"
        parts.append(
            Part(
                output.name,
                source.name,
                None if whole else place,
                kind,
                threshold,
                label,
                is_certain=output.name in kinds or source is not plain,
                is_probability=is_probability,
            )
        )
    return parts


@dataclass(frozen=True, slots=True)
class OutputJudge:
    """Judges quantized models by the use of their outputs in applications.

    Attributes:
        parts: What is judged (``parts_of_outputs``).
        floats: Values of the judged tensors in the float model, a mapping a sample.
    """

    parts: Sequence[Part]
    floats: Sequence[Mapping[str, Array]]

    @property
    def names(self) -> list[str]:
        """The tensors that a quantized model has to return."""
        return list(dict.fromkeys(part.name for part in self.parts))

    def score(self, results: Sequence[Mapping[str, Array]]) -> Score:
        """Return the score of a model.

        Args:
            results: The tensors ``names`` of a run of the model on each sample, or on the first ones.
        """
        verdicts: dict[str, Verdict] = {}
        columns = []
        for part in self.parts:
            pairs = [
                (part.of(exact), part.of(rounded))
                for exact, rounded in zip(self.floats, results, strict=False)
            ]
            if part.kind is not OutputKind.LABELS:
                columns.append([sqnr(part.fine(exact), part.fine(rounded)) for exact, rounded in pairs])
            verdict = verdict_of(part.kind, pairs, part.threshold, is_certain=part.is_certain)
            place = ", ".join(filter(None, (part.label, verdict.place)))
            verdict = replace(verdict, output=part.output, place=place)
            before = verdicts.get(part.output)
            if before is None or verdict.at_most < before.at_most:
                verdicts[part.output] = verdict
        table = np.asarray(columns, np.float64).reshape(-1, len(results)).T
        return Score(tuple(verdicts.values()), table)


SOFTMAXES = ("Softmax", "LogSoftmax")
BOX = 4
"""Values of a box."""
CANDIDATES = 32
"""Least candidates of a detector."""
VECTOR = 64
"""The length of an embedding is a multiple of this."""
LONGEST = 4096
"""Most values of an embedding; longer ones are audio."""
UNDECIDED = 0.25
"""Most values of a mask between 0.2 and 0.8, where pictures and depths have most of theirs."""
RARE = 0.05
"""Share of logits on the rarer side of 0, at most, whatever their density."""
OFF_MODE = 0.3
"""Density of logits at 0 over that at their mode, at most; a signal has its mode near 0."""
STEADY = 0.5
"""Spread over mean of a coordinate, at most, in the middle of all coordinates."""
UNIT_NORM = 0.01
"""How far the norms of embeddings are from 1 at most."""


def kind_of(output: Tensor, sources: Sequence[Tensor], values: Sequence[Array]) -> OutputKind:
    """Infer the kind of an output, or of a part of it.

    Args:
        output: The output as the network writes it.
        sources: The tensors whose values it holds; itself, or what a Concat joined.
        values: Values of the float model, an array a sample, before a last Softmax.
    """
    if not is_real(output):
        return OutputKind.LABELS
    ends = [op for op in map(writer, sources) if op is not None]
    kinds = {single_name(op) for op in ends}
    shape = values[0].shape if values else output.shape
    if kinds and kinds <= set(SOFTMAXES) and all(_is_last(op) for op in ends):
        return OutputKind.CLASSES
    if has_unit_range(sources):
        is_mask = is_picture(shape) and not _is_undecided(values)
        return OutputKind.MAP if is_mask else OutputKind.SIGNAL if is_picture(shape) else OutputKind.SCORES
    length = shape[-1] if shape else 1
    rows = _rows(shape)
    if kinds == {"L2Norm"} or (length >= VECTOR and _has_unit_norm(values)):
        return OutputKind.EMBEDDING
    if is_picture(shape):
        is_mask = length == 1 and _is_off_mode(values)
        return OutputKind.MAP if is_mask else OutputKind.SIGNAL
    if rows >= CANDIDATES:
        if length != BOX and _is_off_mode(values):
            return OutputKind.SCORES
        return OutputKind.BOXES if length % 2 == 0 and length <= BOX * BOX else OutputKind.SIGNAL
    if rows == 1:
        return _kind_of_vector(kinds, length, values)
    return OutputKind.SIGNAL


def check_kinds(graph: Graph, kinds: Iterable[str]) -> None:
    """Check that names are names of outputs.

    Raises:
        UsageError: Naming one that is not.
    """
    names = [tensor.name for tensor in graph.outputs]
    for name in kinds:
        if name not in names:
            hint = nearest_names(name, names) or f"use one of {', '.join(names)}"
            raise UsageError(f"no output {name!r}", where=spell("output_kind"), fix=hint, code="XD211")


def _kind_of_vector(kinds: set[str], length: int, values: Sequence[Array]) -> OutputKind:
    if length < 2:
        return OutputKind.SIGNAL
    if length >= BOX and _is_steady(values):
        return OutputKind.LANDMARKS
    if length % VECTOR == 0 and length <= LONGEST:
        return OutputKind.EMBEDDING
    if not kinds & {"FullyConnected", "Conv2d"}:
        return OutputKind.SIGNAL
    # A box whose largest value is always the same one, like the corner farthest from the origin.
    is_box = length == BOX and len(values) >= FEW and len({int(array.argmax()) for array in values}) == 1
    return OutputKind.LANDMARKS if is_box else OutputKind.CLASSES


def has_unit_range(sources: Sequence[Tensor]) -> bool:
    """Return whether tensors are results in [0, 1] of Sigmoid or a similar op."""
    return bool(sources) and all(rule_of(writer(source)).unit_low == 0 for source in sources)


def _is_last(op: Op) -> bool:
    rank = op.outputs[0].rank
    return int(op.param("axis", rank - 1)) in (-1, rank - 1)


def _rows(shape: Sequence[int]) -> int:
    return math.prod(shape[:-1])


def _is_undecided(values: Sequence[Array]) -> bool:
    inside = sum(int(np.count_nonzero((array > 0.2) & (array < 0.8))) for array in values)
    return bool(inside > UNDECIDED * max(sum(array.size for array in values), 1))


def _is_off_mode(values: Sequence[Array]) -> bool:
    """Return whether values are on both sides of 0, with few on one, or near 0."""
    flat = (np.asarray(array, np.float32).ravel() for array in values)
    joined = np.concatenate([np.zeros(0, np.float32), *flat])
    joined = joined[np.isfinite(joined)]
    if not joined.size or not float(joined.min()) < 0.0 < float(joined.max()):
        return False
    above = float(np.count_nonzero(joined > 0.0)) / joined.size
    if min(above, 1.0 - above) < RARE:
        return True
    low, high = np.percentile(joined, (1, 99))
    low, high = min(low, 0.0), max(high, 0.0)
    counts, edges = np.histogram(joined, bins=40, range=(low, high + 1e-9 * (high - low) + 1e-30))
    place = min(int(np.searchsorted(edges, 0.0, side="right")) - 1, counts.size - 1)
    return bool(counts[place] < OFF_MODE * counts.max())


def _is_steady(values: Sequence[Array]) -> bool:
    """Return whether most coordinates change little from sample to sample."""
    if len(values) < 2 or len({array.shape for array in values}) > 1:
        return False
    stacked = np.stack([np.asarray(array, np.float64).ravel() for array in values])
    means = np.abs(stacked.mean(axis=0))
    return bool(np.median(stacked.std(axis=0) / np.maximum(means, 1e-30)) < STEADY)


def _has_unit_norm(values: Sequence[Array]) -> bool:
    norms = [np.sqrt(np.square(np.asarray(array, np.float64)).sum(axis=-1)) for array in values]
    return bool(norms) and all(bool((np.abs(norm - 1.0) < UNIT_NORM).all()) for norm in norms)
