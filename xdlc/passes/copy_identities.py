"""Copies that only the host has as the Reshape that HTP has for them."""

from __future__ import annotations

from dataclasses import dataclass

from xdlc import ir
from xdlc.ir import Graph, Op
from xdlc.passes.base import graph_pass


@graph_pass(stage="htp")
@dataclass(frozen=True, slots=True)
class CopyIdentities:
    """Turn Identity of package xdlc into Reshape.

    Importers write it in graphs without inputs, which the vendor's reader of DLCs refuses; HTP compiles
    them.  The Reshape of a tensor of dynamic shape stays on the host.
    """

    name: str = "copy_identities"

    def apply(self, graph: Graph) -> bool:
        """Rewrite ``graph`` and return whether anything changed."""
        found = [op for op in graph.ops if _is_copy(op)]
        for op in found:
            graph.replace_op(op, Op("Reshape", op.inputs, op.outputs, name=op.name, origin=op.origin))
        return bool(found)


def _is_copy(op: Op) -> bool:
    source = op.inputs[0] if op.inputs else None
    if op.package != ir.HOST_PACKAGE or op.type != "Identity" or source is None:
        return False
    return not source.dynamic_axes and not op.outputs[0].dynamic_axes
