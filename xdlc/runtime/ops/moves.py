"""Elements that are moved, joined, cut, padded or repeated, and views."""

from __future__ import annotations

import functools
import itertools
import math

import numpy

from xdlc.errors import ModelError
from xdlc.ir import Op
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.ops import lowering


@lowering("Reshape", "ExpandDims", "Squeeze")
def reshape(op: Op, b: Builder) -> None:
    """Lower to Reshape, with the shape of the output."""
    source, target = args.operand(op, 0), args.result(op)
    if source.size != target.size and not (source.dynamic_axes or target.dynamic_axes):
        raise ModelError(
            f"input {list(source.shape)} does not have as many elements as output {list(target.shape)}"
        )
    if len(target.dynamic_axes) > 1:
        raise b.unsupported(
            f"output {target.name!r} has {len(target.dynamic_axes)} dynamic axes, but xdlc can infer only "
            "one",
            "fix the shape of the graph's inputs",
        )
    shape = [-1 if axis in target.dynamic_axes else dim for axis, dim in enumerate(target.shape)]
    b.write(target, b.reshape(b.read(source, dtype=b.held(source)), shape), dtype=b.held(source))


@lowering("Transpose")
def transpose(op: Op, b: Builder) -> None:
    """Lower to no node: readers insert a Transpose if they need another order."""
    source = args.operand(op, 0)
    perm = args.axes(op, source.rank, name="perm")
    if len(perm) != source.rank:
        raise ModelError(f"parameter 'perm' has {len(perm)} axes, but the input has {source.rank}")
    b.write_view(args.result(op), source, perm)


@lowering("Tile")
def tile(op: Op, b: Builder) -> None:
    """Lower to Tile."""
    source = args.operand(op, 0)
    multiples = args.integers(op, "multiples", source.rank)
    b.write(
        args.result(op),
        b.node("Tile", [b.read(source, dtype=b.held(source)), b.ints(*multiples)]),
        dtype=b.held(source),
    )


@lowering("Concat")
def concat(op: Op, b: Builder) -> None:
    """Lower to Concat."""
    tensors = [args.operand(op, index) for index in range(len(op.inputs))]
    if not tensors:
        raise ModelError("has no inputs")
    rank, target = tensors[0].rank, args.result(op)
    axis = args.axis(op, rank, default=rank - 1)
    dtype = functools.reduce(numpy.promote_types, (b.held(tensor) for tensor in tensors))
    shared = [
        order
        for order in b.orders(tensors[0])
        if all(tensor.is_static or order in b.orders(tensor) for tensor in tensors)
    ]
    order = shared[0] if shared else tuple(range(rank))
    values = [b.read(tensor, order, dtype=dtype) for tensor in tensors]
    b.write(target, b.node("Concat", values, axis=order.index(axis)), order, dtype=dtype)


@lowering("Pack")
def pack(op: Op, b: Builder) -> None:
    """Lower to Unsqueeze of each input and Concat."""
    tensors = [args.operand(op, index) for index in range(len(op.inputs))]
    if not tensors:
        raise ModelError("has no inputs")
    axis = args.axis(op, tensors[0].rank + 1)
    values = [b.node("Unsqueeze", [b.read(tensor, dtype=b.held(tensor)), b.ints(axis)]) for tensor in tensors]
    b.write(args.result(op), b.node("Concat", values, axis=axis), dtype=b.held(tensors[0]))


@lowering("Split")
def split(op: Op, b: Builder) -> None:
    """Lower to Split; ``split_index`` lists where each output after the first begins."""
    source = args.operand(op, 0)
    axis = args.axis(op, source.rank)
    dim = source.shape[axis]
    bounds = [0, *args.integers(op, "split_index"), dim]
    sizes = [end - begin for begin, end in itertools.pairwise(bounds)]
    if min(sizes) < 0 or len(sizes) != len(op.outputs):
        raise ModelError(
            f"'split_index' {bounds[1:-1]} does not split {dim} elements into {len(op.outputs)} outputs"
        )
    values = b.nodes_out("Split", [b.read(source), b.ints(*sizes)], len(sizes), axis=axis)
    for tensor, value in zip(op.outputs, values, strict=True):
        b.write(tensor, value)


@lowering("UnPack")
def unpack(op: Op, b: Builder) -> None:
    """Lower to Split into slices of size 1 and Squeeze of each."""
    source = args.operand(op, 0)
    axis = args.axis(op, source.rank)
    count = len(op.outputs)
    if count != source.shape[axis]:
        raise ModelError(
            f"the input has size {source.shape[axis]} along axis {axis}, but the op has {count} outputs"
        )
    values = b.nodes_out("Split", [b.read(source), b.ints(*[1] * count)], count, axis=axis)
    for tensor, value in zip(op.outputs, values, strict=True):
        b.write(tensor, b.node("Squeeze", [value, b.ints(axis)]))


BEFORE_ALL = -(1 << 62)


def _bounds(begin: int, end: int, step: int, dim: int) -> tuple[int, int]:
    """Return begin and end of a range counted from 0 (end may be -1)."""
    begin = begin + dim if begin < 0 else begin
    if step > 0:
        end = end + dim if end < 0 else end
        return min(max(begin, 0), dim), min(max(end, 0), dim)
    return min(begin, dim - 1), max(end, -1)


@lowering("StridedSlice")
def strided_slice(op: Op, b: Builder) -> None:
    """Lower to Slice, and to Reshape where axes go or come.

    ``ranges`` holds begin, end and stride of each input axis.  Bit i of ``begin_mask`` or
    ``end_mask`` means from the first or through the last element of axis i; bit i of
    ``shrink_axes`` takes one element and drops the axis.  With a negative stride, end -1 precedes
    the first element.
    """
    source, target = args.operand(op, 0), args.result(op)
    ranges = args.integers(op, "ranges", 3 * source.rank)
    begin_mask, end_mask = int(op.param("begin_mask", 0)), int(op.param("end_mask", 0))
    shrink, grow = int(op.param("shrink_axes", 0)), int(op.param("new_axes_mask", 0))
    starts, ends, steps, dims = [], [], [], []
    for axis, dim in enumerate(source.shape):
        begin, end, step = ranges[3 * axis : 3 * axis + 3]
        if step == 0:
            raise ModelError(f"parameter 'ranges' has stride 0 on axis {axis}")
        if begin_mask >> axis & 1:
            begin = 0 if step > 0 else dim - 1
        if end_mask >> axis & 1:
            end = dim if step > 0 else -1
        begin, end = _bounds(begin, end, step, dim)
        if shrink >> axis & 1:
            end, step = begin + 1, 1
        starts.append(begin)
        ends.append(BEFORE_ALL if end < 0 else end)
        steps.append(step)
        dims.append(max(0, -(-(end - begin) // step)))
    value = b.read(source, dtype=b.held(source))
    changed = [
        axis
        for axis in range(source.rank)
        if axis not in source.dynamic_axes or ranges[3 * axis : 3 * axis + 3] != [0, source.shape[axis], 1]
        if steps[axis] != 1 or dims[axis] != source.shape[axis]
    ]
    if changed:
        pick = [[each[axis] for axis in changed] for each in (starts, ends, steps)]
        begins, stops, strides = (b.ints(*each) for each in pick)
        value = b.node("Slice", [value, begins, stops, b.ints(*changed), strides])
    if shrink or grow or tuple(dims) != target.shape:
        if math.prod(dims) != target.size:
            raise ModelError(f"the slices have shape {dims}, but the output has shape {list(target.shape)}")
        value = b.reshape(value, target.shape)
    b.write(target, value, dtype=b.held(source))


CONSTANT, MIRROR_SYMMETRIC, MIRROR_REFLECT, EDGE = range(4)
MODES = {CONSTANT: "constant", MIRROR_REFLECT: "reflect", EDGE: "edge"}


@lowering("Pad")
def pad(op: Op, b: Builder) -> None:
    """Lower to Pad; the symmetric mirror to a Gather along each padded axis."""
    source, target = args.operand(op, 0), args.result(op)
    scheme = int(args.required(op, "scheme"))
    amounts = args.pads(op, source.rank)
    begins, ends = amounts[: source.rank], amounts[source.rank :]
    value = b.read(source)
    if scheme == MIRROR_SYMMETRIC:
        for axis, amount in enumerate(zip(begins, ends, strict=True)):
            if any(amount):
                if max(amount) > source.shape[axis]:
                    raise ModelError(
                        f"the op mirrors {max(amount)} elements of an axis with only {source.shape[axis]}"
                    )
                index = numpy.pad(numpy.arange(source.shape[axis]), amount, mode="symmetric")
                value = b.node("Gather", [value, b.constant(index, numpy.int64)], axis=axis)
        b.write(target, value)
        return
    if scheme not in MODES:
        raise ModelError(f"parameter 'scheme' is {scheme}; valid values are 0 to 3")
    inputs = [value, b.ints(*amounts)]
    if scheme == CONSTANT:
        inputs.append(b.like(source, op.param("pad_constant_value", 0)))
    b.write(target, b.node("Pad", inputs, mode=MODES[scheme]))


DCR, CRD = range(2)


def _mode(op: Op) -> int:
    mode = int(op.param("mode", DCR))
    if mode not in (DCR, CRD):
        raise ModelError(f"parameter 'mode' is {mode}; valid values are 0 (DCR) and 1 (CRD)")
    return mode


def _divided(dim: int, by: int, what: str) -> int:
    if by < 1 or dim % by:
        raise ModelError(f"the {what} is {dim}, which is not a multiple of {by}")
    return dim // by


@lowering("DepthToSpace")
def depth_to_space(op: Op, b: Builder) -> None:
    """Lower to Reshape, Transpose, Reshape; DCR has the block before the channel."""
    source, target = args.operand(op, 0), args.result(op)
    tall, wide = args.integers(op, "block_size", 2)
    batch, height, width, depth = _shape(op)
    channels = _divided(depth, tall * wide, "depth")
    inner = (tall, wide, channels) if _mode(op) == DCR else (channels, tall, wide)
    perm = (0, 1, 3, 2, 4, 5) if _mode(op) == DCR else (0, 1, 4, 2, 5, 3)
    value = b.transpose(b.reshape(b.read(source), (batch, height, width, *inner)), perm)
    b.write(target, b.reshape(value, (batch, height * tall, width * wide, channels)))


@lowering("SpaceToDepth")
def space_to_depth(op: Op, b: Builder) -> None:
    """Lower to Reshape, Transpose, Reshape: the inverse of DepthToSpace."""
    source, target = args.operand(op, 0), args.result(op)
    tall, wide = args.integers(op, "block_size", 2)
    batch, height, width, depth = _shape(op)
    rows, columns = _divided(height, tall, "height"), _divided(width, wide, "width")
    perm = (0, 1, 3, 2, 4, 5) if _mode(op) == DCR else (0, 1, 3, 5, 2, 4)
    value = b.transpose(b.reshape(b.read(source), (batch, rows, tall, columns, wide, depth)), perm)
    b.write(target, b.reshape(value, (batch, rows, columns, tall * wide * depth)))


@lowering("BatchToSpace")
def batch_to_space(op: Op, b: Builder) -> None:
    """Lower to Reshape, Transpose, Reshape, Slice; batches are block positions."""
    source, target = args.operand(op, 0), args.result(op)
    tall, wide = args.integers(op, "block_size", 2)
    top, bottom, left, right = args.integers(op, "crops", 4, default=0)
    batch, height, width, depth = _shape(op)
    images = _divided(batch, tall * wide, "batch")
    value = b.reshape(b.read(source), (tall, wide, images, height, width, depth))
    value = b.reshape(b.transpose(value, (2, 3, 0, 4, 1, 5)), (images, height * tall, width * wide, depth))
    if top or bottom or left or right:
        ends = b.ints(height * tall - bottom, width * wide - right)
        value = b.node("Slice", [value, b.ints(top, left), ends, b.ints(1, 2)])
    b.write(target, value)


@lowering("SpaceToBatch")
def space_to_batch(op: Op, b: Builder) -> None:
    """Lower to Pad, Reshape, Transpose, Reshape: the inverse of BatchToSpace."""
    source, target = args.operand(op, 0), args.result(op)
    tall, wide = args.integers(op, "block_size", 2)
    top, left, bottom, right = args.pads(op, 2)
    batch, height, width, depth = _shape(op)
    value = b.read(source)
    if top or bottom or left or right:
        value = b.node("Pad", [value, b.ints(0, top, left, 0, 0, bottom, right, 0), b.like(source, 0)])
    rows = _divided(height + top + bottom, tall, "padded height")
    columns = _divided(width + left + right, wide, "padded width")
    value = b.transpose(b.reshape(value, (batch, rows, tall, columns, wide, depth)), (2, 4, 0, 1, 3, 5))
    b.write(target, b.reshape(value, (tall * wide * batch, rows, columns, depth)))


@lowering("ChannelShuffle")
def channel_shuffle(op: Op, b: Builder) -> None:
    """Lower to Reshape, Transpose, Reshape: element (group, i) moves to (i, group)."""
    source, target = args.operand(op, 0), args.result(op)
    axis = args.axis(op, source.rank, default=source.rank - 1)
    groups = int(args.required(op, "num_groups"))
    share = _divided(source.shape[axis], groups, "dimension")
    shape = source.shape
    value = b.reshape(b.read(source), (*shape[:axis], groups, share, *shape[axis + 1 :]))
    order = list(range(source.rank + 1))
    order[axis], order[axis + 1] = axis + 1, axis
    b.write(target, b.reshape(b.transpose(value, order), shape))


def _shape(op: Op) -> tuple[int, int, int, int]:
    source = args.operand(op, 0)
    if source.rank != 4:
        raise ModelError(f"the op needs an input of rank 4, but has shape {list(source.shape)}")
    batch, height, width, depth = source.shape
    return batch, height, width, depth
