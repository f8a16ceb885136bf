"""Values of different magnitude: in one tensor, and in the inputs of an op.

One figure for a tensor of boxes and scores, which a Concat joined, is that of the boxes: their values are
hundreds of times as large.  Other such ops are sums with a grid, and products with factors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from xdlc.ir import Graph, Op, Tensor
from xdlc.opdefs.traits import traits
from xdlc.quant.attention_masks import Masks
from xdlc.quant.op_specs import is_real, rule_of, single_name, weight_of
from xdlc.quant.placement import Placement
from xdlc.quant.precision import follows
from xdlc.quant.ranges import NOTHING, Range, range_of

if TYPE_CHECKING:
    from xdlc.quant.calibration.calibrate import Calibration

UNLIKE = 8.0
"""How many times as large the values of a part are as those of its neighbour where both count as unlike."""

UNLIKE_INSIDE = 32.0
"""The same where other layers compute with the result, and of sums: 3 of 8 bits are left then."""

FEW = 64
"""Most weights of what counts as arithmetic, not as a layer."""
_DEEPEST = 64
"""Concats that are followed into each other; a deeper one counts as one part."""
_MOST = 256
"""Most parts of a tensor; with more it counts as one part."""
_JOINS = ("Concat", "Pack")
_SUMS = ("ElementWiseAdd", "ElementWiseSubtract")
_SCATTERS = ("ScatterNd", "ScatterElements")


@dataclass(frozen=True, slots=True)
class TensorSlice:
    """A slice of a tensor along one axis.

    Attributes:
        start: First index on it.
        stop: Index after the last.
        sources: The tensors whose values are here, or their functions, element by element.
    """

    axis: int
    start: int
    stop: int
    sources: tuple[Tensor, ...] = ()

    def of(self, array: Any) -> Any:
        """Return this slice of an array of the tensor's shape."""
        return array[(slice(None),) * self.axis + (slice(self.start, self.stop),)]


Parts = tuple[TensorSlice, ...]


def unlike_parts(parts: Parts, arrays: Sequence[Any]) -> Parts:
    """Return the parts of a tensor; similar neighbours are merged.

    Neighbours are alike if their largest values differ by less than ``UNLIKE`` times.

    Args:
        parts: Parts of a tensor, in the order of their axis.
        arrays: Values of the tensor in float, of one sample each.
    """

    def peak(part: TensorSlice) -> float:
        values = (np.abs(part.of(np.asarray(array))).max(initial=0.0) for array in arrays)
        return max(map(float, values), default=0.0)

    joined: list[tuple[TensorSlice, float]] = []
    for part, value in ((part, peak(part)) for part in parts):
        before, high = joined[-1] if joined else (None, 0.0)
        if before is not None and max(high, value) <= UNLIKE * min(high, value):
            merged = replace(before, stop=part.stop, sources=before.sources + part.sources)
            joined[-1] = merged, max(high, value)
        else:
            joined.append((part, value))
    return tuple(part for part, _ in joined)


def parts_of(tensor: Tensor, memo: dict[Tensor, Parts] | None = None, depth: int = 0) -> Parts:
    """Return the parts of a tensor along one axis; () if it has no parts.

    They follow from the graph alone, back through ops that move values or compute element by element: a
    Concat parts its result, a ScatterNd that fills a slice, and a product with numbers per channel that
    differ.  Those of detectors' levels are among them; :func:`unlike_parts` joins parts of like values.

    Args:
        memo: Parts found before; those of this one and of what it comes from are added.
        depth: Concats between this tensor and the first.
    """
    memo = {} if memo is None else memo
    chain: list[tuple[Tensor, Op, Tensor]] = []
    while tensor not in memo:
        op = tensor.producer
        source = None if op is None else _followed(op, tensor)
        if op is None or source is None:
            memo[tensor] = () if op is None or depth > _DEEPEST else _made(op, tensor, memo, depth)
            break
        chain.append((tensor, op, source))
        tensor = source
    found = memo[tensor]
    for result, op, source in reversed(chain):
        found = memo[result] = _carried(op, found, source, result) or _scaled(op, result)
    return found


def _followed(op: Op, result: Tensor) -> Tensor | None:
    """Return the only input whose parts an op passes on, or None."""
    facts = traits(op)
    reals = [tensor for tensor in op.inputs if tensor is not None and is_real(tensor)]
    moving = [tensor for tensor in reals if not tensor.is_static]
    if facts.view or facts.recodes:
        return op.inputs[0]
    if facts.elementwise and facts.activation_bits and len(moving) == 1 and (moving[0].size == result.size):
        return moving[0]
    return None


def _made(op: Op, result: Tensor, memo: dict[Tensor, Parts], depth: int) -> Parts:
    """Return the parts of the result of an op with several sources."""
    if op.type in _JOINS:
        return _joined(op, result, memo, depth)
    if op.type in _SCATTERS:
        return _filled(op, result)
    if single_name(op).startswith("ElementWise"):  # two that are parted alike, or one
        for tensor in op.inputs:
            if tensor is not None and not tensor.is_static and tensor.shape == result.shape:
                found = parts_of(tensor, memo, depth + 1)
                if found:
                    return found
    return ()


def _joined(op: Op, result: Tensor, memo: dict[Tensor, Parts], depth: int) -> Parts:
    axis = int(op.param("axis", 0)) % max(result.rank, 1)
    inputs = [tensor for tensor in op.inputs if tensor is not None]
    if len(inputs) == 1 and op.type == "Concat":
        return parts_of(inputs[0], memo, depth + 1)
    below = [parts_of(tensor, memo, depth + 1) for tensor in inputs] if op.type == "Concat" else []
    # Levels of a detector, parted alike on another axis: boxes and scores are what is unlike.
    if below and all(below) and len({_bounds(parts) for parts in below}) == 1 and below[0][0].axis != axis:
        rows = zip(*below, strict=True)
        return tuple(replace(row[0], sources=tuple(s for part in row for s in part.sources)) for row in rows)
    slices: list[TensorSlice] = []
    start = 0
    for place, tensor in enumerate(inputs):
        size = tensor.shape[axis] if op.type == "Concat" else 1
        inner = below[place] if below and below[place] and below[place][0].axis == axis else ()
        for part in inner or (TensorSlice(axis, 0, size, (tensor,)),):
            slices.append(replace(part, start=part.start + start, stop=part.stop + start))
        start += size
    return tuple(slices) if 1 < len(slices) <= _MOST else ()


def _bounds(parts: Parts) -> tuple[tuple[int, int, int], ...]:
    return tuple((part.axis, part.start, part.stop) for part in parts)


def _filled(op: Op, result: Tensor) -> Parts:
    """Return the slice that a scatter with constant indices fills, and the rest."""
    data, indices, updates = op.inputs[:3]
    if data is None or indices is None or updates is None or not indices.is_static:
        return ()
    touched = np.zeros(result.shape, bool)
    places = indices.numpy().astype(np.int64)
    limits = (
        result.shape[: places.shape[-1]]
        if op.type == "ScatterNd"
        else (result.shape[int(op.param("axis", 0))],)
    )
    if (places < 0).any() or (places >= np.array(limits)).any():
        return ()
    if op.type == "ScatterNd":
        touched[tuple(np.moveaxis(places, -1, 0))] = True
    else:
        axis = int(op.param("axis", 0))
        reached = (slice(None if at == axis else dim) for at, dim in enumerate(places.shape))
        np.put_along_axis(touched[tuple(reached)], places, True, axis)
    for axis in range(result.rank):
        others = tuple(other for other in range(result.rank) if other != axis)
        inside = touched.all(axis=others)
        hits = np.flatnonzero(inside)
        if inside.all() or not hits.size or (touched.any(axis=others) != inside).any():
            continue
        start, stop = int(hits[0]), int(hits[-1]) + 1
        if stop - start != hits.size:
            continue
        ends = [(0, start, data), (start, stop, updates), (stop, result.shape[axis], data)]
        return tuple(TensorSlice(axis, low, high, (source,)) for low, high, source in ends if low < high)
    return ()


def _carried(op: Op, parts: Parts, source: Tensor, result: Tensor) -> Parts:
    """Return the parts of an op's input in its result; () if they are mixed."""
    if not parts:
        return ()
    old = parts[0].axis
    if op.type == "Transpose":
        axis = [int(place) for place in op.param("perm")].index(old)
        return tuple(replace(part, axis=axis) for part in parts)
    if source.shape == result.shape:
        return parts
    if traits(op).view or source.size == result.size:
        return _reshaped(parts, source, result)
    return ()


def _reshaped(parts: Parts, source: Tensor, result: Tensor) -> Parts:
    """Return the parts after a Reshape that keeps or splits their axis.

    It may cut the axis between whole parts.
    """
    old = parts[0].axis
    outer, inner = math.prod(source.shape[:old]), math.prod(source.shape[old + 1 :])
    for axis, size in enumerate(result.shape):
        if math.prod(result.shape[:axis]) != outer or not size:
            continue
        unit = math.prod(result.shape[axis + 1 :]) // max(inner, 1)
        if unit * inner != math.prod(result.shape[axis + 1 :]) or size * unit != source.shape[old]:
            continue
        if all(part.start % unit == 0 and part.stop % unit == 0 for part in parts):
            return tuple(
                replace(part, axis=axis, start=part.start // unit, stop=part.stop // unit) for part in parts
            )
    return ()


def _scaled(op: Op, result: Tensor) -> Parts:
    """Return the runs of channels that are scaled by different constants, if few."""
    runs = _runs(op, result)
    return tuple(TensorSlice(axis, start, stop, (result,)) for axis, start, stop, _ in runs)


def factors(op: Op) -> list[float]:
    """Return the unlike factors of an op for runs of channels, without signs.

    There are none if they are alike.
    """
    return [factor for *_, factor in _runs(op, op.outputs[0])]


def _runs(op: Op, result: Tensor) -> list[tuple[int, int, int, float]]:
    """Return axis, start, stop and largest factor of each run of channels."""
    kind = single_name(op)
    static = next((tensor for tensor in op.inputs[1:] if tensor is not None and tensor.is_static), None)
    if kind == "ElementWiseMultiply" and static is None and op.inputs[0] is not None:
        static = op.inputs[0] if op.inputs[0].is_static else None
    if kind not in ("ElementWiseMultiply", "ElementWiseDivide") or static is None:
        return []
    wide = [axis for axis, size in enumerate(static.shape) if size > 1]
    if len(wide) != 1 or not static.dtype.is_float:
        return []
    axis = wide[0] + result.rank - static.rank
    sizes = np.abs(static.numpy().ravel())
    if axis < 0 or sizes.size != result.shape[axis] or not np.isfinite(sizes).all():
        return []
    low, high = np.minimum(sizes[:-1], sizes[1:]), np.maximum(sizes[:-1], sizes[1:])
    edges = [0, *(np.flatnonzero(high > UNLIKE * low) + 1).tolist(), sizes.size]
    if not 2 < len(edges) <= _MOST or not sizes.all():
        return []
    sizes = 1.0 / sizes if kind == "ElementWiseDivide" else sizes
    return [(axis, start, stop, float(sizes[start:stop].max())) for start, stop in pairwise(edges)]


@dataclass(frozen=True, slots=True)
class Join:
    """An op that combines values of different magnitude.

    Attributes:
        narrow: Width of the range of its smallest part.
        wide: Width of the range of its largest part.
        large: Its inputs that are not much narrower than the widest.
        onward: The ops that need the bits of its result for the small values to be kept, itself the first.
        written: What these write, and the ops between them that only move values.
        is_final: Whether the result reaches an output, or ops in float, by these alone.
    """

    op: Op
    narrow: float
    wide: float
    large: tuple[Tensor, ...]
    onward: tuple[Op, ...]
    written: tuple[Tensor, ...]
    is_final: bool


def find_joins(graph: Graph, placement: Placement, calibration: Calibration, masks: Masks) -> list[Join]:
    """Return the quantized ops that combine values of different magnitude.

    They are in execution order.

    Args:
        masks: Its attention masks, which join what they hide with nothing.
    """
    order = {op: place for place, op in enumerate(placement.fixed)}
    joins = []
    for op in placement.fixed:
        parts = _parts(op, calibration)
        widths = [width for _, width in parts]
        if not widths or max(widths) < UNLIKE * min(widths) or op.outputs[0] in masks.hiding:
            continue
        onward, written, is_final = _onward(graph, placement, op, order)
        limit = UNLIKE if is_final and single_name(op) not in _SUMS else UNLIKE_INSIDE
        gathers = bool(_gathered(op))
        if max(widths) < limit * min(widths) or not (gathers or is_final):
            continue
        large = (tensor for tensor, width in parts if width * UNLIKE > max(widths))
        joins.append(
            Join(op, min(widths), max(widths), tuple(dict.fromkeys(large)), onward, written, is_final)
        )
    return joins


def _gathered(op: Op) -> list[Tensor]:
    """Return the float tensors whose values an op gathers unchanged."""
    inputs = [op.inputs[index] for index in rule_of(op).gathers if index < len(op.inputs)]
    return [tensor for tensor in inputs if tensor is not None and is_real(tensor)]


def _parts(op: Op, calibration: Calibration) -> list[tuple[Tensor, float]]:
    """Return the operands that an op joins, with the width of the range of each.

    Inputs of zeros alone are omitted.
    """
    kind = single_name(op)
    # A slice of a tensor has the range of the whole where nothing else is known of it.
    most = range_of_values(op.outputs[0], calibration).width or float("inf")
    parts = [(tensor, min(range_of_values(tensor, calibration).width, most)) for tensor in _gathered(op)]
    moving = op.computed
    if not parts and len(moving) == 1 and len(op.inputs) == 2:
        source = moving[0]
        width = range_of_values(source, calibration).width
        static = next(tensor for tensor in op.inputs if tensor is not None and tensor is not source)
        if kind in _SUMS:
            # A small constant, as in front of a root, needs no steps of its own.
            added = range_of_values(static, calibration).width
            parts = [(source, width), (static, added)] if added > width else []
        else:
            parts = [(source, width * factor) for factor in factors(op)]
    return [(tensor, width) for tensor, width in parts if 0.0 < width < float("inf")]


def range_of_values(tensor: Tensor, calibration: Calibration) -> Range:
    """Return the range of a tensor's values, or the range that its op fixes."""
    if tensor.is_static:
        return range_of(tensor.numpy()) if tensor.dtype.is_float else NOTHING
    unit_low = rule_of(writer(tensor)).unit_low
    if unit_low is not None:
        return Range(float(unit_low), 1.0)
    statistics = calibration.statistics.get(tensor)
    return NOTHING if statistics is None else statistics.seen


def _onward(
    graph: Graph, placement: Placement, first: Op, order: dict[Op, int]
) -> tuple[tuple[Op, ...], tuple[Tensor, ...], bool]:
    """Return the ops that pass a result on, their outputs, and whether it is final.

    A result is final if it reaches an output.  The ops on the way are returned then, else those up to and
    including the layers that compute with it.
    """
    reached = _reached(graph, placement, first, lambda op: hands_on(op) or bool(_gathered(op)))
    ends: set[Op] = set()
    for op in sorted((op for op, carries in reached.items() if carries), key=order.__getitem__, reverse=True):
        reals = [tensor for tensor in op.outputs if is_real(tensor)]
        if not reals:
            ends.add(op)
        for tensor in reals:
            readers = graph.consumers(tensor)
            if graph.is_output(tensor) or any(r not in placement.fixed or r in ends for r in readers):
                ends.add(op)
    is_final = first in ends
    if is_final:
        reached = {op: True for op in reached if op in ends}
    else:  # a sum with something else, as of a residual stream, is a layer of its own
        reached = _reached(graph, placement, first, lambda op: bool(_gathered(op)) or _is_of_one(op))
    on_way = sorted(reached, key=order.__getitem__)
    written = tuple(tensor for op in on_way if reached[op] for tensor in op.outputs)
    return tuple(op for op in on_way if not follows(op)), written, is_final


def _reached(graph: Graph, placement: Placement, first: Op, carries: Callable[[Op], bool]) -> dict[Op, bool]:
    """Return the quantized ops that values reach, and whether each carries them."""
    reached = {first: True}
    queue = [first]
    for op in queue:
        for tensor in filter(is_real, op.outputs):
            for reader in graph.consumers(tensor):
                if reader not in reached and reader in placement.fixed:
                    reached[reader] = carries(reader)
                    queue += [reader] if reached[reader] else []
    return reached


def _is_of_one(op: Op) -> bool:
    return hands_on(op) and len(op.computed) == 1


def _combines_few(op: Op) -> bool:
    """Return whether an op is a product of values with few constants.

    An example is the step from centres of boxes to corners.
    """
    weight, source = weight_of(op), op.inputs[0] if op.inputs else None
    if weight is None or source is None:
        return False
    return weight.size <= FEW and source.size <= op.outputs[0].size


def writer(tensor: Tensor) -> Op | None:
    """Return the op that computes a tensor's values, through ops that move them."""
    op = tensor.producer
    while op is not None and follows(op):
        first = op.inputs[0]
        op = first.producer if first is not None else None
    return op


def hands_on(op: Op) -> bool:
    """Return whether an op moves values, or computes by element without bounds."""
    rule = rule_of(op)
    if not rule.activation_bits or rule.unit_low is not None:
        return False
    return follows(op) or rule.clamps or single_name(op).startswith("ElementWise")


def makers(graph: Graph, placement: Placement, tensors: Iterable[Tensor]) -> Iterator[Op]:
    """Yield the ops that compute tensors from the results of layers.

    They compute element by element; the last ones are first.
    """
    queue = list(tensors)
    seen = set(queue)
    for tensor in queue:
        op = tensor.producer
        if op is None or op not in placement.fixed:
            continue
        if not (hands_on(op) or _gathered(op) or _combines_few(op)):
            continue
        inputs = op.inputs[:1] if follows(op) else op.inputs
        more = [t for t in inputs if t is not None and t not in seen and not t.is_static and is_real(t)]
        seen.update(more)
        queue += more
        if not follows(op):
            yield op
