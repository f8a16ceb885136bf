"""Reductions that calibration adds to a lowered graph, all results in one vector.

A run outputs a few numbers a tensor and no activations.  One result for all makes onnxruntime run each
reduction right after the tensor that it reads, for it orders nodes from the results back: activations
are still in the cache then, and released as soon as in a plain float session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from xdlc.ir import Graph, Op, Tensor
from xdlc.ir import dtype as dt
from xdlc.ir.data import Array
from xdlc.opdefs.traits import operation_name, result_range, traits
from xdlc.quant.calibration.statistics import Key, SampleStatistics, spread
from xdlc.runtime.lower import Lowered

_LOW, _HIGH = "ReduceMin", "ReduceMax"
_SUM, _MEAN = "ReduceSum", "ReduceMean"
_SAMPLE = "Slice"
_KINDS = (_LOW, _HIGH, _SUM, _MEAN, _SAMPLE)


@dataclass
class PartTaps:
    """Taps of a part of the graph, and the positions of their results in its vector.

    Attributes:
        name: Name of the vector among the results.
        watched: Positions of the watched tensors in the order in which results lie.
        checked: For each of ``watched`` the averaged tensor whose mean shows NaN, which is the same.
        parts: ONNX values of each kind of result.
        sizes: Number of elements of each of these.
        loose: Names of results whose number is open, by position.
        runs: How often the part has run for the sample.
    """

    name: str
    watched: list[int] = field(default_factory=list)
    averaged: list[Key] = field(default_factory=list)
    checked: list[Key | None] = field(default_factory=list)
    parts: dict[str, list[str]] = field(default_factory=lambda: {kind: [] for kind in _KINDS})
    sizes: dict[str, list[int]] = field(default_factory=lambda: {kind: [] for kind in _KINDS})
    loose: dict[int, str] = field(default_factory=dict)
    runs: int = 0

    def tap(
        self,
        lowered: Lowered,
        tensor: Tensor,
        index: int | None,
        *,
        mean: Key | None,
        limit: int,
        is_dropped: bool = False,
    ) -> None:
        """Add the reductions of one tensor.

        Infinities of a tensor that is dropped count as 0, and so does the smallest value of a Relu.
        """
        value = lowered.value(tensor.name, any_layout=True)
        if is_dropped:
            value = _finite(lowered, tensor, value)
        order = lowered.layout(tensor.name)
        if mean is not None:
            last = order.index(tensor.rank - 1)
            self.averaged.append(mean)
            self._reduce(lowered, tensor, "ReduceMean", value, last, tensor.shape[-1])
        if index is None:
            return
        self.watched.append(index)
        self.checked.append(mean)
        kept = _kept(tensor, order)
        rows = 1 if kept is None else tensor.shape[order[kept]]
        kinds = [_HIGH] if mean is not None else [_HIGH, _SUM]
        if _begins_at_zero(tensor):
            self._keep(_LOW, lowered.add_constant(np.zeros(1, np.float32)), 1)
        else:
            kinds.append(_LOW)
        for kind in kinds:
            self._reduce(lowered, tensor, kind, value, kept, rows)
        if limit:
            self._sample(lowered, tensor, value, index, limit)

    def _reduce(
        self, lowered: Lowered, tensor: Tensor, kind: str, value: str, kept: int | None, rows: int
    ) -> None:
        axes = np.array([axis for axis in range(tensor.rank) if axis != kept], np.int64)
        if axes.size:
            (value,) = lowered.add_node(kind, [value, lowered.add_constant(axes)], keepdims=0)
        self._keep(kind, self._vector(lowered, tensor, value, flat=kept is not None), rows)

    def _vector(self, lowered: Lowered, tensor: Tensor, value: str, *, flat: bool = False) -> str:
        from onnx import TensorProto

        if lowered.dtype(tensor) != np.float32:
            (value,) = lowered.add_node("Cast", [value], to=TensorProto.FLOAT)
        if flat:
            return value
        (value,) = lowered.add_node("Reshape", [value, lowered.add_constant(np.array([-1], np.int64))])
        return value

    def _sample(self, lowered: Lowered, tensor: Tensor, value: str, index: int, limit: int) -> None:
        start, stride = spread(tensor.size, limit)
        bounds = (start, np.iinfo(np.int64).max, 0, stride)
        inputs = [lowered.add_constant(np.array([number], np.int64)) for number in bounds]
        (taken,) = lowered.add_node("Slice", [self._vector(lowered, tensor, value), *inputs])
        if tensor.dynamic_axes:
            self.loose[index] = f"{self.name}:{index}"
            lowered.add_output(self.loose[index], taken, dt.FLOAT32, [None])
            taken, count = lowered.add_constant(np.zeros(0, np.float32)), 0
        else:
            count = len(range(start, tensor.size, stride))
        self._keep(_SAMPLE, taken, count)

    def _keep(self, kind: str, value: str, size: int) -> None:
        self.parts[kind].append(value)
        self.sizes[kind].append(size)

    def close(self, lowered: Lowered) -> bool:
        """Concatenate all results; return whether there are any."""
        values = [value for kind in _KINDS for value in self.parts[kind]]
        if not values:
            return False
        (joined,) = lowered.add_node("Concat", values, axis=0)
        size = sum(sum(self.sizes[kind]) for kind in _KINDS)
        lowered.add_output(self.name, joined, dt.FLOAT32, (size,))
        return True

    def read(self, results: Mapping[str, Array], reading: SampleStatistics) -> None:
        """Add the result vector of a part to a sample's statistics."""
        self.runs += 1
        vector = results[self.name]
        pieces, at = {}, 0
        for kind in _KINDS:
            size = sum(self.sizes[kind])
            pieces[kind], at = vector[at : at + size], at + size
        means = dict(zip(self.averaged, self._split(pieces, _MEAN), strict=False))
        for key, mean in means.items():
            whole = mean.astype(np.float64)
            reading.means[key] = reading.means[key] + whole if key in reading.means else whole
            reading.runs[key] = reading.runs.get(key, 0) + 1
        if not self.watched:
            return
        places = self.watched
        for target, kind, least in ((reading.lows, _LOW, np.minimum), (reading.highs, _HIGH, np.maximum)):
            target[places] = least(target[places], least.reduceat(pieces[kind], _starts(self.sizes[kind])))
        # The largest number is NaN if one is.
        summed = [index for index, mean in zip(places, self.checked, strict=True) if mean is None]
        if summed:
            reading.sums[summed] += np.maximum.reduceat(pieces[_SUM], _starts(self.sizes[_SUM]))
        for index, checked in zip(places, self.checked, strict=True):
            if checked is not None:
                reading.sums[index] += means[checked].max()
        # Of many runs the first, second, fourth, eighth ... are counted.
        if reading.values and self.runs & (self.runs - 1) == 0:
            for index, values in zip(places, self._split(pieces, _SAMPLE), strict=True):
                reading.values[index].append(results[self.loose[index]] if index in self.loose else values)

    def _split(self, pieces: Mapping[str, Array], kind: str) -> list[Array]:
        return np.split(pieces[kind], _starts(self.sizes[kind])[1:])


def _finite(lowered: Lowered, tensor: Tensor, value: str) -> str:
    zero = lowered.add_constant(lowered.dtype(tensor).type(0))
    (difference,) = lowered.add_node("Sub", [value, value])  # NaN of infinities
    (is_finite,) = lowered.add_node("Equal", [difference, zero])
    (finite,) = lowered.add_node("Where", [is_finite, value, zero])
    return finite


def _begins_at_zero(tensor: Tensor) -> bool:
    """Return whether 0 is the smallest value that a tensor's op can compute."""
    limits = None if tensor.producer is None else result_range(tensor.producer)
    return limits is not None and limits[0] == 0.0


def _starts(sizes: Sequence[int]) -> Array:
    return np.cumsum([0, *sizes[:-1]])


def _kept(tensor: Tensor, order: Sequence[int]) -> int | None:
    """Return the axis that reductions keep, so that threads can share its rows.

    None where there is no such axis; the result is a single number then.

    Args:
        order: The axes of the tensor in the order in which its values lie.
    """
    if tensor.dynamic_axes or not tensor.rank:
        return None
    dims = [tensor.shape[axis] for axis in order]
    first = next((axis for axis, dim in enumerate(dims) if dim > 1), 0)
    return first if first < tensor.rank - 1 else next((i for i, dim in enumerate(dims) if dim == 1), None)


class Taps:
    """Reductions that are added to each part of a graph and of its sub-graphs.

    A tensor is measured in the first part that has it.

    Args:
        watched: Activations whose ranges are wanted.
        averaged: Activations of which the mean of each channel is wanted.
        limit: Most values of a tensor that are wanted for its histogram.
    """

    def __init__(self, watched: Sequence[Key], averaged: Sequence[Key], *, limit: int = 0) -> None:
        self._watched = {key: index for index, key in enumerate(watched)}
        self._averaged = set(averaged)
        self._limit = limit
        self._count = len(watched)
        self._parts: dict[str, PartTaps] = {}
        self._reading = self._fresh()

    def refine(self, lowered: Lowered) -> None:
        """Add reductions of requested tensors that this part is the first to contain."""
        graph, without = lowered.graph, dropped(lowered.graph)
        part = PartTaps(f"calibration:{len(self._parts)}")
        # If two nodes can run, onnxruntime runs the one that was added last.
        for name in reversed(graph.tensors):
            key = (graph.name, name)
            index, mean = self._watched.pop(key, None), key in self._averaged
            self._averaged.discard(key)
            if index is not None or mean:
                tensor, averaged = graph.tensors[name], key if mean else None
                is_dropped = tensor in without
                part.tap(lowered, tensor, index, mean=averaged, limit=self._limit, is_dropped=is_dropped)
        if part.close(lowered):
            self._parts[part.name] = part

    def see(self, results: Mapping[str, Array]) -> None:
        """Add the results of a run of a part to those of the sample."""
        for name in self._parts.keys() & results.keys():
            self._parts[name].read(results, self._reading)

    def take(self) -> SampleStatistics:
        """Return the results of the runs since the last call."""
        taken, self._reading = self._reading, self._fresh()
        for part in self._parts.values():
            part.runs = 0
        return taken

    def _fresh(self) -> SampleStatistics:
        lows, highs = np.full(self._count, np.inf), np.full(self._count, -np.inf)
        values: list[list[Array]] = [[] for _ in range(self._count)] if self._limit else []
        return SampleStatistics(lows, highs, np.zeros(self._count), values=values)


_COMPARISONS = tuple(f"ElementWise{name}" for name in ("Greater", "GreaterEqual", "Less", "LessEqual"))


def dropped(graph: Graph) -> set[Tensor]:
    """Return the float tensors that only selections and comparisons with 0 read.

    Element-wise ops of them may lie between.  A selection that outputs such a value is watched itself.
    """
    dropping: set[Tensor] = set()
    for op in reversed(graph.ops):
        for tensor in op.outputs:
            readers = graph.consumers(tensor)
            if not tensor.dtype.is_float or graph.is_output(tensor) or not readers:
                continue
            if all(_drops(reader, tensor, dropping) for reader in readers):
                dropping.add(tensor)
    return dropping


def _drops(op: Op, tensor: Tensor, dropping: set[Tensor]) -> bool:
    if op.type == "ElementWiseSelect":
        return True
    if operation_name(op) in _COMPARISONS:
        other = op.inputs[0 if op.inputs[1] is tensor else 1]
        return other is not None and other.data is not None and not np.any(other.numpy())
    return traits(op).elementwise and all(result in dropping for result in op.outputs)
