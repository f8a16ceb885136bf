"""Fusion of L2Norm of the last axis, written out with a sum of squares."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdlc import ir
from xdlc.ir import Graph, Op, Tensor
from xdlc.opdefs.elementwise_enums import MAXIMUM, MINIMUM, RSQRT, SQRT
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

_LEAST = 1.2e-38  # of normal numbers of float32


@graph_pass(stage="converter", after=("fuse_layer_norm",), op_types=("ElementWiseUnary",))
@dataclass(frozen=True, slots=True)
class FuseL2Norm:
    """Turn a value divided by the root of its sum of squares into L2Norm.

    The forms are ``x / sqrt(max(sum(x^2), epsilon))`` and ``x * min(1 / sqrt(sum(x^2)),
    limit)``.

    The root may be compared instead of the sum: ``x / max(sqrt(sum(x^2)), limit)``.
    """

    name: str = "fuse_l2_norm"

    def apply(self, graph: Graph) -> bool:
        results = [_fuse(graph, op) for op in list(graph.ops) if op.type == "ElementWiseUnary"]
        return any(results)


def _fuse(graph: Graph, root: Op) -> bool:
    is_inverted = is_native(root, "ElementWiseUnary", RSQRT)
    if not is_inverted and not is_native(root, "ElementWiseUnary", SQRT):
        return False
    power, size = root.inputs[0], root.outputs[0]
    floored, epsilon = _bounded(power.producer if power is not None else None, MAXIMUM)
    if floored is None:
        bound = graph.sole_consumer(size)
        bounded, limit = _bounded(bound, MINIMUM if is_inverted else MAXIMUM)
        if bound is None or bounded is not size or limit <= 0:
            return False
        floored, epsilon, size = power, limit**2.0 if not is_inverted else limit**-2.0, bound.outputs[0]
    total = floored.producer if floored is not None else None
    if total is None or not is_reduction(total, "ReduceSum") or not _LEAST < epsilon < math.inf:
        return False
    source = squared(total.inputs[0])
    if source is None or source.encoding is not None or source.rank not in NORM_RANKS:
        return False
    for last in reached(graph, size):
        read = terms(last.outputs[0], [source, size] if is_inverted else [source], size)
        if agrees(read, {(0, 1): 1.0}) and last.outputs[0].shape == source.shape:
            params: dict[str, ir.Param] = {"axis": ir.u32(source.rank - 1), "epsilon": ir.f32(epsilon)}
            replace_by(graph, last, "L2Norm", [source], params, name=f"{root.name}_norm")
            return True
    return False


def _bounded(op: Op | None, operation: int) -> tuple[Tensor | None, float]:
    """Return what Maximum or Minimum compares with a number, and the number."""
    if op is not None and is_binary(op, operation):
        for tensor, other in (op.inputs, op.inputs[::-1]):
            number = constant_number(other)
            if number is not None:
                return tensor, number
    return None, 0.0
