"""Ops that HTP's library computes wrongly or does not support, in equal forms."""

from __future__ import annotations

from xdlc.ir import Graph, Op, Tensor
from xdlc.passes._writing import Writer
from xdlc.passes.base import graph_pass
from xdlc.passes.htp_forms.registry import forms


@graph_pass(stage="htp", after=("cast_reinterpreted",))
def avoid_faults(graph: Graph) -> bool:
    """Rewrite ops by their forms for HTP; docs/htp-faults.md lists them."""
    rewritten = [_rewrite(graph, op) for op in list(graph.ops)]
    return any(rewritten)


def _rewrite(graph: Graph, op: Op) -> bool:
    """Apply the first form that fits an op, and return whether there is one."""
    source = _plain_source(op)
    if source is None:
        return False
    return any(form(Writer(graph, op, reason), op, source) for reason, form in forms(op))


def _plain_source(op: Op) -> Tensor | None:
    """Return input 0 of an op of known shapes."""
    tensors = [tensor for tensor in (*op.inputs, *op.outputs) if tensor is not None]
    if any(tensor.dynamic_axes for tensor in tensors):
        return None
    return op.inputs[0] if op.inputs else None
