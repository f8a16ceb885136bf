"""Ops whose results have extents of their own: images resized and cut out, and tensors repeated."""

from __future__ import annotations

from xdlc.ir import Op
from xdlc.prepare.edit.redimension.registry import Misfit, Shape, rule
from xdlc.prepare.edit.redimension.resize_context import ResizeContext
from xdlc.prepare.edit.redimension.rules.windows import set_numbers
from xdlc.runtime import args


@rule("Resize", "ResizeBilinear", "ResizeNearestNeighbor", always=True)
def resize(op: Op, context: ResizeContext) -> list[Shape]:
    """Return extents in the ratio that they had, or those that stand elsewhere in place of the old ones."""
    source, target = args.operand(op, 0), op.outputs[0]
    before, wanted = context.shape(source), target.shape
    shape = [source.shape[0], *wanted[1:-1], source.shape[-1]]
    if len(wanted) != source.rank or source.rank < 3:
        raise Misfit(f"cannot resize {list(before)} to {list(wanted)}")
    unconfirmed = False
    for axis in range(1, source.rank - 1):
        place = (source.rank, axis)
        shape[axis] = _resized(context, place, before[axis], source.shape[axis], wanted[axis])
        unconfirmed |= shape[axis] not in (
            wanted[axis],
            source.shape[axis],
            *context.known(*place, wanted[axis]),
        )
    if unconfirmed:
        context.notes.append(
            f"op {op.name!r} ({op.type}) resized {list(before)} to {list(wanted)}, and is taken to keep its "
            f"factors: {list(source.shape)} to {shape}"
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
        raise Misfit(f"it resizes {old} to {target}, and {new} to {ways}")
    return found.pop()


def _of_one(elsewhere: set[int], target: int) -> int:
    """Return what has become of an extent that one element was repeated to."""
    if target == 1 or not elsewhere:
        return target
    if len(elsewhere) > 1:
        ways = " or ".join(map(str, sorted(elsewhere)))
        raise Misfit(f"it spreads one element over {target}, now {ways}")
    return min(elsewhere)


@rule("Tile", always=True)
def tile(op: Op, context: ResizeContext) -> list[Shape]:
    """Return the multiples; of one element, as many as an axis has now that was as long."""
    source = args.operand(op, 0)
    before = context.shape(source)
    multiples = args.integers(op, "multiples", source.rank)
    for axis, count in enumerate(multiples):
        if before[axis] == source.shape[axis] == 1:
            multiples[axis] = _of_one(context.known(source.rank, axis, count), count)
    set_numbers(op, "multiples", multiples)
    return [tuple(extent * count for extent, count in zip(source.shape, multiples, strict=True))]


@rule("GridSample")
def grid_sample(op: Op, _context: ResizeContext) -> list[Shape]:
    """Return the grid's extents with the image's channels."""
    source, grid = args.operand(op, 0), args.operand(op, 1)
    if source.shape[0] != grid.shape[0]:
        raise Misfit(f"a grid for {grid.shape[0]} images does not go with {source.shape[0]}")
    return [(source.shape[0], *grid.shape[1:-1], source.shape[-1])]


@rule("CropAndResize", "RoiAlign")
def crops(op: Op, _context: ResizeContext) -> list[Shape]:
    """Return crops of the size that they had, one a box."""
    source, boxes, held = args.operand(op, 0), args.operand(op, 1), op.outputs[0].shape
    return [(boxes.shape[0], *held[1:-1], source.shape[-1])]


@rule("SpaceToDepth")
def space_to_depth(op: Op, _context: ResizeContext) -> list[Shape]:
    """Return blocks that have become channels."""
    batch, height, width, depth = args.operand(op, 0).shape
    down, across = args.integers(op, "block_size", 2)
    if height % down or width % across:
        raise Misfit(f"blocks of {down}x{across} do not divide {height}x{width}")
    return [(batch, height // down, width // across, depth * down * across)]


@rule("DepthToSpace")
def depth_to_space(op: Op, _context: ResizeContext) -> list[Shape]:
    """Return channels that have become blocks."""
    batch, height, width, depth = args.operand(op, 0).shape
    down, across = args.integers(op, "block_size", 2)
    return [(batch, height * down, width * across, depth // (down * across))]


@rule("ChannelShuffle")
def channel_shuffle(op: Op, _context: ResizeContext) -> list[Shape]:
    """Return the operand's shape."""
    return [args.operand(op, 0).shape]


@rule("SpaceToBatch")
def space_to_batch(op: Op, _context: ResizeContext) -> list[Shape]:
    """Return blocks of the padded image that have become items of the batch."""
    batch, height, width, depth = args.operand(op, 0).shape
    down, across = args.integers(op, "block_size", 2)
    top, bottom, left, right = args.integers(op, "pad_amount", 4)
    height, width = height + top + bottom, width + left + right
    if height % down or width % across:
        raise Misfit(f"blocks of {down}x{across} do not divide the padded {height}x{width}")
    return [(batch * down * across, height // down, width // across, depth)]


@rule("BatchToSpace")
def batch_to_space(op: Op, _context: ResizeContext) -> list[Shape]:
    """Return items of the batch that have become blocks, with the edges cut off."""
    batch, height, width, depth = args.operand(op, 0).shape
    down, across = args.integers(op, "block_size", 2)
    top, bottom, left, right = args.integers(op, "crops", 4)
    if batch % (down * across):
        raise Misfit(f"blocks of {down}x{across} do not divide a batch of {batch}")
    return [(batch // (down * across), height * down - top - bottom, width * across - left - right, depth)]
