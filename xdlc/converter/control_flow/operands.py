"""Operands of If and While after the import: layouts, and unread ones."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from dataclasses import replace

from xdlc import ir
from xdlc.opdefs.control_flow import IF, WHILE, Graphs, Loop, called, is_control_flow

_REASON = "the loop reads its operand in another layout"


def callees_first(graphs: Graphs) -> list[ir.Graph]:
    """Return graphs in an order with called graphs before their callers."""
    ordered: list[ir.Graph] = []
    seen: set[str] = set()

    def add(name: str) -> None:
        if name in graphs and name not in seen:
            seen.add(name)
            for op in graphs[name].ops:
                for inner in called(op):
                    add(inner)
            ordered.append(graphs[name])

    for name in graphs:
        add(name)
    return ordered


def transpose_outside(graph: ir.Graph, graphs: Graphs) -> None:
    """Move Transposes of operands and of their next values out of loops.

    An operand moves if all that the body does with it is one permutation, the condition does not read it,
    and the body permutes its next value back.

    Args:
        graph: The graph with the loops.
        graphs: All graphs of its model.
    """
    loops = [op for op in graph.ops if op.type == WHILE and is_control_flow(op)]
    if not loops:
        return
    callers = collections.Counter(name for each in graphs.values() for op in each.ops for name in called(op))
    for op in loops:
        names = called(op)
        if any(callers[name] != 1 or name not in graphs for name in names):
            continue
        cond, body = (graphs[name] for name in names)
        fits = len(op.inputs) == len(cond.inputs) == len(body.inputs) and len(op.outputs) <= len(body.outputs)
        if fits:  # else the loop is refused later
            for index in range(len(op.inputs)):
                _move(op, cond, body, index)


def _move(op: ir.Op, cond: ir.Graph, body: ir.Graph, index: int) -> None:
    counts, graph = Loop.of(op, body), op.graph
    inner, operand, read = body.inputs[index], op.inputs[index], cond.inputs[index]
    perm = _permutation(body, inner)
    if graph is None or operand is None or perm is None or cond.consumers(read) or cond.is_output(read):
        return
    back = tuple(perm.index(axis) for axis in range(len(perm)))
    results = [body.outputs[index]] if index < counts.carried else []
    if any(_before(body, result, back) is None for result in results):
        return
    for reader in body.consumers(inner):
        (moved,) = reader.outputs
        body.unlink(reader)
        body.replace(moved, inner)
        del body.tensors[moved.name]
    for result in results:
        source = _before(body, result, back)
        assert source is not None
        assert result.producer is not None
        assert source.producer is not None
        body.unlink(result.producer)
        body.replace(source, result)
        body.set_output(source.producer, source.producer.outputs.index(source), result)
    shape = tuple(inner.shape[axis] for axis in perm)
    for tensor in (inner, read, *results):
        tensor.shape = shape
    inputs = list(op.inputs)
    inputs[index] = _transposed(graph, op, operand, perm)
    graph.set_inputs(op, inputs)
    if index < counts.outputs:
        result = op.outputs[index]
        graph.set_output(op, index, _like(graph, result, shape))
        graph.insert_after(op, _transpose(graph, op.outputs[index], result, back))


def _permutation(body: ir.Graph, held: ir.Tensor) -> tuple[int, ...] | None:
    """Return the one permutation in which a body reads an operand, or None."""
    readers = body.consumers(held)
    perms = {_perm(reader) for reader in readers}
    if len(perms) != 1 or body.is_output(held) or any(body.is_output(each.outputs[0]) for each in readers):
        return None
    return perms.pop() if _is_plain(held) else None


def _before(body: ir.Graph, result: ir.Tensor, back: Sequence[int]) -> ir.Tensor | None:
    """Return what a body permutes by ``back`` to an unread result, or None."""
    op = result.producer
    source = op.inputs[0] if op is not None and op.inputs else None
    if op is None or source is None or _perm(op) != back or body.consumers(result):
        return None
    is_own = source.producer is not None and not body.is_output(source)
    return source if is_own and body.outputs.count(result) == 1 and _is_plain(source) else None


def _perm(op: ir.Op) -> tuple[int, ...] | None:
    is_native = op.type == "Transpose" and op.package == ir.NATIVE_PACKAGE
    return tuple(int(axis) for axis in op.param("perm")) if is_native else None


def _is_plain(tensor: ir.Tensor) -> bool:
    return not tensor.dynamic_axes and isinstance(tensor.encoding, ir.ScaleOffset | None)


def _transposed(graph: ir.Graph, anchor: ir.Op, tensor: ir.Tensor, perm: Sequence[int]) -> ir.Tensor:
    moved = _like(graph, tensor, tuple(tensor.shape[axis] for axis in perm))
    if tensor.data is not None:
        moved.data, moved.role = tensor.data.transpose(perm), tensor.role
        return graph.add_tensor(moved)
    graph.insert_before(anchor, _transpose(graph, tensor, moved, perm))
    return moved


def _like(graph: ir.Graph, tensor: ir.Tensor, shape: tuple[int, ...]) -> ir.Tensor:
    name = graph.unique_name(f"{tensor.name}_moved")
    return replace(tensor, name=name, shape=shape, data=None, role=ir.Role.NATIVE, producer=None)


def _transpose(graph: ir.Graph, source: ir.Tensor, result: ir.Tensor, perm: Sequence[int]) -> ir.Op:
    params: dict[str, ir.Param] = {"perm": ir.u32s(perm)}
    origin = ir.Origin((), _REASON)
    return ir.make_op(graph, "Transpose", [source], [result], params, name=result.name, origin=origin)


# ---------------------------------------------------------------------- unread operands


def drop_unread(model: ir.Model) -> None:
    """Drop operands that no graph of their op reads, and ops that only compute them.

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
    """Drop the operands of an op that its graphs do not read; return if any."""
    before = 1 if op.type == IF else 0  # the condition is not an input of the graphs
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
