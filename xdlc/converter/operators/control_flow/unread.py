"""Removal of operands of If and While that their graphs do not read, after the passes."""

from __future__ import annotations

import collections

from xdlc import ir
from xdlc.opdefs.control_flow import IF, Loop, called, is_control_flow


def drop_unread(model: ir.Model) -> None:
    """Drop the operands that none of an op's graphs reads, and the ops that computed only these.

    The values that a loop hands from iteration to iteration stay.
    """
    callers = collections.Counter(
        name for graph in model.graphs.values() for op in graph.ops for name in called(op)
    )
    dropped = True
    while dropped:
        dropped = False
        for graph in model.graphs.values():
            for op in graph.ops:
                if is_control_flow(op) and all(callers[name] == 1 for name in called(op)):
                    dropped = _drop_from(graph, op, [model.graphs[name] for name in called(op)]) or dropped
            if dropped:
                graph.prune()


def _drop_from(graph: ir.Graph, op: ir.Op, inner: list[ir.Graph]) -> bool:
    """Drop the operands of one op that its graphs do not read; return whether there are any."""
    before = 1 if op.type == IF else 0  # the condition is no input of the graphs
    kept_anyway = 0 if op.type == IF else Loop.of(op, inner[1]).carried
    unread = [
        position
        for position in range(kept_anyway, len(op.inputs) - before)
        if all(_is_unread(each, each.inputs[position]) for each in inner)
    ]
    if not unread:
        return False
    gone = set(unread)
    for each in inner:
        for position in unread:
            del each.tensors[each.inputs[position].name]
        each.inputs = [tensor for position, tensor in enumerate(each.inputs) if position not in gone]
    kept = [tensor for position, tensor in enumerate(op.inputs) if position - before not in gone]
    graph.set_inputs(op, kept)
    return True


def _is_unread(graph: ir.Graph, tensor: ir.Tensor) -> bool:
    return not graph.consumers(tensor) and not graph.is_output(tensor)
