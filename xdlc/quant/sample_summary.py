"""Summary of calibration samples by input.

Large arrays are read in part, except for their ends and sums: at most ``MOST`` elements in even steps, and
``PLACES`` elements with their neighbours.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xdlc.errors import UsageError, XdlcError
from xdlc.ir import Graph, Op, Tensor
from xdlc.opdefs.traits import traits
from xdlc.quant.op_specs import is_real, single_name
from xdlc.quant.ranges import NOTHING, Range
from xdlc.runtime.cpu import feed

MOST, PLACES, MOST_SAMPLES = 1 << 15, 1 << 11, 4096
"""Elements of an array, those with neighbours, and samples that are looked at."""

COLOURS, LEAST_SIDE, LEAST_LENGTH = (1, 3, 4), 16, 1000
"""Channels of pictures, their rows and columns at least, and values of a signal at least."""

_BLOCKS, _SHOWN, _WHOLE = 8, 8, 1e-3


@dataclass(frozen=True, slots=True)
class Picture:
    """Axes of an input that may be a picture.

    Attributes:
        is_planar: Whether channels come before rows: NCHW.
    """

    channels: int
    rows: int
    columns: int
    is_planar: bool

    @classmethod
    def of(cls, tensor: Tensor) -> Picture | None:
        """Return the axes of an input that may be a picture; None: it is not, or unclear."""
        sides = tensor.shape[1:] if tensor.rank == 4 else tensor.shape
        if len(sides) != 3 or not is_real(tensor):
            return None
        is_planar = sides[0] in COLOURS
        channels, rows, columns = sides if is_planar else (sides[2], *sides[:2])
        if is_planar == (sides[2] in COLOURS) or min(rows, columns) < LEAST_SIDE:
            return None
        picture = cls(channels, rows, columns, is_planar)
        return None if tensor.rank + picture.axis in tensor.dynamic_axes else picture

    @property
    def axis(self) -> int:
        """Axis of the channels, counted from the last one: -1 or -3."""
        return -3 if self.is_planar else -1

    @property
    def steps(self) -> tuple[int, ...]:
        """Distances in elements of neighbours in a row or column, in five layouts.

        They are the stated form, the other layout, and both with rows and columns exchanged.
        """
        own, other = (1, self.channels) if self.is_planar else (self.channels, 1)
        return (own, *(side * step for side in (self.columns, self.rows) for step in (own, other)))


class InputSummary:
    """Summary of an input over all samples.

    Args:
        layout: Its axes, like ``NCHW``; empty: not known.

    Attributes:
        axis: Axis of its channels; None: not known, or too many to show.
        picture: Its axes if it may hold pictures.
        is_signal: Whether it may hold a signal of one channel, like audio.
        seen: Smallest and largest value.
        mean: Mean of all values.
        square: Mean of their squares.
        channels: Means of the channels.
        lows: Smallest values of the channels.
        highs: Their largest values.
        is_whole: Whether all values are whole numbers.
        constants: Numbers of the samples that hold one value.
        digests: Digests of the contents by number of the sample.
        blocks: Means of blocks by number of the sample, by which samples of floats are compared.
        neighbours: For each sample the mean distance of any two values, and of those ``Picture.steps`` apart.
        clipped: Number of samples with more than a hundredth of their values at both ends of the range.
        repeated: Number of samples in which all items of the batch are equal.
    """

    def __init__(self, tensor: Tensor, layout: str) -> None:
        self.tensor, self.picture = tensor, Picture.of(tensor)
        axis = layout.index("C") if len(layout) == tensor.rank and "C" in layout else None
        is_shown = axis is not None and axis not in tensor.dynamic_axes and tensor.shape[axis] <= _SHOWN
        self.axis = axis if is_shown else None
        if self.picture is not None:
            self.axis = tensor.rank + self.picture.axis
        is_long = max(tensor.shape, default=0) == tensor.size >= LEAST_LENGTH
        self.is_signal = is_long and tensor.dtype.is_float
        self.seen = NOTHING
        self.count = self.clipped = self.repeated = 0
        self.mean = self.square = 0.0
        self.channels: Any = 0.0
        self.lows: Any = math.inf
        self.highs: Any = -math.inf
        self.is_whole = True
        self.constants: list[int] = []
        self.digests: dict[int, bytes] = {}
        self.blocks: dict[int, np.ndarray] = {}
        self.neighbours: list[np.ndarray] = []

    @property
    def deviation(self) -> float:
        """Standard deviation of all values."""
        return math.sqrt(max(self.square - self.mean**2, 0.0))

    @property
    def is_constant(self) -> bool:
        """Whether each sample is constant."""
        return len(self.constants) == self.count

    @property
    def colours(self) -> int:
        """Number of channels of pictures; 0 for other inputs."""
        return 0 if self.picture is None else self.picture.channels

    @property
    def shares(self) -> np.ndarray:
        """Mean distances of neighbours over that of any two values; none: not known."""
        total = np.sum(self.neighbours, axis=0) if self.neighbours else np.zeros(1)
        return np.asarray(total[1:] / total[0]) if total[0] else np.zeros(0)

    def add(self, number: int, array: np.ndarray) -> None:
        """Count a sample; samples with NaN or infinite values are ignored."""
        total = float(array.sum(dtype=np.float64))
        if not (array.size and math.isfinite(total)):
            return
        low, high = float(array.min()) + 0.0, float(array.max()) + 0.0  # -0.0 is 0.0
        part = _part(array).astype(np.float64) + 0.0
        self.count += 1
        share = 1 / self.count
        self.seen = self.seen.merge(Range(low, high))
        self.mean += share * (float(part.mean()) - self.mean)
        self.square += share * (float((part * part).mean()) - self.square)
        self.is_whole = self.is_whole and bool((np.abs(np.rint(part) - part) < _WHOLE).all())
        if self.axis is not None:
            others = tuple(axis for axis in range(array.ndim) if axis != self.axis)
            self.channels = self.channels + share * (part.mean(others) - self.channels)
            self.lows = np.minimum(self.lows, part.min(others))
            self.highs = np.maximum(self.highs, part.max(others))
        text = part.tobytes() + np.array([low, high, total + 0.0]).tobytes()
        self.digests[number] = hashlib.blake2b(text, digest_size=16).digest()
        self.constants += [number] if low == high else []
        self.repeated += int(
            part.ndim > 1 and len(part) > 1 and low < high and bool((part == part[:1]).all())
        )
        if self.is_signal:
            at_ends = int(((part == low) | (part == high)).sum())
            self.clipped += int(part.size < 100 * at_ends < 50 * part.size and low < 0 < high)
        if self.picture is not None or self.is_signal:
            steps = (1,) if self.picture is None else self.picture.steps
            flat = array.reshape(-1)
            places = np.random.default_rng(0).integers(0, max(flat.size - max(steps), 1), PLACES)
            here = flat[places].astype(np.float64)
            there = [np.roll(here, 1), *(flat[(places + step) % flat.size] for step in steps)]
            self.neighbours.append(np.abs(np.stack(there) - here).mean(1))
        if self.tensor.dtype.is_float:
            self.blocks[number] = _blocks(part, self.picture).astype(np.float32)

    def lines(self) -> Iterator[str]:
        """Yield two lines for people."""
        count = f"{self.count} sample{'' if self.count == 1 else 's'}"
        numbers = f"{self.seen.low:.5g} to {self.seen.high:.5g}, mean {self.mean:.4g}"
        if self.axis is not None and len(self.channels) > 1:
            numbers += f", by channel {' '.join(f'{value:.3g}' for value in self.channels)}"
        yield f"input {self.tensor.name!r}: {count} of {self.tensor.dtype}, {numbers}"
        copies = self.count - len(set(self.digests.values()))
        alike = (
            f"{copies} repeat{'s' if copies == 1 else ''} another sample" if copies else "all samples differ"
        )
        constant = f"{len(self.constants)} constant" if self.constants else "no sample is constant"
        yield f"input {self.tensor.name!r}: {alike}, {constant}, no NaN"


class SampleSummary:
    """Summaries of all inputs of a graph.

    Args:
        layouts: What is known of the axes of inputs by name, like ``NCHW``.

    Attributes:
        inputs: Summaries by name of the input.
        numbers: Numbers of the samples, ``MOST_SAMPLES`` at most.
        rows: Number of rows of the smallest table that each input is an index of, by its name.
    """

    def __init__(self, graph: Graph, layouts: Mapping[str, str]) -> None:
        tensors = [tensor for tensor in graph.inputs if tensor.size]
        self.inputs = {tensor.name: InputSummary(tensor, layouts.get(tensor.name, "")) for tensor in tensors}
        self.numbers: list[int] = []
        self.rows = _table_rows(graph)

    def add(self, number: int, sample: Mapping[str, Any]) -> None:
        """Count a sample; a misfit is ignored, because the session refuses it.

        Raises:
            UsageError: If it holds an index beyond the table that it is for.
        """
        is_one_more = len(self.numbers) < MOST_SAMPLES
        self.numbers += [number] if is_one_more else []
        for name, entry in self.inputs.items():
            try:
                array = feed(entry.tensor, sample[name])
            except (KeyError, XdlcError):
                continue
            rows = self.rows.get(name)
            if rows is not None and not -rows <= array.min(initial=0) <= array.max(initial=0) < rows:
                raise UsageError(
                    f"holds {array.min()} to {array.max()}, but these indices are for a table of {rows} rows",
                    where=f"calibration sample {number}, input {name!r}",
                    fix="pass tokens of the network's own tokenizer, and check that each array has the name "
                    "of its input",
                )
            if is_one_more:
                entry.add(number, array)

    @property
    def distinct(self) -> int:
        """Number of different samples."""
        inputs = self.inputs.values()
        return len({tuple(entry.digests.get(number) for entry in inputs) for number in self.numbers})

    def distances(self, number: int, others: Sequence[int]) -> np.ndarray:
        """Return the distances of a sample from other samples and from their median.

        The nearer of a sample and its mirror image counts.

        Args:
            number: Number of the sample, one of ``numbers``.

        Returns:
            Distances in units of the inputs' deviations, the last that from the median; infinite from
            samples that have no values of an input, or fewer blocks of it.
        """
        total = np.zeros(len(others) + 1)
        for entry in self.inputs.values():
            if number not in entry.blocks:
                continue
            own, blocks = entry.blocks[number], [entry.blocks.get(other) for other in others]
            places = [i for i, block in enumerate(blocks) if block is not None and block.shape == own.shape]
            squares = np.full(len(total), np.inf)
            if places:
                rows = np.stack([entry.blocks[others[place]] for place in places])
                rows = np.concatenate([rows, np.median(rows, axis=0, keepdims=True)])
                forms = [own] if entry.picture is None else [own, own[:, ::-1]]
                axes = tuple(range(1, rows.ndim))
                squares[[*places, -1]] = np.min([((rows - form) ** 2).mean(axes) for form in forms], axis=0)
            total += squares / max(entry.deviation**2, 1e-30)
        return np.asarray(np.sqrt(total))

    def lines(self) -> list[str]:
        """Return two lines per input, for the first inputs if there are many."""
        entries = [entry for entry in self.inputs.values() if entry.count]
        more = [f"inputs: {len(entries) - _SHOWN} more"] if len(entries) > _SHOWN else []
        return [*(line for entry in entries[:_SHOWN] for line in entry.lines()), *more]


def _table_rows(graph: Graph) -> dict[str, int]:
    limits: dict[str, int] = {}
    for tensor in graph.inputs:
        for op, source in readers(graph, tensor):
            table = op.inputs[0]
            if op.type == "Gather" and table is not None and source is op.inputs[1] and table.is_static:
                rows = table.shape[int(op.param("axis", 0))]
                limits[tensor.name] = min(rows, limits.get(tensor.name, rows))
    return limits


def readers(graph: Graph, tensor: Tensor) -> Iterator[tuple[Op, Tensor]]:
    """Yield the ops that read a tensor, directly or through views, with the operand.

    That is the tensor, or the result of views and conversions of it.
    """
    pending = [tensor]
    for source in pending:  # grows
        for op in graph.consumers(source):
            rule = traits(op)
            if (rule.view or rule.recodes or single_name(op) == "Cast") and op.inputs[0] is source:
                pending.append(op.outputs[0])
            else:
                yield op, source


def _part(array: np.ndarray) -> np.ndarray:
    """Return at most ``MOST`` elements of an array, in even steps."""
    steps, sides = [1] * array.ndim, list(array.shape)
    while math.prod(sides) > MOST:
        axis = sides.index(max(sides))
        steps[axis] *= 2
        sides[axis] = -(-array.shape[axis] // steps[axis])
    part: np.ndarray = array[tuple(slice(None, None, step) for step in steps)]
    return part


def _blocks(part: np.ndarray, picture: Picture | None) -> np.ndarray:
    """Return the means of 8x8 blocks of each channel of a picture, or of 64 blocks.

    Short axes have a block for each element.  Blocks of pictures are in the order channels, columns, rows.
    """
    if picture is None:
        return _means(part.reshape(-1), _BLOCKS**2)
    planes = part.reshape(-1, *part.shape[-3:])[0]
    planes = planes if picture.is_planar else planes.transpose(2, 0, 1)
    return _means(_means(planes, _BLOCKS).swapaxes(1, 2), _BLOCKS)


def _means(array: np.ndarray, count: int) -> np.ndarray:
    """Return the means of equal parts of the last axis."""
    length = array.shape[-1]
    ends = np.linspace(0, length, min(count, length) + 1).astype(int)
    return np.asarray(np.add.reduceat(array, ends[:-1], axis=-1) / np.diff(ends))
