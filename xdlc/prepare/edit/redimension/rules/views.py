"""Resize rules of operations that keep the elements and change the axes around them."""

from __future__ import annotations

from xdlc.ir import Op
from xdlc.opdefs import args
from xdlc.opdefs.shapes import Dims, ShapeError, infer
from xdlc.prepare.edit.redimension.regroup import regrouped
from xdlc.prepare.edit.redimension.resize_context import ResizeContext, Shape, rule


@rule("Reshape", "ExpandDims", "Squeeze")
def reshape(op: Op, context: ResizeContext) -> list[Shape]:
    """Return the target that the factors of the input's extents leave."""
    if len(op.inputs) > 1 and op.inputs[1] is not None:
        raise ShapeError("its target is an operand")
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
def transpose(op: Op, context: ResizeContext) -> list[Dims] | None:
    """Return the extents in the order of the permutation."""
    found, source = infer(op), args.operand(op, 0)
    perm = args.axes(op, source.rank, name="perm")
    context.note_axes(op.outputs[0], [context.axes(source)[axis] for axis in perm])
    return found
