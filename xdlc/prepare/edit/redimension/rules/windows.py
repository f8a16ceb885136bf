"""Resize rules of convolutions, pooling, padding, images and tiles."""

from __future__ import annotations

import numpy

from xdlc.ir import Op, Tensor, u32s
from xdlc.opdefs import args
from xdlc.opdefs.shapes import Dims, ShapeError, infer
from xdlc.opdefs.shapes.windows import pool_shapes, window_reaches
from xdlc.prepare.edit.redimension.resize_context import ResizeContext, Shape, rule


@rule("Conv1d", "Conv2d", "Conv3d", "DepthWiseConv1d", "DepthWiseConv2d")
@rule("TransposeConv1d", "TransposeConv2d", "TransposeConv3d", "Pad")
def window(op: Op, context: ResizeContext) -> list[Dims] | None:
    """Return the new shape computed from the parameters."""
    source = args.operand(op, 0)
    if op.type.startswith(("Conv", "DepthWise")):
        _check_padding(op, context, window_reaches(op))
    if op.type != "Pad" and context.shape(source)[-1] != source.shape[-1]:
        raise ShapeError(f"its weights need {context.shape(source)[-1]} channels, not {source.shape[-1]}")
    shapes, result = infer(op), op.outputs[0]
    with context.before(op):
        old_shapes = infer(op)
    if (
        not shapes
        or not old_shapes
        or any(new not in (None, old) for new, old in zip(old_shapes[0], result.shape, strict=True))
    ):
        raise ShapeError(f"its output {list(result.shape)} does not follow from its parameters")
    return [tuple(old if new is None else new for new, old in zip(shapes[0], result.shape, strict=True))]


@rule("PoolAvg2d", "PoolAvg3d", "PoolMax2d", "PoolMax3d", "L2Pool2d")
def pool(op: Op, context: ResizeContext) -> list[Shape]:
    """Return the new dimensions; a window over whole axes grows with them.

    The window of a global pool has its input's size, and its step as well where the source calls it
    global; but so may those of a pool that happens to be as large as its input.
    """
    source = args.operand(op, 0)
    old, count = context.shape(source), source.rank - 2
    size = args.integers(op, "filter_size", count)
    step = args.integers(op, "stride", count)
    covered = [
        axis
        for axis in range(count)
        if size[axis] == old[axis + 1] != source.shape[axis + 1] and op.outputs[0].shape[axis + 1] == 1
    ]
    if covered:
        is_mean = op.type.startswith("PoolAvg") and all(step[axis] == size[axis] for axis in covered)
        context.doubtful[op] = is_mean
    if covered and context.covers:
        positions = _pooled(op, context)
        result = (
            source.shape[0],
            *(1 if axis in covered else positions[axis + 1] for axis in range(count)),
            source.shape[-1],
        )
        for name, held in (("filter_size", size), ("stride", step)):
            grown = [
                source.shape[axis + 1] if axis in covered and held[axis] == size[axis] else held[axis]
                for axis in range(count)
            ]
            set_numbers(op, name, grown)
        return [result]
    _check_padding(op, context, size)
    return [_pooled(op, context)]


def _pooled(op: Op, context: ResizeContext) -> Shape:
    """Return the new output shape, with the rounding mode of the old shape."""
    shapes, result = pool_shapes(op), op.outputs[0].shape
    with context.before(op):
        old_shapes = pool_shapes(op)
    if result not in old_shapes:
        raise ShapeError(f"its output {list(result)} does not follow from its parameters")
    return shapes[old_shapes.index(result)]


def set_numbers(op: Op, name: str, values: list[int]) -> None:
    """Set a parameter of unsigned numbers, in the shape that the parameter has."""
    held = op.params[name]
    shape = held.shape if isinstance(held, Tensor) else (len(values),)
    made = u32s(numpy.asarray(values).reshape(shape))
    made.name = held.name if isinstance(held, Tensor) else f"{op.name}_{name}"
    op.params[name] = made


def _check_padding(op: Op, context: ResizeContext, reach: list[int]) -> None:
    """Reject padding that may be fixed or follow the dimensions, where the two differ.

    Padding that is uneven, by one, and just what makes the output the input's size over the stride, is what
    some sources call "same"; with other dimensions it is another.
    """
    source = args.operand(op, 0)
    count = source.rank - 2
    pads, strides = args.integers(op, "pad_amount", 2 * count), args.integers(op, "stride", count)
    for axis in range(count):
        begin, end, stride = pads[2 * axis], pads[2 * axis + 1], strides[axis]
        old, new = context.shape(source)[axis + 1], source.shape[axis + 1]
        if abs(begin - end) != 1 or begin + end != _same(old, stride, reach[axis]):
            continue
        if _same(new, stride, reach[axis]) != begin + end:
            raise ShapeError(
                f"its padding [{begin}, {end}] for the dimension {old} may be fixed or follow the "
                f"dimension, which differ for {new}"
            )


def _same(size: int, stride: int, reach: int) -> int:
    """Return the padding that makes the output the size over the stride, rounded up."""
    return max((-(-size // stride) - 1) * stride + reach - size, 0)


@rule("Resize", "ResizeBilinear", "ResizeNearestNeighbor", always=True)
def resize(op: Op, context: ResizeContext) -> list[Shape]:
    """Return a shape with the old resize ratio, or with sizes known from elsewhere."""
    source, target = args.operand(op, 0), op.outputs[0]
    before, after = context.shape(source), target.shape
    shape = [source.shape[0], *after[1:-1], source.shape[-1]]
    if len(after) != source.rank or source.rank < 3:
        raise ShapeError(f"cannot resize {list(before)} to {list(after)}")
    unconfirmed = False
    for axis in range(1, source.rank - 1):
        place = (source.rank, axis)
        shape[axis] = _resized(context, place, before[axis], source.shape[axis], after[axis])
        unconfirmed |= shape[axis] not in (
            after[axis],
            source.shape[axis],
            *context.known(*place, after[axis]),
        )
    if unconfirmed:
        context.notes.append(
            f"op {op.name!r} ({op.type}) resized {list(before)} to {list(after)}; xdlc assumes that it "
            f"keeps its factors: {list(source.shape)} to {shape}"
        )
    return [tuple(shape)]


def _resized(context: ResizeContext, place: tuple[int, int], old: int, new: int, target: int) -> int:
    elsewhere = context.known(*place, target)
    if old == new:  # one value spread over an image whose size is not its own
        return _of_one(elsewhere, target) if old == 1 else target
    if target == old:
        return new
    scaled = {new * target // old} if new * target % old == 0 else set()
    found = scaled | (elsewhere if len(elsewhere) == 1 else set())
    if len(found) != 1:
        ways = " or ".join(map(str, sorted(found | elsewhere))) or "nothing whole"
        raise ShapeError(f"it resizes {old} to {target}, so {new} may become {ways}")
    return found.pop()


def _of_one(elsewhere: set[int], target: int) -> int:
    """Return the new size that one element is repeated to."""
    if target == 1 or not elsewhere:
        return target
    if len(elsewhere) > 1:
        ways = " or ".join(map(str, sorted(elsewhere)))
        raise ShapeError(f"it spreads one element over {target}, now {ways}")
    return min(elsewhere)


@rule("Tile", always=True)
def tile(op: Op, context: ResizeContext) -> list[Dims] | None:
    """Update the multiples of one element to the new size of an axis that was as long."""
    source = args.operand(op, 0)
    before = context.shape(source)
    multiples = args.integers(op, "multiples", source.rank)
    for axis, count in enumerate(multiples):
        if before[axis] == source.shape[axis] == 1:
            multiples[axis] = _of_one(context.known(source.rank, axis, count), count)
    set_numbers(op, "multiples", multiples)
    return infer(op)
