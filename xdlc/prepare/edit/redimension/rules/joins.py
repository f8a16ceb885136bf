"""Resize rules of operations that join tensors along an axis, or split them."""

from __future__ import annotations

from xdlc.ir import Op, ScaleOffset, Tensor
from xdlc.opdefs import args
from xdlc.opdefs.shapes import Dims, ShapeError, infer
from xdlc.prepare.edit.redimension.resize_context import ResizeContext, Shape, rule
from xdlc.prepare.edit.redimension.rules.windows import set_numbers


@rule("Concat")
def concat(op: Op, context: ResizeContext) -> list[Dims] | None:
    """Return the operands' shape with their sum along the axis; constants of extent 1 are repeated."""
    axis = args.axis(op, op.outputs[0].rank)
    repeated(op, context, [other for other in range(op.outputs[0].rank) if other != axis])
    return infer(op)


@rule("Pack")
def pack(op: Op, context: ResizeContext) -> list[Dims] | None:
    """Return the operands' shape with their number on the new axis."""
    repeated(op, context, range(op.outputs[0].rank - 1))
    return infer(op)


def repeated(op: Op, context: ResizeContext, axes: range | list[int]) -> None:
    """Repeat constants along axes of extent 1 that the other operands had as well, and have otherwise now."""
    tensors = [tensor for tensor in op.inputs if tensor is not None]
    made: dict[Tensor, Tensor] = {}
    for tensor in tensors:
        wanted = list(tensor.shape)
        for axis in axes:
            others = {
                (context.shape(other)[axis], other.shape[axis]) for other in tensors if not other.is_static
            }
            if tensor.is_static and tensor.shape[axis] == 1 and len(others) == 1:
                old, new = others.pop()
                wanted[axis] = new if old == 1 else 1
        if tuple(wanted) != tensor.shape:
            made[tensor] = spread_constant(context, tensor, tuple(wanted))
    if made:
        context.graph.set_inputs(op, [None if held is None else made.get(held, held) for held in op.inputs])


def spread_constant(context: ResizeContext, tensor: Tensor, shape: Shape) -> Tensor:
    """Return a constant of the graph that is another one, repeated to a shape.

    Raises:
        ShapeError: If its elements are packed, or have encodings of their own.
    """
    import numpy

    if tensor.data is None or tensor.dtype.bits == 4 or not isinstance(tensor.encoding, ScaleOffset | None):
        raise ShapeError(f"constant {tensor.name!r} cannot be repeated to {list(shape)}")
    old = tensor.shape
    data = tensor.data.transform(
        lambda array: numpy.ascontiguousarray(numpy.broadcast_to(array.reshape(old), shape)), shape=shape
    )
    name = context.graph.unique_name(f"{tensor.name}_{'x'.join(map(str, shape))}")
    made = Tensor(name, shape, tensor.dtype, tensor.encoding, data, tensor.role)
    return context.graph.add_tensor(made)


@rule("Split")
def split(op: Op, context: ResizeContext) -> list[Shape]:
    """Return the parts; equal parts stay equal."""
    source = args.operand(op, 0)
    axis = args.axis(op, source.rank)
    old, new = context.shape(source)[axis], source.shape[axis]
    parts = [tensor.shape[axis] for tensor in op.outputs]
    if old != new:
        if len(set(parts)) > 1 or new % len(parts):
            raise ShapeError(f"it splits {old} into {parts}, which leaves open how to split {new}")
        parts = [new // len(parts)] * len(parts)
        set_numbers(op, "split_index", [sum(parts[:index]) for index in range(1, len(parts))])
    return [(*source.shape[:axis], extent, *source.shape[axis + 1 :]) for extent in parts]
