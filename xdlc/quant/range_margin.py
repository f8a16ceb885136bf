"""One bit of sixteen for values that calibration did not see.

A step of 16 bits is far below what 8-bit weights cost, but a value beyond the range is off by as much
as it pleases: a few samples never hold the largest values there are.
"""

from __future__ import annotations

from xdlc.ir import Graph, Tensor
from xdlc.quant.op_specs import rule_of, single_name
from xdlc.quant.ranges import Range

HEADROOM = 2.0
"""How much farther from zero the ends are than those of the values that were seen."""

_MAGNIFIES = ("ElementWiseSquareRoot", "ElementWiseLog", "ElementWiseRsqrt")
_PASSES_ON = ("ElementWiseAdd", "ReduceSum", "ReduceMean", "PoolAvg2d", "ReduceMax")
_BOUNDED = ("Relu1", "Relu6", "ReluMinMax")


def with_headroom(graph: Graph, tensor: Tensor, seen: Range) -> Range:
    """Return the range of a tensor widened by ``HEADROOM``, where that does more good than harm.

    An end at or beyond zero stays there, as behind a Relu; the op's own bounds are no place for more.
    Where all readers take a square root or logarithm, behind sums perhaps, small values matter most: a wider
    step would cost them more than large values gain.
    """
    producer = tensor.producer
    if seen.is_empty or (producer is not None and single_name(producer) in _BOUNDED):
        return seen
    if _is_magnified(graph, tensor, set()):
        return seen
    return Range(
        seen.low * HEADROOM if seen.low < 0.0 else seen.low,
        seen.high * HEADROOM if seen.high > 0.0 else seen.high,
    )


def _is_magnified(graph: Graph, tensor: Tensor, visited: set[Tensor]) -> bool:
    if tensor in visited:
        return True  # what is not magnified ends the search, so this one is so far
    visited.add(tensor)
    readers = graph.consumers(tensor)
    if graph.is_output(tensor) or not readers:
        return False
    for op in readers:
        rule = rule_of(op)
        if single_name(op) in _MAGNIFIES:
            continue
        passes_on = single_name(op) in _PASSES_ON or (rule is not None and rule.selects)
        if not passes_on or not all(_is_magnified(graph, result, visited) for result in op.outputs):
            return False
    return True
