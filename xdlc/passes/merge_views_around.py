"""Merging of Reshapes before and after an element-wise op."""

from __future__ import annotations

from dataclasses import dataclass

from xdlc import ir
from xdlc.ir import Graph, Op, Tensor
from xdlc.opdefs.traits import traits
from xdlc.passes.base import graph_pass


@graph_pass(stage="converter", after=("merge_views",), op_types=("Reshape",))
@dataclass(frozen=True, slots=True)
class MergeViewsAround:
    """Compute ``Reshape(f(Reshape(x)))`` as ``Reshape(f(x))``, if f works element by element."""

    name: str = "merge_views_around"

    def apply(self, graph: Graph) -> bool:
        results = [_move(graph, op) for op in list(graph.ops) if traits(op).elementwise]
        return any(results)


def _is_reshape(op: Op | None) -> bool:
    return op is not None and op.type == "Reshape" and op.package == ir.NATIVE_PACKAGE


def _move(graph: Graph, op: Op) -> bool:
    computed = [tensor for tensor in op.inputs if tensor is not None and not tensor.is_static]
    if op.package != ir.NATIVE_PACKAGE or len(computed) != 1:
        return False
    flat, result = computed[0], op.outputs[0]
    before, after = flat.producer, graph.sole_consumer(result)
    if before is None or after is None or not _is_reshape(before) or not _is_reshape(after):
        return False
    source = before.inputs[0]
    if source is None or source.is_static or not source.rank or graph.sole_consumer(flat) is not op:
        return False
    if flat.shape != result.shape or source.encoding != flat.encoding or source.dynamic_axes:
        return False
    if not all(tensor is flat or _suits(tensor, flat, source) for tensor in op.inputs):
        return False
    result.shape = source.shape
    graph.set_inputs(op, [source if tensor is flat else tensor for tensor in op.inputs])
    after.origin = before.origin.merged(after.origin)
    graph.remove(before)
    return True


def _suits(tensor: Tensor | None, flat: Tensor, source: Tensor) -> bool:
    """Return whether a constant is a number, or has values per channel of both shapes."""
    if tensor is None or tensor.size == 1:
        return tensor is None or tensor.rank <= source.rank
    return tensor.shape == flat.shape[-1:] == source.shape[-1:]
