"""Shape functions of resizing, sampling and blocks."""

from __future__ import annotations

from xdlc.ir import Op
from xdlc.opdefs.args import integers, operand
from xdlc.opdefs.shapes.base import Dims, ShapeError, shape


@shape("Resize", "ResizeBilinear", "ResizeNearestNeighbor")
def resize(op: Op) -> list[Dims]:
    """Return batch and channels of the image; the output states its size."""
    source = operand(op, 0)
    return [(source.shape[0], *(None for _ in source.shape[2:]), source.shape[-1])]


@shape("GridSample")
def grid_sample(op: Op) -> list[Dims]:
    """Return the dimensions of the grid with the channels of the image."""
    source, grid = operand(op, 0), operand(op, 1)
    if source.shape[0] != grid.shape[0]:
        raise ShapeError(f"a grid for {grid.shape[0]} images does not fit a batch of {source.shape[0]}")
    return [(source.shape[0], *grid.shape[1:-1], source.shape[-1])]


@shape("CropAndResize", "RoiAlign")
def crops(op: Op) -> list[Dims]:
    """Return one crop a box, of the size that the output states."""
    source, boxes, held = operand(op, 0), operand(op, 1), op.outputs[0].shape
    return [(boxes.shape[0], *held[1:-1], source.shape[-1])]


@shape("SpaceToDepth")
def space_to_depth(op: Op) -> list[Dims]:
    """Return the shape after blocks are moved to channels."""
    batch, height, width, depth = operand(op, 0).shape
    down, across = integers(op, "block_size", 2)
    if height % down or width % across:
        raise ShapeError(f"blocks of {down}x{across} do not divide {height}x{width}")
    return [(batch, height // down, width // across, depth * down * across)]


@shape("DepthToSpace")
def depth_to_space(op: Op) -> list[Dims]:
    """Return the shape after channels are moved to blocks."""
    batch, height, width, depth = operand(op, 0).shape
    down, across = integers(op, "block_size", 2)
    return [(batch, height * down, width * across, depth // (down * across))]


@shape("SpaceToBatch")
def space_to_batch(op: Op) -> list[Dims]:
    """Return the shape after blocks of the padded image are moved to the batch."""
    batch, height, width, depth = operand(op, 0).shape
    down, across = integers(op, "block_size", 2)
    top, bottom, left, right = integers(op, "pad_amount", 4)
    height, width = height + top + bottom, width + left + right
    if height % down or width % across:
        raise ShapeError(f"blocks of {down}x{across} do not divide the padded {height}x{width}")
    return [(batch * down * across, height // down, width // across, depth)]


@shape("BatchToSpace")
def batch_to_space(op: Op) -> list[Dims]:
    """Return the shape after the batch is moved to blocks and edges are cropped."""
    batch, height, width, depth = operand(op, 0).shape
    down, across = integers(op, "block_size", 2)
    top, bottom, left, right = integers(op, "crops", 4)
    if batch % (down * across):
        raise ShapeError(f"blocks of {down}x{across} do not divide a batch of {batch}")
    return [(batch // (down * across), height * down - top - bottom, width * across - left - right, depth)]
