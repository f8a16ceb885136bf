"""Resize rules of resized images and repeated tensors."""

from __future__ import annotations

from xdlc.ir import Op
from xdlc.opdefs import args
from xdlc.opdefs.shapes import Dims, ShapeError, infer
from xdlc.prepare.edit.redimension.resize_context import ResizeContext, Shape, rule
from xdlc.prepare.edit.redimension.rules.windows import set_numbers


@rule("Resize", "ResizeBilinear", "ResizeNearestNeighbor", always=True)
def resize(op: Op, context: ResizeContext) -> list[Shape]:
    """Return dimensions in the old ratio, or those that replaced them elsewhere."""
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
            f"op {op.name!r} ({op.type}) resized {list(before)} to {list(after)}, assumed to keep its "
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
        raise ShapeError(f"it resizes {old} to {target}, and {new} to {ways}")
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
