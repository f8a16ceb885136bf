"""Fusion of a reduction with the Reshape that brings its axes back."""

from __future__ import annotations

from dataclasses import dataclass

from xdlc import ir
from xdlc.ir import Graph, Op
from xdlc.passes.base import graph_pass


@graph_pass(stage="converter", after=("merge_views",), op_types=("Reshape",))
@dataclass(frozen=True, slots=True)
class KeepReducedAxes:
    """Let a reduction keep its axes where a Reshape brings them back."""

    name: str = "keep_reduced_axes"

    def apply(self, graph: Graph) -> bool:
        results = [_fuse(graph, op) for op in list(graph.ops) if op.type.startswith("Reduce")]
        return any(results)


def _fuse(graph: Graph, op: Op) -> bool:
    source, reduced = op.inputs[0], op.outputs[0]
    if op.package != ir.NATIVE_PACKAGE or source is None or op.param("keep_dims", False):
        return False
    view = graph.sole_consumer(reduced)
    if view is None or view.type != "Reshape" or view.package != ir.NATIVE_PACKAGE:
        return False
    axes = {int(axis) for axis in op.param("axes", range(source.rank))}
    result = view.outputs[0]
    kept = tuple(1 if axis in axes else dim for axis, dim in enumerate(source.shape))
    if result.shape != kept or result.encoding != reduced.encoding or source.dynamic_axes:
        return False
    graph.unlink(view)
    graph.set_output(op, 0, result)
    op.params["keep_dims"] = ir.b8(True)
    op.origin = op.origin.merged(view.origin)
    return True
