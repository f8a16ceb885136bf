"""Shape functions of convolutions, poolings and padding."""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.ir import Op
from xdlc.opdefs.args import integers, operand
from xdlc.opdefs.shapes.base import Dims, ShapeError, shape


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
    """Return the positions of the window, as the output states if two are in use."""
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
    """Return the dimensions with what is added at both ends."""
    source = operand(op, 0)
    pads = integers(op, "pad_amount", 2 * source.rank)
    return [tuple(size + pads[2 * axis] + pads[2 * axis + 1] for axis, size in enumerate(source.shape))]
