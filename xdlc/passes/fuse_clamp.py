"""Fusion of consecutive clamps into one."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdlc import ir
from xdlc.ir import Graph, Op, Tensor
from xdlc.ir.dtype import FLOAT32
from xdlc.opdefs.elementwise_enums import MAXIMUM, MINIMUM, RELU, RELU_MIN_MAX
from xdlc.passes._match import constant_number, is_native, replace_by
from xdlc.passes.base import graph_pass


@graph_pass(stage="converter", op_types=("ElementWiseBinary", "ElementWiseNeuron"))
@dataclass(frozen=True, slots=True)
class FuseClamp:
    """Join two clamps into one ReluMinMax.

    Clamps are Minimum and Maximum with a number, Relu and ReluMinMax.
    """

    name: str = "fuse_clamp"

    def apply(self, graph: Graph) -> bool:
        results = [_fuse(graph, op) for op in graph.ops]
        return any(results)


def _fuse(graph: Graph, last: Op) -> bool:
    outer = _clamp(last)
    first = outer[0].producer if outer is not None else None
    inner = _clamp(first) if first is not None else None
    if outer is None or first is None or inner is None or graph.sole_consumer(outer[0]) is not last:
        return False
    (_, floor, ceiling), (source, low, high) = outer, inner
    if not floor <= ceiling or not low <= high:
        return False
    low, high = (min(max(bound, floor), ceiling) for bound in (low, high))
    params = {"operation": ir.u32(RELU)}
    if (low, high) != (0.0, math.inf):
        low, high = max(low, -FLOAT32.largest), min(high, FLOAT32.largest)
        params = {"operation": ir.u32(RELU_MIN_MAX), "min_value": ir.f32(low), "max_value": ir.f32(high)}
    replace_by(graph, last, "ElementWiseNeuron", [source], params, name=f"{last.name}_clamp")
    if not graph.consumers(first.outputs[0]) and not graph.is_output(first.outputs[0]):
        graph.remove(first)  # now: of a long chain, each would hold the origins of all before it
    return True


def _clamp(op: Op) -> tuple[Tensor, float, float] | None:
    """Return what a float clamp reads, and its limits."""
    source, result = op.inputs[0] if op.inputs else None, op.outputs[0]
    if source is None or not result.dtype.is_float or result.dtype.bits > 32 or result.encoding is not None:
        return None
    if is_native(op, "ElementWiseNeuron", RELU):
        return source, 0.0, math.inf
    if is_native(op, "ElementWiseNeuron", RELU_MIN_MAX):
        return source, op.param("min_value"), op.param("max_value")
    for operation in (MAXIMUM, MINIMUM):
        if is_native(op, "ElementWiseBinary", operation):
            for held, other in (op.inputs, op.inputs[::-1]):
                number = constant_number(other)
                if number is not None and held is not None and held.shape == result.shape:
                    return (held, number, math.inf) if operation == MAXIMUM else (held, -math.inf, number)
    return None
