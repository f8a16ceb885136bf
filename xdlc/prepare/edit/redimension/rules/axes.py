"""Resize rules of operations that regroup, permute, join or split axes."""

from __future__ import annotations

from xdlc.ir import Op, ScaleOffset, Tensor
from xdlc.opdefs import args
from xdlc.opdefs.shapes import Dims, ShapeError, infer
from xdlc.prepare.edit.redimension.regroup import regrouped
from xdlc.prepare.edit.redimension.resize_context import ResizeContext, Shape, rule
from xdlc.prepare.edit.redimension.rules.windows import set_numbers


@rule("Reshape", "ExpandDims", "Squeeze")
def reshape(op: Op, context: ResizeContext) -> list[Shape]:
    """Return the target that the factors of the input's dimensions fill."""
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
    """Permute the factors of the dimensions, and return the inferred shape."""
    found, source = infer(op), args.operand(op, 0)
    perm = args.axes(op, source.rank, name="perm")
    context.note_axes(op.outputs[0], [context.axes(source)[axis] for axis in perm])
    return found


@rule("Concat")
def concat(op: Op, context: ResizeContext) -> list[Dims] | None:
    """Repeat constants of size 1, and return the inferred shape."""
    axis = args.axis(op, op.outputs[0].rank)
    repeated(op, context, [other for other in range(op.outputs[0].rank) if other != axis])
    return infer(op)


@rule("Pack")
def pack(op: Op, context: ResizeContext) -> list[Dims] | None:
    """Repeat constants of size 1, and return the inferred shape."""
    repeated(op, context, range(op.outputs[0].rank - 1))
    return infer(op)


def repeated(op: Op, context: ResizeContext, axes: range | list[int]) -> None:
    """Repeat constants along axes of size 1 that other operands no longer have."""
    tensors = [tensor for tensor in op.inputs if tensor is not None]
    repeats: dict[Tensor, Tensor] = {}
    for tensor in tensors:
        shape = list(tensor.shape)
        for axis in axes:
            others = {
                (context.shape(other)[axis], other.shape[axis]) for other in tensors if not other.is_static
            }
            if tensor.is_static and tensor.shape[axis] == 1 and len(others) == 1:
                old, new = others.pop()
                shape[axis] = new if old == 1 else 1
        if tuple(shape) != tensor.shape:
            repeats[tensor] = spread_constant(context, tensor, tuple(shape))
    if repeats:
        context.graph.set_inputs(
            op, [None if source is None else repeats.get(source, source) for source in op.inputs]
        )


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
    return [(*source.shape[:axis], dim, *source.shape[axis + 1 :]) for dim in parts]
