"""Merging of consecutive and equal Transposes and Reshapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdlc import ir
from xdlc.ir import Encoding, Graph, Op, Tensor
from xdlc.passes.base import graph_pass

_VIEWS = ("Transpose", "Reshape")


@graph_pass(stage="converter", after=("fold_affine",), op_types=("Reshape", "Transpose"))
@dataclass(frozen=True, slots=True)
class MergeViews:
    """Join neighbouring Transposes and Reshapes, and equal ones; drop no-ops.

    A Reshape to the shape that the tensor has already is the tensor itself.
    """

    name: str = "merge_views"

    def apply(self, graph: Graph) -> bool:
        """Rewrite ``graph`` and return whether anything changed."""
        views = [op for op in graph.ops if op.type in _VIEWS and op.package == ir.NATIVE_PACKAGE]
        shared = _share(graph, views)
        results = [_simplify(graph, op) for op in views if op.graph is not None]
        return shared or any(results)


def _share(graph: Graph, views: Sequence[Op]) -> bool:
    """Let readers of a view read the first equal one; return whether any does."""
    first: dict[tuple[Tensor | None, tuple[int, ...], tuple[int, ...], Encoding | None], Tensor] = {}
    changed = False
    for op in views:
        result = op.outputs[0]
        perm = tuple(int(axis) for axis in op.param("perm", ()))
        if isinstance(result.encoding, ir.AxisScaleOffset):
            continue
        made = first.setdefault((op.inputs[0], perm, result.shape, result.encoding), result)
        if made is not result and made.dtype is result.dtype and not graph.is_output(result):
            graph.replace(result, made)
            graph.remove(op)
            changed = True
    return changed


def _simplify(graph: Graph, op: Op) -> bool:
    source, result = op.inputs[0], op.outputs[0]
    if source is None or source.is_static:
        return False
    if _keeps_all(op, source, result) and graph.bypass(op):
        return True
    before = source.producer
    if before is None or before.type not in _VIEWS or before.package != ir.NATIVE_PACKAGE:
        return False
    first = before.inputs[0]
    if first is None or first.is_static:
        return False
    if op.type == "Reshape" and (before.type == "Reshape" or _moves_nothing(before, first)):
        graph.set_inputs(op, [first])
        op.origin = op.origin.merged(before.origin)
        return _drop_unread(graph, before)
    if op.type == before.type == "Transpose":
        import numpy

        perm = numpy.asarray(before.param("perm"))[op.param("perm")]
        joined = ir.static(f"{op.name}_perm", perm.astype(numpy.uint32))
        op.params["perm"] = joined
        graph.set_inputs(op, [first])
        op.origin = op.origin.merged(before.origin)
        return _drop_unread(graph, before)
    return False


def _drop_unread(graph: Graph, op: Op) -> bool:
    if not graph.consumers(op.outputs[0]) and not graph.is_output(op.outputs[0]):
        graph.remove(op)
    return True


def _moves_nothing(op: Op, source: Tensor) -> bool:
    """Return whether a Transpose moves axes of size 1 only."""
    moving = [int(axis) for axis in op.param("perm") if source.shape[axis] != 1]
    return moving == sorted(moving)


def _keeps_all(op: Op, source: Tensor, result: Tensor) -> bool:
    if source.dtype is not result.dtype or source.encoding != result.encoding or source.shape != result.shape:
        return False
    if op.type == "Reshape":
        return True
    return [int(axis) for axis in op.param("perm")] == list(range(source.rank))
