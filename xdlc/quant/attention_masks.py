"""Attention masks that are added to scores, and the ranges that affect a Softmax.

Exporters hide places from attention by adding the smallest float, minus infinity or -1e9 to scores.  A
range that holds such a number has no steps left for scores.  What is far enough below the largest
score of a row results in zero all the same, so ranges may end there: that of the Softmax's input, and through
sums, selections and moves that of each mask.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from xdlc.ir import HOST_PACKAGE, Graph, Op, Param, Tensor, b8, make_op, static, u32, u32s
from xdlc.ir.data import Array
from xdlc.ir.dtype import BOOL8, DType
from xdlc.opdefs.elementwise_enums import GREATER, MULTIPLY, SUBTRACT
from xdlc.opdefs.traits import traits
from xdlc.passes._match import turn_into
from xdlc.quant.encoding_groups import NEGLIGIBLE
from xdlc.quant.op_specs import is_real, single_name
from xdlc.quant.ranges import EVERYTHING, NOTHING, Range, range_of
from xdlc.quant.samples import Sample, mapped

BOUND = 2.0**40
"""Magnitude of bounded masks: sums stay finite, in float32 steps of at least 2^16."""

ADDED, MULTIPLIED = 100.0, 1000.0
"""Least magnitude of a constant that is a mask: of one that is added or selected, and of a factor."""

LOWEST_PEAK = -500.0
"""A row of scores whose largest one is below this is masked as a whole: nobody reads its result."""

FACTOR = 64.0
"""How far a factor reaches beyond what its products have to: flags of 1/64 hide a place."""

_UNKNOWN_ROW = 1024
"""Places of a row whose number is open."""

_PRODUCTS = ("ElementWiseMultiply", "ElementWiseDivide")


@dataclass(slots=True)
class Masks:
    """Tensors of a graph that affect its results only through a Softmax.

    Attributes:
        paths: Those tensors, static ones among them.
        hiding: Those of them that hold masks, alone or in a sum with scores.
        peaked: Inputs of a Softmax whose useful range hangs on the largest score of each row, and the op.
    """

    paths: set[Tensor] = field(default_factory=set)
    hiding: set[Tensor] = field(default_factory=set)
    peaked: dict[Tensor, Op] = field(default_factory=dict)


def find_masks(graph: Graph) -> Masks:
    """Return the masks of a graph."""
    masks = Masks()
    if not any(op.type == "Softmax" for op in graph.ops):
        return masks
    huge = _huge(graph)
    outside: set[Tensor] = set()
    for op in reversed(list(graph.ops)):
        goes_on = all(tensor in masks.paths and tensor not in outside for tensor in op.outputs)
        for index, tensor in enumerate(op.inputs):
            if tensor is None or not is_real(tensor):
                continue
            ends = single_name(op) == "Softmax" and float(op.param("beta", 1.0)) > 0
            stays = ends or (goes_on and _passes(op, index, huge))
            (masks.paths if stays and not graph.is_output(tensor) else outside).add(tensor)
    masks.paths -= outside
    masks.hiding = masks.paths & huge
    for op in graph.ops:
        source = op.inputs[0] if op.inputs else None
        if single_name(op) == "Softmax" and source in masks.paths and source is not None:
            inner = not graph.is_output(op.outputs[0])
            if source in masks.hiding or (inner and _is_sum(source)):
                masks.peaked[source] = op
    return masks


def hides(op: Op) -> bool:
    """Return whether an op reads a mask, whose values do not reflect quality."""
    return op.graph is not None and any(tensor in find_masks(op.graph).hiding for tensor in op.inputs)


def bound_masks(graph: Graph) -> None:
    """Replace minus infinity in masks by ``-BOUND``; Softmax results do not change.

    What is ``flag * c - c`` becomes ``(flag - 1) * c``: no encoding holds both terms as exactly as their
    difference has to be.
    """
    hiding = find_masks(graph).hiding
    for op in list(graph.ops) if hiding else ():
        if op.outputs[0] in hiding and single_name(op) in ("ElementWiseAdd", "ElementWiseSubtract"):
            _subtract_first(graph, op)
    for tensor in find_masks(graph).hiding if hiding else ():
        if tensor.data is not None and not _range(tensor).within(Range(-BOUND, BOUND)):
            tensor.data = tensor.data.transform(partial(_bounded, limit=BOUND))


def bounded_samples(samples: Iterable[Sample], graph: Graph) -> Iterable[Sample]:
    """Return samples whose masks have ``-BOUND`` in place of minus infinity."""
    masks = find_masks(graph)
    names = [tensor.name for tensor in graph.inputs if _is_mask(graph, tensor, masks)]

    def finite(sample: Sample, number: int) -> Sample:
        bounded = dict(sample)
        for name in names:
            if name in sample and np.isneginf(mask := np.asarray(sample[name])).any():
                bounded[name] = np.where(np.isneginf(mask), max(-BOUND, np.finfo(mask.dtype).min), mask)
        return bounded

    return mapped(samples, finite) if names else samples


def _is_mask(graph: Graph, tensor: Tensor, masks: Masks) -> bool:
    """Return whether an input is a mask: only a Softmax depends on it.

    It may be clamped before, and the largest value of each row may be computed from it.
    """
    readers = graph.consumers(tensor)
    is_clamped = any(single_name(op) == "ElementWiseMaximum" for op in readers)
    return tensor in masks.hiding or (
        is_clamped and all(op.outputs[0] in masks.hiding or op.type == "ReduceMax" for op in readers)
    )


def _subtract_first(graph: Graph, op: Op) -> None:
    """Rewrite ``flag * c - c`` as ``(flag - 1) * c``."""
    sign = 1.0 if single_name(op) == "ElementWiseAdd" else -1.0
    for (product, sign_of_product), (number, sign_of_number) in (
        ((op.inputs[0], 1.0), (op.inputs[1], sign)),
        ((op.inputs[1], sign), (op.inputs[0], 1.0)),
    ):
        times = product.producer if product is not None else None
        if times is None or product is None or single_name(times) != "ElementWiseMultiply":
            continue
        flag, factor = sorted(times.inputs, key=lambda tensor: tensor is not None and tensor.is_static)
        held = [_number(factor), _number(number)]
        if flag is None or None in held or graph.sole_consumer(product) is not op:
            continue
        size = sign_of_product * (held[0] or 0.0)
        if size and size == -sign_of_number * (held[1] or 0.0) and flag.shape == op.outputs[0].shape:
            unit = _constant(graph, flag, 1.0)
            scale = _constant(graph, flag, size)
            less: dict[str, Param] = {"operation": u32(SUBTRACT)}
            by: dict[str, Param] = {"operation": u32(MULTIPLY)}
            turn_into(graph, times, "ElementWiseBinary", [flag, unit], less)
            turn_into(graph, op, "ElementWiseBinary", [product, scale], by)
            return


def _number(tensor: Tensor | None) -> float | None:
    """Return the value of a constant of one element, or None."""
    return (
        float(tensor.numpy().reshape(-1)[0])
        if tensor is not None and tensor.is_static and tensor.size == 1
        else None
    )


def _constant(graph: Graph, like: Tensor, value: float) -> Tensor:
    name = graph.unique_name(f"{like.name}_constant")
    return graph.add_tensor(static(name, np.array([value], like.dtype.numpy), like.dtype))


def _bounded(array: Array, *, limit: float) -> Array:
    return array.clip(-limit, limit)


def add_peaks(graph: Graph, masks: Masks) -> dict[Tensor, Tensor]:
    """Append ops that compute the largest score of each row.

    Their results are returned by the input of the Softmax.

    Rows that are masked as a whole give the largest score of all rows.
    """
    peaks = {}
    for scores, softmax in masks.peaked.items():
        axis = row_axis(softmax)
        limit = np.array([LOWEST_PEAK], scores.dtype.numpy)
        lowest = static(graph.unique_name(f"{scores.name}_lowest"), limit, scores.dtype)
        row = _reduced(graph, scores, [axis])
        most = _reduced(graph, row, range(scores.rank))
        shown = _result(graph, row, "shown", BOOL8)
        above: dict[str, Param] = {"operation": u32(GREATER)}
        graph.append(make_op(graph, "ElementWiseBinary", [row, lowest], [shown], above, name=shown.name))
        peak = peaks[scores] = _result(graph, row, "peak", row.dtype)
        graph.append(make_op(graph, "ElementWiseSelect", [shown, row, most], [peak], name=peak.name))
    return peaks


def row_axis(softmax: Op) -> int:
    """Return the axis of the rows of a Softmax, counted from the first axis."""
    rank = softmax.outputs[0].rank
    return int(softmax.param("axis", rank - 1)) % max(rank, 1)


def _reduced(graph: Graph, tensor: Tensor, axes: Iterable[int]) -> Tensor:
    held = list(axes)
    result = _result(graph, tensor, "max", tensor.dtype)
    result.shape = tuple(1 if axis in held else size for axis, size in enumerate(tensor.shape))
    result.dynamic_axes = tuple(axis for axis in tensor.dynamic_axes if axis not in held)
    params: dict[str, Param] = {"axes": u32s(held), "keep_dims": b8(True)}
    graph.append(make_op(graph, "ReduceMax", [tensor], [result], params, name=result.name))
    return result


def _result(graph: Graph, tensor: Tensor, suffix: str, dtype: DType) -> Tensor:
    name = graph.unique_name(f"{tensor.name}_{suffix}")
    return graph.add_tensor(Tensor(name, tensor.shape, dtype, dynamic_axes=tensor.dynamic_axes))


def _huge(graph: Graph) -> set[Tensor]:
    """Return the tensors that may be masks, and all that is computed from them.

    Those are constants that are large enough, and inputs that are added to what is larger than they are.
    """
    masks = {tensor for tensor in graph.inputs if tensor.dtype.is_float and _is_spread(graph, tensor)}
    for op in graph.ops:
        least = MULTIPLIED if single_name(op) in _PRODUCTS else ADDED
        carried = False
        for index, tensor in enumerate(op.inputs):
            if tensor is None or not is_real(tensor) or not _carries(op, index):
                continue
            if tensor.is_static and tensor.dtype.is_float and tensor not in masks:
                values = _range(tensor)
                if max(-values.low, values.high) >= least:
                    masks.add(tensor)
            carried |= tensor in masks
        if carried:
            masks.update(tensor for tensor in op.outputs if is_real(tensor))
    return masks


def _is_spread(graph: Graph, tensor: Tensor) -> bool:
    """Return whether a tensor, moved or not, is added to a larger one."""
    moved = [tensor]
    for held in moved:
        for op in graph.consumers(held):
            if _combines(op) and held.size < op.outputs[0].size:
                return True
            if traits(op).selects and op.inputs[0] is held:
                moved += op.outputs
    return False


def _combines(op: Op) -> bool:
    """Return whether an op adds, subtracts or compares two operands."""
    return traits(op).monotone == (0, 1) and single_name(op) not in _PRODUCTS


def _carries(op: Op, index: int) -> bool:
    """Return whether a result of an op rises or falls with its input at ``index``."""
    rule = traits(op)
    if rule.selects:
        return index == 0
    if op.package == HOST_PACKAGE:
        return op.type == "Where" and index in (1, 2)
    return index in rule.gathers or index in rule.monotone or rule.clamps


def _passes(op: Op, index: int, huge: set[Tensor]) -> bool:
    """Return whether a bound on the result also bounds the input at ``index``."""
    if not _carries(op, index):
        return False
    if single_name(op) not in _PRODUCTS:
        return True
    tensor, factor = op.inputs[index], op.inputs[1 - index]
    if factor is None or factor is tensor or (factor in huge and tensor in huge):
        return False
    if tensor in huge and single_name(op) == "ElementWiseMultiply":
        return True
    return factor.is_static and factor not in huge and is_scale(factor)


def is_scale(tensor: Tensor) -> bool:
    """Return whether all of a constant's values have one sign."""
    values = _range(tensor)
    return values.low > 0.0 or values.high < 0.0


def _is_sum(tensor: Tensor) -> bool:
    """Return whether a tensor is a sum or a selection of values.

    Moves and factors may follow these.
    """
    op = tensor.producer
    while (
        op is not None and op.inputs[0] is not None and (traits(op).selects or single_name(op) in _PRODUCTS)
    ):
        op = op.inputs[0].producer
    return op is not None and (_combines(op) or bool(traits(op).gathers))


def _range(tensor: Tensor) -> Range:
    return range_of(tensor.numpy())


def lowest_score(softmax: Op, peaks: Range, step: float) -> float:
    """Return the score below which elements add only a fraction of a step to a row.

    A place that is ``x`` below the largest score of its row gets at most ``exp(-x)`` of it.

    Args:
        peaks: Range of the largest scores of rows.
    """
    scores = softmax.outputs[0]
    axis = row_axis(softmax)
    places = _UNKNOWN_ROW if axis in scores.dynamic_axes else scores.shape[axis]
    tail = math.log(max(places, 1) / (NEGLIGIBLE * step)) / float(softmax.param("beta", 1.0))
    return max(peaks.low, LOWEST_PEAK) - tail


@dataclass
class MaskRanges:
    """The part of each tensor's range that affects a following Softmax.

    Where the input of the Softmax may end, so may the terms of a sum, each by the largest value that the
    others add, and through moves and factors what they come from.

    Args:
        useful: Range of a tensor that affects the Softmax that reads it.
        reach: Range of all values of a tensor; empty if it is not known.
    """

    graph: Graph
    masks: Masks
    useful: Callable[[Tensor, Op], Range]
    reach: Callable[[Tensor], Range]
    _flags: dict[Tensor, Range] = field(default_factory=dict)

    def held(self, tensor: Tensor, seen: Range) -> Range:
        """Return the range that a tensor's encoding must represent.

        Args:
            seen: Range of its values; that of a mask, or of a flag that one is multiplied by, is widened to
            what no sample may have shown.
        """
        limit = self.limits.get(tensor, EVERYTHING)  # which finds the flags too
        if tensor in self.masks.hiding and not seen.is_empty:
            for end in (limit.low, limit.high):
                seen = seen.merge(Range(end, end)) if math.isfinite(end) else seen
        return seen.cut(limit).merge(self._flags.get(tensor, NOTHING))

    @cached_property
    def limits(self) -> dict[Tensor, Range]:
        """Ranges of tensors outside of which their values do not affect results."""
        ends: dict[Tensor, Range] = {}
        for op in reversed(list(self.graph.ops)) if self.masks.paths else ():
            for index, tensor in enumerate(op.inputs):
                if tensor is not None and tensor in self.masks.paths:
                    ends[tensor] = ends.get(tensor, NOTHING).merge(self._through(op, index, tensor, ends))
        return ends

    def _through(self, op: Op, index: int, tensor: Tensor, ends: dict[Tensor, Range]) -> Range:
        """Return the part of the range of an op's input that affects results."""
        kind = single_name(op)
        if kind == "Softmax":
            return self.useful(tensor, op)
        limit = NOTHING
        for result in op.outputs:
            limit = limit.merge(ends.get(result, EVERYTHING))
        if kind == "ElementWiseNeg":
            return _negated(limit)
        if kind in ("ElementWiseMultiply", "ElementWiseDivide"):
            factor = op.inputs[1 - index]
            if factor is None:
                return EVERYTHING
            if factor.is_static and is_scale(factor):
                return _divided(limit, range_of(factor.numpy()), divides=kind == "ElementWiseDivide")
            return self._hidden(tensor, factor, limit)
        if kind not in ("ElementWiseAdd", "ElementWiseSubtract"):
            return limit
        other = op.inputs[1 - index]
        reach = NOTHING if other is None else self.reach(other)
        if reach.is_empty:
            return EVERYTHING
        if kind == "ElementWiseSubtract":
            if index == 1:
                limit = _negated(limit)
            reach = _negated(reach)
        return Range(limit.low - reach.high, limit.high - reach.low)

    def _hidden(self, mask: Tensor, flag: Tensor, limit: Range) -> Range:
        """Return the useful range of a mask that is multiplied by a flag.

        The flag is 1 or -1 where a place is hidden.
        """
        ends = [end for end in (limit.low, limit.high) if math.isfinite(end)]
        if not ends:
            return EVERYTHING
        values = range_of(mask.numpy()) if mask.is_static else Range(-1.0, 0.0)
        for end in ends:
            falls = (-values.low > values.high) is (end == limit.low)
            self._flags[flag] = self._flags.get(flag, NOTHING).merge(
                Range(0.0, 1.0) if falls else Range(-1.0, 0.0)
            )
        largest = FACTOR * max(abs(end) for end in ends)
        return Range(-largest, largest)


def _divided(limit: Range, factors: Range, *, divides: bool) -> Range:
    """Return the bounds of an operand whose product or quotient is bounded.

    The other operand has one sign.
    """
    if factors.high < 0.0:
        limit, factors = _negated(limit), _negated(factors)
    scales = [1.0 / end if divides else end for end in (factors.low, factors.high)]
    return Range(min(limit.low / scale for scale in scales), max(limit.high / scale for scale in scales))


def _negated(values: Range) -> Range:
    return Range(-values.high, -values.low)
