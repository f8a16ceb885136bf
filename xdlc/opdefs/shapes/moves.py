"""Shape functions of ops that move, join, split, repeat or select elements."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise

from xdlc.ir import HOST_PACKAGE, Op, Tensor
from xdlc.opdefs.args import axes, axis, integers, operand, required
from xdlc.opdefs.shapes.base import Dims, ShapeError, mismatch, shape


@shape("Reinterpret", package=HOST_PACKAGE)
@shape("BatchPermutation", "ChannelShuffle", "RotaryEmbedding", "ScatterElements", "ScatterNd")
def same(op: Op) -> list[Dims]:
    """Return the shape of the first operand."""
    return [operand(op, 0).shape]


@shape("If")
def branches(_op: Op) -> list[Dims] | None:
    """Return None: only the graphs of the branches determine the shapes."""
    return None


@shape("Transpose")
def transpose(op: Op) -> list[Dims]:
    """Return the dimensions in the order of the permutation."""
    source = operand(op, 0)
    perm = axes(op, source.rank, name="perm")
    if len(perm) != source.rank:
        raise ShapeError(f"its permutation {list(perm)} does not fit rank {source.rank}")
    return [tuple(source.shape[place] for place in perm)]


@shape("Tile")
def tile(op: Op) -> list[Dims]:
    """Return the dimensions times the multiples."""
    source = operand(op, 0)
    multiples = integers(op, "multiples", source.rank)
    return [tuple(size * count for size, count in zip(source.shape, multiples, strict=True))]


@shape("Concat")
def concat(op: Op) -> list[Dims]:
    """Return the shape of the operands with their sum along the axis."""
    tensors = _operands(op)
    place = axis(op, tensors[0].rank)
    if len({(tensor.shape[:place], tensor.shape[place + 1 :]) for tensor in tensors}) > 1:
        raise ShapeError(mismatch(tensors))
    first = tensors[0].shape
    return [(*first[:place], sum(tensor.shape[place] for tensor in tensors), *first[place + 1 :])]


@shape("Pack")
def pack(op: Op) -> list[Dims]:
    """Return the shape of the operands with their number on the new axis."""
    tensors = _operands(op)
    place = axis(op, tensors[0].rank + 1)
    if len({tensor.shape for tensor in tensors}) > 1:
        raise ShapeError(mismatch(tensors))
    return [(*tensors[0].shape[:place], len(tensors), *tensors[0].shape[place:])]


def _operands(op: Op) -> list[Tensor]:
    operand(op, 0)
    return [tensor for tensor in op.inputs if tensor is not None]


@shape("Split")
def split(op: Op) -> list[Dims]:
    """Return the slices between the indices."""
    source = operand(op, 0)
    place = axis(op, source.rank)
    ends = [0, *integers(op, "split_index"), source.shape[place]]
    sizes = [stop - start for start, stop in pairwise(ends)]
    if len(sizes) != len(op.outputs) or min(sizes) < 0:
        raise ShapeError(
            f"indices {ends[1:-1]} do not split {source.shape[place]} elements into {len(op.outputs)} parts"
        )
    return [(*source.shape[:place], size, *source.shape[place + 1 :]) for size in sizes]


@shape("UnPack")
def unpack(op: Op) -> list[Dims]:
    """Return the shape without the axis, whose dimension is the number of results."""
    source = operand(op, 0)
    place = axis(op, source.rank)
    if source.shape[place] != len(op.outputs):
        raise ShapeError(f"{source.shape[place]} parts need as many outputs, not {len(op.outputs)}")
    return [(*source.shape[:place], *source.shape[place + 1 :]) for _ in op.outputs]


@shape("StridedSlice")
def strided_slice(op: Op) -> list[Dims] | None:
    """Return the shape after slicing; None if the op adds axes."""
    source = operand(op, 0)
    if int(op.param("new_axes_mask", 0)):
        return None
    ranges = integers(op, "ranges", 3 * source.rank)
    begin, end, shrink = (int(op.param(name, 0)) for name in ("begin_mask", "end_mask", "shrink_axes"))
    return [
        tuple(
            range_count(ranges[3 * at : 3 * at + 3], size, bool(begin >> at & 1), bool(end >> at & 1))
            for at, size in enumerate(source.shape)
            if not shrink >> at & 1
        )
    ]


def range_count(held: list[int], size: int, begin_open: bool, end_open: bool) -> int:
    """Return the number of elements of a range, in either direction.

    An end of -1 precedes the first element if the range goes backwards.
    """
    begin, end, step = held
    if step == 0:
        raise ShapeError("its range has stride 0")
    if step > 0:
        first = 0 if begin_open else min(max(begin + size if begin < 0 else begin, 0), size)
        last = size if end_open else min(max(end + size if end < 0 else end, 0), size)
        return max(0, -(-(last - first) // step))
    first = size - 1 if begin_open else min(begin + size if begin < 0 else begin, size - 1)
    last = -1 if end_open else max(end, -1)
    return max(0, -(-(last - first) // step))


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
    """Return the shape of the positions, followed by the unindexed axes of the data."""
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
        raise ShapeError(f"it selects {count} of only {source.shape[-1]} elements")
    return [(*source.shape[:-1], count) for _ in op.outputs]


@shape("OneHot")
def one_hot(op: Op) -> list[Dims]:
    """Return the shape with the depth on a new axis."""
    source = operand(op, 0)
    at = axis(op, source.rank + 1, default=source.rank)
    return [(*source.shape[:at], int(required(op, "depth")), *source.shape[at:])]
