"""Removal of operands without elements, which HTP does not support."""

from __future__ import annotations

from dataclasses import dataclass

import numpy

from xdlc import ir
from xdlc.ir import Graph, Op
from xdlc.passes.base import graph_pass


@graph_pass(stage="htp", op_types=("Concat", "MatMul"))
@dataclass(frozen=True, slots=True)
class SkipEmpty:
    """Join only operands with elements; write zeros for empty matrix products."""

    name: str = "skip_empty"

    def apply(self, graph: Graph) -> bool:
        """Rewrite ``graph`` and return whether anything changed."""
        changed = [_rewrite(graph, op) for op in list(graph.ops) if op.package == ir.NATIVE_PACKAGE]
        if any(changed):
            graph.prune()
        return any(changed)


def _rewrite(graph: Graph, op: Op) -> bool:
    full = [tensor for tensor in op.inputs if tensor is not None and tensor.size]
    result = op.outputs[0]
    if len(full) == len(op.inputs) or not result.size or result.dynamic_axes:
        return False
    if op.type == "Concat":
        graph.set_inputs(op, full)
    elif op.type == "MatMul" and len(op.inputs) == 2 and result.dtype.is_float:
        zeros = ir.static(
            graph.unique_name(f"{op.name}_zeros"), numpy.zeros(result.shape, result.dtype.numpy)
        )
        graph.replace_op(op, Op("Reshape", [zeros], [result], name=op.name, origin=op.origin))
    else:
        return False
    return True
