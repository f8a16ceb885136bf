"""Ops that move a window over an image: convolutions and pools."""

from __future__ import annotations

from xdlc.ir import Op, Tensor, u32s
from xdlc.opdefs.extents import stated_extents
from xdlc.prepare.edit.redimension.registry import Misfit, Shape, rule
from xdlc.prepare.edit.redimension.resize_context import ResizeContext
from xdlc.runtime import args

_POOLS = ("PoolAvg2d", "PoolAvg3d", "PoolMax2d", "PoolMax3d", "L2Pool2d")


@rule("Conv2d", "Conv3d", "DepthWiseConv2d", "TransposeConv2d", "TransposeConv3d", "Pad")
def window(op: Op, context: ResizeContext) -> list[Shape]:
    """Return what the parameters make of the new extents, as they made the old ones."""
    source = args.operand(op, 0)
    if op.type.startswith(("Conv", "DepthWise")):
        kernel = args.operand(op, 1).shape
        dilation = args.integers(op, "dilation", source.rank - 2, default=1)
        reach = [step * (extent - 1) + 1 for step, extent in zip(dilation, kernel, strict=False)]
        _check_padding(op, context, reach)
    if op.type != "Pad" and context.shape(source)[-1] != source.shape[-1]:
        raise Misfit(f"its weights are for {context.shape(source)[-1]} channels, not {source.shape[-1]}")
    return [_extents(op, context)]


@rule(*_POOLS)
def pool(op: Op, context: ResizeContext) -> list[Shape]:
    """Return the new extents; the window of a pool that covers whole axes grows with them.

    The window of a global pool is its input's extent, and its step as well where the source calls it
    global; but so may be those of a pool that happens to be as large as its input.
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
        result = (
            source.shape[0],
            *(1 if axis in covered else _extents(op, context)[axis + 1] for axis in range(count)),
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
    return [_extents(op, context)]


def _extents(op: Op, context: ResizeContext) -> Shape:
    source = args.operand(op, 0)
    before, after = (stated_extents(op, shape) for shape in (context.shape(source), source.shape))
    found = list(context.shape(op.outputs[0]))
    if before is None or after is None or found not in before:
        raise Misfit(f"its output {found} does not follow from its parameters")
    return tuple(after[before.index(found)])


def set_numbers(op: Op, name: str, values: list[int]) -> None:
    """Give an op a parameter of unsigned numbers, in the shape that the parameter has."""
    import numpy

    held = op.params[name]
    shape = held.shape if isinstance(held, Tensor) else (len(values),)
    made = u32s(numpy.asarray(values).reshape(shape))
    made.name = held.name if isinstance(held, Tensor) else f"{op.name}_{name}"
    op.params[name] = made


def _check_padding(op: Op, context: ResizeContext, reach: list[int]) -> None:
    """Refuse padding that may be fixed or follow the extents, where the two differ.

    Padding that is uneven, by one, and just what makes the output the input's extent over the stride, is
    what some sources call "same"; with other extents it is another.
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
            raise Misfit(
                f"its padding [{begin}, {end}] for the extent {old} may be fixed or follow the extent, "
                f"and the two differ for {new}"
            )


def _same(extent: int, stride: int, reach: int) -> int:
    """Return the padding that makes the output the extent over the stride, rounded up."""
    return max((-(-extent // stride) - 1) * stride + reach - extent, 0)
