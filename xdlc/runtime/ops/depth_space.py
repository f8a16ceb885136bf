"""Moves between depth, space, batch and groups: reshapes and a transpose."""

from __future__ import annotations

from xdlc.errors import ModelError
from xdlc.ir import Op
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.ops import lowering

DCR, CRD = range(2)


def _mode(op: Op) -> int:
    mode = int(op.param("mode", DCR))
    if mode not in (DCR, CRD):
        raise ModelError(f"parameter 'mode' is {mode}; valid values are 0 (DCR) and 1 (CRD)")
    return mode


def _divided(dim: int, by: int, what: str) -> int:
    if by < 1 or dim % by:
        raise ModelError(f"{what} of {dim} does not divide by {by}")
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
    """Lower to Reshape, Transpose, Reshape: element (group, i) goes to (i, group)."""
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
        raise ModelError(f"needs an input of rank 4, found {list(source.shape)}")
    batch, height, width, depth = source.shape
    return batch, height, width, depth
