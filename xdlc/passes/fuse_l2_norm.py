"""Fusion of L2Norm of the last axis, written out with a sum of squares."""

from __future__ import annotations

from dataclasses import dataclass

from xdlc import ir
from xdlc.ir import Graph, Op
from xdlc.opdefs.elementwise_enums import MAXIMUM, RSQRT, SQRT
from xdlc.passes._match import (
    NORM_RANKS,
    constant_number,
    is_binary,
    is_native,
    is_reduction,
    replace_by,
    squared,
)
from xdlc.passes._polynomial import agrees, reached, terms
from xdlc.passes.base import graph_pass


@graph_pass(stage="converter", after=("fuse_layer_norm",), op_types=("ElementWiseUnary",))
@dataclass(frozen=True, slots=True)
class FuseL2Norm:
    """Turn ``x / sqrt(max(sum(x^2), epsilon))`` into L2Norm."""

    name: str = "fuse_l2_norm"

    def apply(self, graph: Graph) -> bool:
        results = [_fuse(graph, op) for op in list(graph.ops) if op.type == "ElementWiseUnary"]
        return any(results)


def _fuse(graph: Graph, root: Op) -> bool:
    is_inverted = is_native(root, "ElementWiseUnary", RSQRT)
    if not is_inverted and not is_native(root, "ElementWiseUnary", SQRT):
        return False
    floored = root.inputs[0].producer if root.inputs[0] is not None else None
    if floored is None or not is_binary(floored, MAXIMUM):
        return False
    for power, least in (floored.inputs, floored.inputs[::-1]):
        epsilon, total = constant_number(least), power.producer if power is not None else None
        if epsilon is None or epsilon <= 0 or not is_reduction(total, "ReduceSum") or total is None:
            continue
        source = squared(total.inputs[0])
        if source is None or source.encoding is not None or source.rank not in NORM_RANKS:
            return False
        size = root.outputs[0]
        for last in reached(graph, size):
            read = terms(last.outputs[0], [source, size] if is_inverted else [source], size)
            if agrees(read, {(0, 1): 1.0}) and last.outputs[0].shape == source.shape:
                params: dict[str, ir.Param] = {"axis": ir.u32(source.rank - 1), "epsilon": ir.f32(epsilon)}
                replace_by(graph, last, "L2Norm", [source], params, name=f"{root.name}_norm")
                return True
    return False
