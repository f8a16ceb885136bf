"""Merging of Reshapes and Transposes before and after an op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdlc import ir
from xdlc.ir import Graph, Op, Tensor
from xdlc.opdefs.traits import traits
from xdlc.passes.base import graph_pass
from xdlc.passes.merge_rearrangements import (
    from_transpose,
    is_rowwise,
    is_view,
    moved,
    view,
    views_from,
    views_to,
)


@graph_pass(
    stage="converter", after=("merge_rearrangements", "merge_views"), op_types=("Reshape", "Transpose")
)
@dataclass(frozen=True, slots=True)
class MergeViewsAround:
    """Compute ``view(f(view(x)))`` as ``view(view(f(x)))``.

    The two views are Reshapes, or both have a Transpose.  If f is a Gather, the second one comes first.
    """

    name: str = "merge_views_around"

    def apply(self, graph: Graph) -> bool:
        """Rewrite ``graph`` and return whether anything changed."""
        results = [rule(graph, op) for op in list(graph.ops) for rule in _rules(op)]
        return any(results)


def _rules(op: Op) -> tuple[Callable[[Graph, Op], bool], ...]:
    """Return what may move views around an op."""
    if op.package != ir.NATIVE_PACKAGE:
        return ()
    if op.type == "Gather":
        return (_lift,)
    if traits(op).elementwise:
        return (_move, _turn)
    return (_turn,) if is_rowwise(op) else ()


def _is_reshape(op: Op | None) -> bool:
    return op is not None and op.type == "Reshape" and op.package == ir.NATIVE_PACKAGE


def _move(graph: Graph, op: Op) -> bool:
    computed = [tensor for tensor in op.inputs if tensor is not None and not tensor.is_static]
    if len(computed) != 1:
        return False
    flat, result = computed[0], op.outputs[0]
    before, after = flat.producer, graph.sole_consumer(result)
    if before is None or after is None or not _is_reshape(before) or not _is_reshape(after):
        return False
    source = before.inputs[0]
    if source is None or source.is_static or not source.rank or graph.sole_consumer(flat) is not op:
        return False
    if flat.shape != result.shape or source.encoding != flat.encoding or source.dynamic_axes:
        return False
    if not all(tensor is flat or _suits(tensor, flat, source) for tensor in op.inputs):
        return False
    result.shape = source.shape
    graph.set_inputs(op, [source if tensor is flat else tensor for tensor in op.inputs])
    after.origin = before.origin.merged(after.origin)
    graph.remove(before)
    return True


def _turn(graph: Graph, op: Op) -> bool:
    """Move views with a Transpose after an op that others with a Transpose follow."""
    computed = [tensor for tensor in op.inputs if tensor is not None and not tensor.is_static]
    if len(computed) != 1 or not is_view(computed[0].producer):
        return False
    flat, result, by_rows = computed[0], op.outputs[0], is_rowwise(op)
    chain = from_transpose(views_to(graph, flat))
    if not chain or not from_transpose(views_from(graph, result)):
        return False
    source = chain[0].inputs[0]
    if source is None or flat.shape != result.shape or graph.sole_consumer(flat) is not op:
        return False
    keeps_rows = _keeps_rows(chain, source, flat)
    for tensor in op.inputs:
        if tensor is not flat and not _suits(tensor, flat, source):
            return False
        if tensor is not flat and tensor is not None and tensor.size > 1 and not keeps_rows:
            return False
    if by_rows and not keeps_rows:
        return False
    if by_rows:
        op.params["axis"] = ir.u32(source.rank - 1)
    graph.set_inputs(op, [source if tensor is flat else tensor for tensor in op.inputs])
    for reader in graph.consumers(result):
        graph.set_inputs(reader, [flat if tensor is result else tensor for tensor in reader.inputs])
    graph.unlink(op)
    result.shape = source.shape
    graph.insert_before(chain[0], op)
    graph.set_inputs(chain[0], [result])
    for each in chain:
        moved_on = each.outputs[0]
        moved_on.dtype, moved_on.encoding = result.dtype, result.encoding
        graph.rename(moved_on, graph.unique_name(f"{result.name}_{each.type.lower()}"))
    return True


def _keeps_rows(chain: Sequence[Op], source: Tensor, flat: Tensor) -> bool:
    """Return whether views leave the rows of the last axis whole."""
    layout, row = moved(chain), flat.shape[-1]
    if layout is None or source.shape[-1:] != (row,):
        return False
    shape, perm = layout
    return not perm or (perm[-1] == len(perm) - 1 and shape[-1] % row == 0)


def _suits(tensor: Tensor | None, flat: Tensor, source: Tensor) -> bool:
    """Return whether a constant is a number, or has values per channel of both shapes."""
    if tensor is None or tensor.size == 1:
        return tensor is None or tensor.rank <= source.rank
    return tensor.shape == flat.shape[-1:] == source.shape[-1:]


def _lift(graph: Graph, op: Op) -> bool:
    """Move a Transpose after a Gather before it."""
    (source, places), result = op.inputs, op.outputs[0]
    turn = graph.sole_consumer(result)
    if source is None or places is None or places.rank != 1:
        return False
    if turn is None or turn.type != "Transpose" or not is_view(turn):
        return False
    if graph.sole_consumer(source) is not op or not from_transpose(views_to(graph, source)):
        return False
    if graph.is_output(turn.outputs[0]):
        return False
    perm = [int(axis) for axis in turn.param("perm")]
    shape = [source.shape[axis] for axis in perm]
    params: dict[str, ir.Param] = {"perm": ir.u32s(perm)}
    lifted = view(graph, op, "Transpose", source, shape, turn.name, turn.origin, params)
    op.params["axis"] = ir.i32(perm.index(int(op.param("axis", 0)) % source.rank))
    graph.set_inputs(op, [lifted, *op.inputs[1:]])
    result.shape = tuple(result.shape[axis] for axis in perm)
    graph.replace(turn.outputs[0], result)
    graph.remove(turn)
    return True
