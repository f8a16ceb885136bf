"""Shape functions of operations that select elements or their positions."""

from __future__ import annotations

from collections.abc import Collection

from xdlc.ir import Op
from xdlc.opdefs.args import axes, axis, operand, required
from xdlc.opdefs.shapes.base import Dims, ShapeError, shape


@shape("Gather")
def gather(op: Op) -> list[Dims]:
    """Return the shape with that of the positions in place of the axis."""
    source, places = operand(op, 0), operand(op, 1)
    at = axis(op, source.rank, default=0)
    return [(*source.shape[:at], *places.shape, *source.shape[at + 1 :])]


@shape("GatherElements")
def gather_elements(op: Op) -> list[Dims]:
    """Return the shape of the positions."""
    source, places = operand(op, 0), operand(op, 1)
    at = axis(op, source.rank, default=0)
    others = (other for other in range(source.rank) if other != at)
    if any(places.shape[other] > source.shape[other] for other in others):
        raise ShapeError(f"positions {list(places.shape)} do not fit {list(source.shape)}")
    return [places.shape]


@shape("GatherNd")
def gather_nd(op: Op) -> list[Dims]:
    """Return the shape of the positions followed by what they leave of the data."""
    source, places = operand(op, 0), operand(op, 1)
    shared, depth = int(op.param("batch_dims", 0)), places.shape[-1]
    if source.shape[:shared] != places.shape[:shared]:
        raise ShapeError(f"positions {list(places.shape)} do not fit {list(source.shape)}")
    return [(*places.shape[:-1], *source.shape[shared + depth :])]


@shape("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Moments")
def reduce(op: Op) -> list[Dims]:
    """Return the shape without the axes, or with 1 on them."""
    source = operand(op, 0)
    taken = axes(op, source.rank, default=tuple(range(source.rank)))
    return [_without(source.shape, taken, bool(op.param("keep_dims", False))) for _ in op.outputs]


@shape("Argmax", "Argmin")
def position_of_extreme(op: Op) -> list[Dims]:
    """Return the shape without the axis, or with 1 on it."""
    source = operand(op, 0)
    return [_without(source.shape, [axis(op, source.rank)], bool(op.param("keep_dims", False)))]


def _without(shape: tuple[int, ...], taken: Collection[int], keeps: bool) -> tuple[int, ...]:
    if keeps:
        return tuple(1 if place in taken else size for place, size in enumerate(shape))
    return tuple(size for place, size in enumerate(shape) if place not in taken)


@shape("TopK")
def top_k(op: Op) -> list[Dims]:
    """Return the shape with ``k`` on the last axis."""
    source, count = operand(op, 0), int(op.param("k", 0))
    if count > source.shape[-1]:
        raise ShapeError(f"it selects {count} of {source.shape[-1]}")
    return [(*source.shape[:-1], count) for _ in op.outputs]


@shape("OneHot")
def one_hot(op: Op) -> list[Dims]:
    """Return the shape with the depth on a new axis."""
    source = operand(op, 0)
    at = axis(op, source.rank + 1, default=source.rank)
    return [(*source.shape[:at], int(required(op, "depth")), *source.shape[at:])]
