"""Resize rules of ops that move, join, split or select elements."""

from __future__ import annotations

import numpy

from xdlc.ir import Op, ScaleOffset, Tensor, static
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
    """Repeat constants along axes that have grown from size 1 in other operands."""
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
    """Return the shapes of the parts; equal parts remain equal."""
    source = args.operand(op, 0)
    axis = args.axis(op, source.rank)
    old, new = context.shape(source)[axis], source.shape[axis]
    parts = [tensor.shape[axis] for tensor in op.outputs]
    if old != new:
        if len(set(parts)) > 1 or new % len(parts):
            raise ShapeError(f"it splits {old} into {parts}, so the split of {new} is unknown")
        parts = [new // len(parts)] * len(parts)
        set_numbers(op, "split_index", [sum(parts[:index]) for index in range(1, len(parts))])
    return [(*source.shape[:axis], dim, *source.shape[axis + 1 :]) for dim in parts]


@rule("Gather")
def gather(op: Op, context: ResizeContext) -> list[Dims] | None:
    """Return the inferred shape, unless positions were made for another dimension."""
    source = args.operand(op, 0)
    _check(op, context, source, [args.axis(op, source.rank, default=0)])
    return infer(op)


@rule("GatherElements")
def gather_elements(op: Op, context: ResizeContext) -> list[Dims] | None:
    """Return the inferred shape; refuse constant positions of resized axes."""
    source, places = args.operand(op, 0), args.operand(op, 1)
    _check(op, context, source, [args.axis(op, source.rank, default=0)])
    found = infer(op)
    if context.is_changed(source) and not context.is_changed(places):
        old = list(context.shape(source))
        raise ShapeError(f"positions {list(places.shape)} belong to the old {old}")
    return found


@rule("GatherNd")
def gather_nd(op: Op, context: ResizeContext) -> list[Dims] | None:
    """Return the inferred shape; refuse constant positions of resized axes."""
    shared = int(op.param("batch_dims", 0))
    depth = args.operand(op, 1).shape[-1]
    _check(op, context, args.operand(op, 0), list(range(shared, shared + depth)))
    return infer(op)


def _check(op: Op, context: ResizeContext, source: Tensor, axes: list[int]) -> None:
    """Reject constant positions, but for the first one, on axes of another dimension."""
    places = args.operand(op, 1)
    changed = [axis for axis in axes if context.shape(source)[axis] != source.shape[axis]]
    if changed and places.is_static and places.numpy().any():
        raise ShapeError(
            f"the op reads constant positions of an axis whose size changes from "
            f"{context.shape(source)[changed[0]]} to {source.shape[changed[0]]}"
        )


@rule("TopK")
def top_k(op: Op, context: ResizeContext) -> list[Dims] | None:
    """Return the inferred shape; refuse a resized axis if all elements were selected."""
    source = args.operand(op, 0)
    old, new, count = context.shape(source)[-1], source.shape[-1], int(op.param("k", 0))
    if old != new and count == old:
        raise ShapeError(f"it selects {count} of {old}, which may mean all or this number of {new}")
    return infer(op)


@rule("BatchPermutation", "If", "RotaryEmbedding", "ScatterElements", "ScatterNd")
def unknown(op: Op, context: ResizeContext) -> list[Dims] | None:
    """Reject operations with positions in operands or shapes in graphs."""
    return None


@rule("StridedSlice")
def strided_slice(op: Op, context: ResizeContext) -> list[Dims] | None:
    """Return the inferred shape; extend slices that end at a resized axis's end."""
    source = args.operand(op, 0)
    if int(op.param("new_axes_mask", 0)):
        raise ShapeError("it adds axes")
    ranges = args.integers(op, "ranges", 3 * source.rank)
    masks = [int(op.param(name, 0)) for name in ("begin_mask", "end_mask", "shrink_axes")]
    for axis, (old, new) in enumerate(zip(context.shape(source), source.shape, strict=True)):
        begin_open, end_open, shrinks = (bool(mask >> axis & 1) for mask in masks)
        held = slice(3 * axis, 3 * axis + 3)
        if old != new:
            ranges[held] = _moved(ranges[held], old, new, (begin_open, end_open), shrinks)
    _set_ranges(op, ranges)
    return infer(op)


def _moved(bounds: list[int], old: int, new: int, is_open: tuple[bool, bool], shrinks: bool) -> list[int]:
    """Return begin, end and stride for an axis of another size."""
    begin, end, step = bounds
    words = f"it selects {begin}:{end}:{step} of an axis of {old}, now {new}"
    if shrinks:
        if begin == 0:
            return bounds
        raise ShapeError(f"{words}, may count from either end")
    if step > 0:
        if not (is_open[1] or end == old) or not (is_open[0] or 0 <= begin < step or begin == 0):
            raise ShapeError(f"{words}, may count from either end")
        return [begin, end if is_open[1] else new, step]
    if not (is_open[0] or begin == old - 1) or not (is_open[1] or end == -1):
        raise ShapeError(f"{words}, may count from either end")
    return [begin if is_open[0] else new - 1, end, step]


def _set_ranges(op: Op, values: list[int]) -> None:
    held = op.params["ranges"]
    if isinstance(held, Tensor):
        array = numpy.asarray(values, held.dtype.numpy).reshape(held.shape)
        op.params["ranges"] = static(held.name, array, held.dtype)
