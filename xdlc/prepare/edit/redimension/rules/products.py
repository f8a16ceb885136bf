"""Resize rules of fully connected layers and recurrent networks."""

from __future__ import annotations

import math

from xdlc.ir import Op, Tensor
from xdlc.opdefs import args
from xdlc.opdefs.cells import BY_TYPE
from xdlc.opdefs.shapes import ShapeError
from xdlc.opdefs.shapes.windows import row_axes
from xdlc.prepare.edit.redimension.resize_context import ResizeContext, Shape, rule
from xdlc.prepare.edit.redimension.rules.axes import spread_constant


@rule("FullyConnected")
def fully_connected(op: Op, context: ResizeContext) -> list[Shape]:
    """Return the shape with a row of units for each row of the weights' width."""
    source, weight = args.operand(op, 0), args.operand(op, 1)
    units, width = weight.shape
    taken = row_axes(context.shape(source), width)
    found = math.prod(source.shape[-(taken or source.rank) :])
    if taken is None or found != width:
        raise ShapeError(f"the op needs {width} elements in each row, but would get {found}")
    rows = source.shape[:-taken]
    held = op.outputs[0].shape
    return [(math.prod(rows), units) if len(held) == 2 else (*rows, units)]


@rule(*BY_TYPE)
def recurrence(op: Op, context: ResizeContext) -> list[Shape]:
    """Return a state for each item of the batch, and results for each step."""
    source = args.operand(op, 0)
    operation = BY_TYPE[op.type]
    axis = 1 - operation.time_axis(op) if source.rank == 3 else 0
    firsts = [state.input for state in operation.states]
    old, new = context.shape(source)[axis], source.shape[axis]
    if context.shape(source)[-1] != source.shape[-1]:
        raise ShapeError(f"its weights need {context.shape(source)[-1]} features, not {source.shape[-1]}")
    inputs = [
        _state(context, tensor, old, new) if at in firsts else tensor for at, tensor in enumerate(op.inputs)
    ]
    context.graph.set_inputs(op, inputs)
    shapes: list[Shape] = []
    for at, tensor in enumerate(op.outputs):
        if (
            at not in (1, 2)
            and tensor.rank == source.rank == 3
            and tensor.shape[:2] == context.shape(source)[:2]
        ):
            shapes.append((*source.shape[:2], tensor.shape[-1]))
        else:
            shapes.append(_with_batch(tensor.shape, old, new))
    return shapes


def _state(context: ResizeContext, tensor: Tensor | None, old: int, new: int) -> Tensor | None:
    """Return a first state for the whole batch, a constant repeated."""
    if tensor is None or old == new:
        return tensor
    wanted = _with_batch(context.shape(tensor), old, new)
    if tensor.is_static and old == 1:
        return spread_constant(context, tensor, wanted)
    if tensor.shape != wanted:
        raise ShapeError(f"its state {tensor.name!r} is {list(tensor.shape)}, for a batch of {new}")
    return tensor


def _with_batch(shape: Shape, old: int, new: int) -> Shape:
    """Return the shape of a state for another batch, its axis before the last."""
    if len(shape) < 2 or shape[-2] != old:
        raise ShapeError(f"its state {list(shape)} is not for a batch of {old}")
    return (*shape[:-2], new, shape[-1])
