"""Removal of products with one and sums with zero."""

from __future__ import annotations

from dataclasses import dataclass

import numpy

from xdlc.ir import Graph, Op, Tensor
from xdlc.opdefs.elementwise_enums import ADD, DIVIDE, MULTIPLY, SUBTRACT
from xdlc.passes._match import is_binary
from xdlc.passes.base import graph_pass

_NEUTRAL = {ADD: 0, SUBTRACT: 0, MULTIPLY: 1, DIVIDE: 1}
_LARGEST = 1 << 16


@graph_pass(stage="converter", op_types=("ElementWiseBinary",))
@dataclass(frozen=True, slots=True)
class DropNeutral:
    """Drop ``x * 1``, ``x / 1``, ``x + 0`` and ``x - 0`` of floats, unless their result is an output."""

    name: str = "drop_neutral"

    def apply(self, graph: Graph) -> bool:
        results = [_drop(graph, op) for op in graph.ops if op.type == "ElementWiseBinary"]
        return any(results)


def _drop(graph: Graph, op: Op) -> bool:
    result = op.outputs[0]
    if graph.is_output(result) or not result.dtype.is_float or result.encoding is not None:
        return False
    for operation, neutral in _NEUTRAL.items():
        if not is_binary(op, operation):
            continue
        pairs = (op.inputs, op.inputs[::-1]) if operation in (ADD, MULTIPLY) else (op.inputs,)
        for source, other in pairs:
            if source is None or source.is_static or source.encoding is not None or source.dynamic_axes:
                continue
            if source.shape == result.shape and source.dtype is result.dtype and _is_all(other, neutral):
                graph.replace(result, source)
                graph.remove(op)
                return True
    return False


def _is_all(tensor: Tensor | None, value: int) -> bool:
    if tensor is None or tensor.data is None or tensor.encoding is not None or tensor.size > _LARGEST:
        return False
    return bool(numpy.all(tensor.numpy() == value))
