"""Tensors that HTP does not support: scalars, empty tensors, and copies."""

from __future__ import annotations

import numpy

from xdlc import ir
from xdlc.ir import Graph, Op, Tensor
from xdlc.opdefs.traits import traits
from xdlc.passes._match import turn_into
from xdlc.passes.base import graph_pass, op_pass


@op_pass("Identity", stage="htp", package=ir.HOST_PACKAGE)
def copy_identities(graph: Graph, op: Op) -> bool:
    """Turn Identity of package xdlc into Reshape.

    Importers write it in graphs without inputs, which the vendor's reader of DLCs refuses; HTP compiles
    them.  The Reshape of a tensor of dynamic shape stays on the host.
    """
    source = op.inputs[0] if op.inputs else None
    if source is None or source.dynamic_axes or op.outputs[0].dynamic_axes:
        return False
    turn_into(graph, op, "Reshape")
    return True


@graph_pass(stage="htp", after=("copy_identities",))
def lift_scalar_io(graph: Graph) -> bool:
    """Change tensors of shape [] to shape [1]."""
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


@graph_pass(stage="htp", needs=("Concat", "MatMul"))
def skip_empty(graph: Graph) -> bool:
    """Join only operands with elements; write zeros for empty matrix products."""
    changed = [_rewrite(graph, op) for op in list(graph.ops) if op.package == ir.NATIVE_PACKAGE]
    if any(changed):
        graph.prune()
    return any(changed)


def _rewrite(graph: Graph, op: Op) -> bool:
    full = [tensor for tensor in op.inputs if tensor is not None and tensor.size]
    result = op.outputs[0]
    if len(full) == len(op.inputs) or not result.size or result.dynamic_axes:
        return False
    if op.type == "Concat":
        graph.set_inputs(op, full)
    elif op.type == "MatMul" and len(op.inputs) == 2 and result.dtype.is_float:
        zeros = ir.static(
            graph.unique_name(f"{op.name}_zeros"), numpy.zeros(result.shape, result.dtype.numpy)
        )
        turn_into(graph, op, "Reshape", [zeros])
    else:
        return False
    return True
