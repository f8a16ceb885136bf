"""Lifting of scalars to rank 1, the least that HTP has."""

from __future__ import annotations

from dataclasses import dataclass

from xdlc import ir
from xdlc.ir import Graph, Op, Tensor
from xdlc.opdefs.traits import traits
from xdlc.passes.base import graph_pass


@graph_pass(stage="htp", after=("copy_identities",))
@dataclass(frozen=True, slots=True)
class LiftScalarIo:
    """Turn tensors of shape [] into ones of shape [1]."""

    name: str = "lift_scalar_io"

    def apply(self, graph: Graph) -> bool:
        """Rewrite ``graph`` and return whether anything changed."""
        found = {tensor for tensor in graph.tensors.values() if not tensor.rank}
        while kept := {tensor for tensor in found if _is_liftable(graph, tensor, found)}:
            if kept == found:
                break
            found = kept
        for tensor in kept:
            tensor.shape = (1,)
            if tensor.data is not None:
                tensor.data = tensor.data.reshape((1,))
        return bool(kept)


def _is_liftable(graph: Graph, tensor: Tensor, lifted: set[Tensor]) -> bool:
    ops = [*graph.consumers(tensor), *([tensor.producer] if tensor.producer is not None else [])]
    return all(_is_indifferent(op, lifted) for op in ops)


def _is_indifferent(op: Op, lifted: set[Tensor]) -> bool:
    """Return whether an op works alike for any shape of one element."""
    if op.package == ir.HOST_PACKAGE:
        return op.type == "Reinterpret"
    if op.package != ir.NATIVE_PACKAGE:
        return False
    if traits(op).elementwise:
        return all(result.rank or result in lifted for result in op.outputs)
    return traits(op).recodes or op.type in ("Reshape", "Cast")
