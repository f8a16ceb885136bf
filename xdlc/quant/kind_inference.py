"""Kinds of outputs, inferred by the ops that they end in, their shapes, and values in float."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from xdlc.errors import UsageError, nearest_names
from xdlc.ir import Graph, Op, Tensor
from xdlc.ir.data import Array
from xdlc.options import spell
from xdlc.quant.op_specs import is_real, rule_of, single_name
from xdlc.quant.widening.mixed_scale_ops import writer

SOFTMAXES = ("Softmax", "LogSoftmax")
SIDE = 8
"""Least height and width of a picture."""
SQUARE = 100
"""The same of one without channels, which has the shape of candidates with scores."""
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


class OutputKind(StrEnum):
    """What an application reads from an output."""

    CLASSES = "classes"
    """Logits or probabilities of classes along the last axis: the largest one counts."""
    LABELS = "labels"
    """Integers: equality counts."""
    MAP = "map"
    """A mask: which pixels are above the threshold counts."""
    SCORES = "scores"
    """Scores of candidates: which are above the threshold counts."""
    BOXES = "boxes"
    """Coordinates of many candidates."""
    LANDMARKS = "landmarks"
    """Coordinates of one object."""
    EMBEDDING = "embedding"
    """A vector whose direction counts."""
    SIGNAL = "signal"
    """Audio, pictures and other values that count as they are."""


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
    """Check that names are those of outputs.

    Raises:
        UsageError: Naming one that is not.
    """
    names = [tensor.name for tensor in graph.outputs]
    for name in kinds:
        if name not in names:
            hint = nearest_names(name, names) or f"outputs: {', '.join(names)}"
            raise UsageError(f"no output {name!r}", where=spell("output_kind"), fix=hint)


def _kind_of_vector(kinds: set[str], length: int, values: Sequence[Array]) -> OutputKind:
    if length < 2:
        return OutputKind.SIGNAL
    if length >= BOX and _is_steady(values):
        return OutputKind.LANDMARKS
    if length % VECTOR == 0 and length <= LONGEST:
        return OutputKind.EMBEDDING
    return OutputKind.CLASSES if kinds & {"FullyConnected", "Conv2d"} else OutputKind.SIGNAL


def has_unit_range(sources: Sequence[Tensor]) -> bool:
    """Return whether tensors hold what a Sigmoid, or an op like it, bounds to 0 and 1."""
    rules = [None if op is None else rule_of(op) for op in map(writer, sources)]
    return bool(rules) and all(rule is not None and rule.unit_low == 0 for rule in rules)


def _is_last(op: Op) -> bool:
    rank = op.outputs[0].rank
    return int(op.param("axis", rank - 1)) in (-1, rank - 1)


def _rows(shape: Sequence[int]) -> int:
    rows = 1
    for size in shape[:-1]:
        rows *= size
    return rows


def is_picture(shape: Sequence[int]) -> bool:
    """Return whether a shape has height and width: before channels, or without them as the last two axes."""
    if len(shape) > 3:
        return min(shape[-3:-1]) >= SIDE
    return len(shape) == 3 and min(shape[1:]) >= SQUARE and max(shape[1:]) <= 4 * min(shape[1:])


def _is_undecided(values: Sequence[Array]) -> bool:
    import numpy as np

    inside = sum(int(np.count_nonzero((array > 0.2) & (array < 0.8))) for array in values)
    return bool(inside > UNDECIDED * max(sum(array.size for array in values), 1))


def _is_off_mode(values: Sequence[Array]) -> bool:
    """Return whether values are on both sides of 0, and few on one of them, or near it."""
    import numpy as np

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
    import numpy as np

    if len(values) < 2 or len({array.shape for array in values}) > 1:
        return False
    stacked = np.stack([np.asarray(array, np.float64).ravel() for array in values])
    means = np.abs(stacked.mean(axis=0))
    return bool(np.median(stacked.std(axis=0) / np.maximum(means, 1e-30)) < STEADY)


def _has_unit_norm(values: Sequence[Array]) -> bool:
    import numpy as np

    norms = [np.sqrt(np.square(np.asarray(array, np.float64)).sum(axis=-1)) for array in values]
    return bool(norms) and all(bool((np.abs(norm - 1.0) < UNIT_NORM).all()) for norm in norms)
