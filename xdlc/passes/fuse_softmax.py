"""Fusion of Softmax of the last axis, written out with exponentials."""

from __future__ import annotations

from dataclasses import dataclass

from xdlc import ir
from xdlc.ir import Graph, Op, Tensor
from xdlc.opdefs.elementwise_enums import EXP, SUBTRACT
from xdlc.passes._match import is_binary, is_native, is_reduction, replace_by
from xdlc.passes._polynomial import agrees, reached, terms
from xdlc.passes.base import graph_pass


@graph_pass(stage="converter", op_types=("ReduceSum",))
@dataclass(frozen=True, slots=True)
class FuseSoftmax:
    """Turn ``exp(x - max(x)) / sum(exp(x - max(x)))`` into Softmax."""

    name: str = "fuse_softmax"

    def apply(self, graph: Graph) -> bool:
        results = [_fuse(graph, op) for op in list(graph.ops) if is_reduction(op, "ReduceSum")]
        return any(results)


def _fuse(graph: Graph, total: Op) -> bool:
    power = total.inputs[0]
    source = _exponent(power)
    if power is None or source is None or source.encoding is not None or not source.dtype.is_float:
        return False
    for last in reached(graph, total.outputs[0]):
        result = last.outputs[0]
        if result.shape == source.shape and agrees(terms(result, [power], total.outputs[0]), {(0, 1): 1.0}):
            params: dict[str, ir.Param] = {"axis": ir.u32(source.rank - 1), "beta": ir.f32(1.0)}
            replace_by(graph, last, "Softmax", [source], params, name=f"{total.name}_softmax")
            return True
    return False


def _exponent(power: Tensor | None) -> Tensor | None:
    """Return x if ``power`` is exp(x - max(x)), the greatest of the last axis."""
    op = power.producer if power is not None else None
    if op is None or not is_native(op, "ElementWiseUnary", EXP) or op.inputs[0] is None:
        return None
    less = op.inputs[0].producer
    if less is None or not is_binary(less, SUBTRACT):
        return None
    source, most = less.inputs
    top = most.producer if most is not None else None
    return source if is_reduction(top, "ReduceMax") and top is not None and top.inputs[0] is source else None
