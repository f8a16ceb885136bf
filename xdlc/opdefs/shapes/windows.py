"""Shape functions of convolutions, matrix products, poolings and padding."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdlc.ir import Op
from xdlc.opdefs.args import integers, operand
from xdlc.opdefs.shapes.base import Dims, ShapeError, broadcast_shape, mismatch, shape


@shape("Conv1d", "Conv2d", "Conv3d", "DepthWiseConv1d", "DepthWiseConv2d")
def convolution(op: Op) -> list[Dims]:
    """Return the positions of the filter, with the output channels of the weights."""
    source, weight = operand(op, 0), operand(op, 1)
    if weight.rank != source.rank:
        raise ShapeError(f"its weights of rank {weight.rank} do not fit an input of rank {source.rank}")
    reaches = window_reaches(op)
    return [(*around(op, _positions(op, reaches)), weight.shape[-1])]


def window_reaches(op: Op) -> list[int]:
    """Return the elements that a window spans along each spatial axis."""
    count = operand(op, 0).rank - 2
    if "filter_size" in op.params:
        return integers(op, "filter_size", count)
    dilation = integers(op, "dilation", count, default=1)
    kernel = operand(op, 1).shape[:-2]
    return [step * (dim - 1) + 1 for step, dim in zip(dilation, kernel, strict=True)]


def around(op: Op, spatial: Sequence[int]) -> tuple[int, ...]:
    """Return dimensions with the batch of the input in front."""
    return (operand(op, 0).shape[0], *spatial)


def _positions(op: Op, reaches: Sequence[int], *, rounds_up: bool = False) -> list[int]:
    source, count = operand(op, 0), operand(op, 0).rank - 2
    strides, pads = integers(op, "stride", count), integers(op, "pad_amount", 2 * count)
    if 0 in strides:
        raise ShapeError("its stride is 0")
    positions = []
    for axis in range(count):
        room = source.shape[1 + axis] + pads[2 * axis] + pads[2 * axis + 1] - reaches[axis]
        steps = -(-room // strides[axis]) if rounds_up else room // strides[axis]
        positions.append(steps + 1)
    return positions


@shape("TransposeConv1d", "TransposeConv2d", "TransposeConv3d")
def transposed(op: Op) -> list[Dims]:
    """Return the elements that the filter reaches, with the weights' channels."""
    source, weight = operand(op, 0), operand(op, 1)
    if weight.rank != source.rank:
        raise ShapeError(f"its weights of rank {weight.rank} do not fit an input of rank {source.rank}")
    count = source.rank - 2
    strides, pads = integers(op, "stride", count), integers(op, "pad_amount", 2 * count)
    extra = integers(op, "output_padding", count, default=0)
    reaches = window_reaches(op)
    spatial = [
        strides[axis] * (source.shape[1 + axis] - 1)
        + reaches[axis]
        + extra[axis]
        - pads[2 * axis]
        - pads[2 * axis + 1]
        for axis in range(count)
    ]
    return [(*around(op, spatial), weight.shape[-1] * int(op.param("group", 1)))]


@shape("PoolAvg2d", "PoolAvg3d", "PoolMax2d", "PoolMax3d", "L2Pool2d")
def pool(op: Op) -> list[Dims]:
    """Return the output shape; the stated one if a rounding mode results in it."""
    accepted = pool_shapes(op)
    return [op.outputs[0].shape if op.outputs[0].shape in accepted else accepted[0]]


def pool_shapes(op: Op) -> list[tuple[int, ...]]:
    """Return the output shapes that a pooling may have.

    Of those that round up, some tools drop a last window that would begin in the padding.
    """
    source = operand(op, 0)
    rounds_up = bool(op.param("rounding_mode", 0))
    spatial = _positions(op, window_reaches(op), rounds_up=rounds_up)
    accepted = [spatial] if not rounds_up else [spatial, [max(1, dim - 1) for dim in spatial]]
    return [(*around(op, held), source.shape[-1]) for held in accepted]


@shape("Pad")
def pad(op: Op) -> list[Dims]:
    """Return the dimensions plus the padding at both ends."""
    source = operand(op, 0)
    pads = integers(op, "pad_amount", 2 * source.rank)
    return [tuple(size + pads[2 * axis] + pads[2 * axis + 1] for axis, size in enumerate(source.shape))]


@shape("MatMul")
def matmul(op: Op) -> list[Dims]:
    """Return the shape of a batched matrix product."""
    first, second = operand(op, 0), operand(op, 1)
    if min(first.rank, second.rank) < 2:
        raise ShapeError("a matrix product needs rank 2 or more, but an input is a vector")
    rows, inner = first.shape[-2:][:: -1 if op.param("transpose_in0", False) else 1]
    depth, columns = second.shape[-2:][:: -1 if op.param("transpose_in1", False) else 1]
    if inner != depth:
        raise ShapeError(mismatch([first, second]))
    return [(*broadcast_shape([first, second], last=2), rows, columns)]


@shape("FullyConnected")
def fully_connected(op: Op) -> list[Dims]:
    """Return one row of units for each row of the weights' columns."""
    source, weight = operand(op, 0), operand(op, 1)
    units, width = weight.shape
    taken = row_axes(source.shape, width)
    if taken is None:
        raise ShapeError(f"the op needs {width} elements in each row, but its input is {list(source.shape)}")
    rows, held = source.shape[:-taken], op.outputs[0].shape
    if op.outputs[0].rank == 2:
        return [(math.prod(rows), units)]
    keeps = held[-1:] == (units,) and math.prod(held) == math.prod(rows) * units
    return [held if keeps else (*rows, units)]


def row_axes(shape: tuple[int, ...], width: int) -> int | None:
    """Return how many of the last axes make up a row of ``width`` elements, or None."""
    return next((n for n in range(1, len(shape) + 1) if math.prod(shape[-n:]) == width), None)
