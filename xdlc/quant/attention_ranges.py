"""Ranges of attention masks and scores that affect the Softmax."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

from xdlc.ir import Graph, Op, Tensor
from xdlc.quant.attention_masks import LOWEST_PEAK, Masks, is_scale, row_axis
from xdlc.quant.effective_range import EVERYTHING, NEGLIGIBLE
from xdlc.quant.op_specs import single_name
from xdlc.quant.ranges import NOTHING, Range, range_of

FACTOR = 64.0
"""How far a factor reaches beyond what its products have to: flags of 1/64 hide a place."""

_UNKNOWN_ROW = 1024
"""Places of a row whose number is open."""


def lowest_score(softmax: Op, peaks: Range, step: float) -> float:
    """Return the score below which all places of any row together give less than a part of a step.

    A place that is ``x`` below the largest score of its row gets at most ``exp(-x)`` of it.

    Args:
        softmax: An op that is a Softmax.
        peaks: Range of the largest scores of rows.
        step: Step of its result.
    """
    scores = softmax.outputs[0]
    axis = row_axis(softmax)
    places = _UNKNOWN_ROW if axis in scores.dynamic_axes else scores.shape[axis]
    tail = math.log(max(places, 1) / (NEGLIGIBLE * step)) / float(softmax.param("beta", 1.0))
    return max(peaks.low, LOWEST_PEAK) - tail


class MaskRanges:
    """The part of each tensor's range that affects a Softmax after it.

    Where the input of the Softmax may end, so may the terms of a sum, each by the largest value that the
    others add, and through moves and factors what they come from.

    Args:
        graph: The graph.
        masks: Its masks.
        useful: Range of a tensor that affects the Softmax that reads it.
        reach: Range of all values of a tensor; empty if it is not known.
    """

    def __init__(
        self,
        graph: Graph,
        masks: Masks,
        useful: Callable[[Tensor, Op], Range],
        reach: Callable[[Tensor], Range],
    ) -> None:
        self._graph = graph
        self._masks = masks
        self._useful = useful
        self._reach = reach
        self._flags: dict[Tensor, Range] = {}

    def of(self, tensor: Tensor) -> Range:
        """Return the range outside of which a tensor's values make no difference."""
        return self._limits.get(tensor, EVERYTHING)

    def held(self, tensor: Tensor, seen: Range) -> Range:
        """Return the range that the encoding of a tensor has to hold.

        Args:
            tensor: An activation or a constant.
            seen: Range of its values; that of a mask, or of a flag that one is multiplied by, is widened to
            what no sample may have shown.
        """
        limit = self.of(tensor)  # which finds the flags too
        if tensor in self._masks.hiding and not seen.is_empty:
            for end in (limit.low, limit.high):
                seen = seen.merge(Range(end, end)) if math.isfinite(end) else seen
        return seen.cut(limit).merge(self._flags.get(tensor, NOTHING))

    @cached_property
    def _limits(self) -> dict[Tensor, Range]:
        found: dict[Tensor, Range] = {}
        for op in reversed(list(self._graph.ops)) if self._masks.paths else ():
            for index, tensor in enumerate(op.inputs):
                if tensor is not None and tensor in self._masks.paths:
                    found[tensor] = found.get(tensor, NOTHING).merge(self._through(op, index, tensor, found))
        return found

    def _through(self, op: Op, index: int, tensor: Tensor, found: dict[Tensor, Range]) -> Range:
        """Return the range of the input at ``index`` that affects an op."""
        kind = single_name(op)
        if kind == "Softmax":
            return self._useful(tensor, op)
        limit = NOTHING
        for result in op.outputs:
            limit = limit.merge(found.get(result, EVERYTHING))
        if kind == "ElementWiseNeg":
            return _negative(limit)
        if kind in ("ElementWiseMultiply", "ElementWiseDivide"):
            factor = op.inputs[1 - index]
            if factor is None:
                return EVERYTHING
            if factor.is_static and is_scale(factor):
                return _scaled(limit, range_of(factor.numpy()), divides=kind == "ElementWiseDivide")
            return self._hidden(tensor, factor, limit)
        if kind not in ("ElementWiseAdd", "ElementWiseSubtract"):
            return limit
        other = op.inputs[1 - index]
        reach = NOTHING if other is None else self._reach(other)
        if reach.is_empty:
            return EVERYTHING
        if kind == "ElementWiseSubtract":
            if index == 1:
                limit = _negative(limit)
            reach = _negative(reach)
        return Range(limit.low - reach.high, limit.high - reach.low)

    def _hidden(self, mask: Tensor, flag: Tensor, limit: Range) -> Range:
        """Return the limit of a mask that is multiplied by a flag: 1 or -1 where a place is hidden."""
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


def _scaled(limit: Range, factors: Range, *, divides: bool) -> Range:
    """Return the limit of what is multiplied, or divided, by factors of one sign."""
    if factors.high < 0.0:
        limit, factors = _negative(limit), _negative(factors)
    scales = [1.0 / end if divides else end for end in (factors.low, factors.high)]
    return Range(min(limit.low / scale for scale in scales), max(limit.high / scale for scale in scales))


def _negative(values: Range) -> Range:
    return Range(-values.high, -values.low)
