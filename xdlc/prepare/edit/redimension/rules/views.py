"""Ops that keep the elements and change the axes around them."""

from __future__ import annotations

from xdlc.ir import Op
from xdlc.prepare.edit.redimension.registry import Misfit, Shape, rule
from xdlc.prepare.edit.redimension.regroup import regrouped
from xdlc.prepare.edit.redimension.resize_context import ResizeContext
from xdlc.runtime import args


@rule("Reshape", "ExpandDims", "Squeeze")
def reshape(op: Op, context: ResizeContext) -> list[Shape]:
    """Return the target that the factors of the input's extents leave."""
    if len(op.inputs) > 1 and op.inputs[1] is not None:
        raise Misfit("its target is an operand")
    source, target = args.operand(op, 0), op.outputs[0]
    axes = regrouped(context.axes(source), target.shape)
    context.note_axes(target, axes)
    return [tuple(_product(axis) for axis in axes)]


def _product(axis: tuple[tuple[int, int], ...]) -> int:
    total = 1
    for _, new in axis:
        total *= new
    return total


@rule("Transpose")
def transpose(op: Op, context: ResizeContext) -> list[Shape]:
    """Return the extents in the order of the permutation."""
    source = args.operand(op, 0)
    perm = args.axes(op, source.rank, name="perm")
    if len(perm) != source.rank:
        raise Misfit(f"its permutation {list(perm)} does not go with rank {source.rank}")
    context.note_axes(op.outputs[0], [context.axes(source)[axis] for axis in perm])
    return [tuple(source.shape[axis] for axis in perm)]
