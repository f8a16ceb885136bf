"""Lifting of scalar graph inputs and outputs to rank 1, the least that HTP has."""

from __future__ import annotations

from dataclasses import dataclass

from xdlc import ir
from xdlc.ir import Graph, Op, Tensor
from xdlc.opdefs.traits import traits
from xdlc.passes.base import graph_pass


@graph_pass(stage="htp", after=("copy_identities",))
@dataclass(frozen=True, slots=True)
class LiftScalarIo:
    """Turn inputs and outputs of shape [] into ones of shape [1], which are the same bytes.

    Attributes:
        name: Name of the pass.
    """

    name: str = "lift_scalar_io"

    def apply(self, graph: Graph) -> bool:
        """Rewrite ``graph`` and return whether anything changed."""
        found = [tensor for tensor in (*graph.inputs, *graph.outputs) if _is_liftable(graph, tensor)]
        for tensor in found:
            tensor.shape = (1,)
        return bool(found)


def _is_liftable(graph: Graph, tensor: Tensor) -> bool:
    ops = [*graph.consumers(tensor), *([tensor.producer] if tensor.producer is not None else [])]
    return not tensor.rank and all(map(_is_indifferent, ops))


def _is_indifferent(op: Op) -> bool:
    """Return whether an op reads or writes the same element under any shape of one element."""
    if op.package == ir.HOST_PACKAGE:
        return op.type == "Reinterpret"
    return op.package == ir.NATIVE_PACKAGE and (traits(op).recodes or op.type in ("Reshape", "Cast"))
