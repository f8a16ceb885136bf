"""Blocks of pixels as channels or batches of images [N, H, W, C]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from xdlc import ir
from xdlc.converter.functions.shapes import (
    channel_first,
    channel_last,
    dims,
    permuted,
    reshape,
    vector,
)
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import CONTRADICTION
from xdlc.converter.values import Value, identity
from xdlc.errors import ModelError


def space_to_depth(g: Operators, x: Value, block: int) -> Value:
    """Return blocks of [N, H, W, C] as channels: (y * block + x) * C + c."""
    return channel_last(g, g("SpaceToDepth", [channel_first(g, x)], blocksize=block))


def depth_to_space(g: Operators, x: Value, block: int) -> Value:
    """Return channels (y * block + x) * C + c of [N, H, W, ...] as blocks."""
    return channel_last(g, g("DepthToSpace", [channel_first(g, x)], blocksize=block, mode="DCR"))


def space_to_batch(g: Operators, x: Value, block: Sequence[int], pads: Sequence[Sequence[int]]) -> Value:
    """Return spatial blocks as batches: axes are padded and cut into ``block[i]``.

    Args:
        x: [N, spatial..., rest...]; as many spatial axes as ``block`` has numbers.
        pads: Amounts before and after each spatial axis.

    Raises:
        ModelError: If the blocks do not divide the padded sizes.
    """
    count, shape = len(block), list(dims(x))
    if count >= len(shape) or len(pads) != count or min(block, default=1) < 1:
        raise ModelError(f"blocks {list(block)} do not fit a tensor {shape}", fix=CONTRADICTION)
    if _is_image(x, block):
        images, amounts, sizes = _images(g, x, block, pads)
        (batch, height, width, depth), (tall, wide) = images.shape, sizes
        height, width = height + sum(amounts[0]), width + sum(amounts[1])
        if height % tall or width % wide:
            raise ModelError(
                f"blocks {list(block)} do not divide an image {[height, width]}", fix=CONTRADICTION
            )
        made = (batch * tall * wide, height // tall, width // wide, depth)
        params: dict[str, ir.Param] = {"block_size": ir.u32s(sizes), "pad_amount": ir.u32s(amounts)}
        return _laid(g, "SpaceToBatch", images, made, params, len(shape))
    before = [0, *(pair[0] for pair in pads), *[0] * (len(shape) - 1 - count)]
    after = [0, *(pair[1] for pair in pads), *[0] * (len(shape) - 1 - count)]
    if any((*before, *after)):
        x = g("Pad", [x, [*before, *after]])
    shape = [size + first + last for size, first, last in zip(shape, before, after, strict=True)]
    if any(size % width for size, width in zip(shape[1:], block, strict=False)):
        raise ModelError(
            f"blocks {list(block)} do not divide the axes {shape[1 : count + 1]}", fix=CONTRADICTION
        )
    apart = [shape[0]]
    for size, width in zip(shape[1:], block, strict=False):
        apart += [size // width, width]
    order = [*range(2, 2 * count + 1, 2), 0, *range(1, 2 * count, 2)]
    order += range(2 * count + 1, len(shape) + count)
    sizes = [size // width for size, width in zip(shape[1:], block, strict=False)]
    result = [shape[0] * int(np.prod(block)), *sizes, *shape[count + 1 :]]
    return reshape(g, permuted(g, reshape(g, x, [*apart, *shape[count + 1 :]]), order), result)


def _is_image(x: Value, block: Sequence[int]) -> bool:
    """Return whether QNN supports the blocks: one or two axes before the channels."""
    return not x.is_static and x.dtype.is_float and len(block) in (1, 2) and x.rank == len(block) + 2


def _images(
    g: Operators, x: Value, block: Sequence[int], pairs: Sequence[Sequence[int]]
) -> tuple[Value, list[tuple[int, ...]], list[int]]:
    """Return [N, H, W, C] of one or two spatial axes, with pads and blocks of both."""
    if len(block) == 2:
        return x, [tuple(pair) for pair in pairs], list(block)
    batch, width, depth = x.shape
    return reshape(g, x, (batch, 1, width, depth)), [(0, 0), *map(tuple, pairs)], [1, *block]


def _laid(
    g: Operators, type: str, images: Value, shape: Sequence[int], params: Mapping[str, ir.Param], rank: int
) -> Value:
    """Append an operation on images; return its result with one spatial axis or two."""
    b = g.builder
    out = b.emit(type, [b.source_order(images)], shape, images.dtype, params)
    made = Value(out, identity(4))
    return made if rank == 4 else reshape(g, made, (shape[0], *shape[2:]))


def batch_to_space(g: Operators, x: Value, block: Sequence[int], crops: Sequence[Sequence[int]]) -> Value:
    """Return batches as spatial blocks, cropped: the inverse of ``space_to_batch``.

    Raises:
        ModelError: If the blocks do not divide the batch, or nothing is left.
    """
    count, shape = len(block), list(dims(x))
    whole = int(np.prod(block))
    if count >= len(shape) or len(crops) != count or whole < 1 or shape[0] % whole:
        raise ModelError(f"blocks {list(block)} do not fit a tensor {shape}", fix=CONTRADICTION)
    given = [size * width for size, width in zip(shape[1:], block, strict=False)]
    if any(not 0 <= pair[0] <= size - pair[1] <= size for pair, size in zip(crops, given, strict=True)):
        raise ModelError(f"crops {list(crops)} are larger than the sizes {given}", fix=CONTRADICTION)
    if _is_image(x, block):
        images, cuts, sizes = _images(g, x, block, crops)
        (_, height, width, depth), (tall, wide) = images.shape, sizes
        made = (shape[0] // whole, height * tall - sum(cuts[0]), width * wide - sum(cuts[1]), depth)
        params: dict[str, ir.Param] = {"block_size": ir.u32s(sizes), "crops": ir.u32s(cuts)}
        return _laid(g, "BatchToSpace", images, made, params, len(shape))
    apart = [*block, shape[0] // whole, *shape[1:]]
    order = [count]
    for axis in range(count):
        order += [count + 1 + axis, axis]
    order += range(2 * count + 1, len(apart))
    sizes = [size * width for size, width in zip(shape[1:], block, strict=False)]
    x = reshape(g, permuted(g, reshape(g, x, apart), order), [shape[0] // whole, *sizes, *shape[count + 1 :]])
    starts = [pair[0] for pair in crops]
    ends = [size - pair[1] for size, pair in zip(sizes, crops, strict=True)]
    axes = [axis for axis in range(count) if (starts[axis], ends[axis]) != (0, sizes[axis])]
    if not axes:
        return x
    first, last = vector(g, [starts[axis] for axis in axes]), vector(g, [ends[axis] for axis in axes])
    return g("Slice", [x, first, last, [axis + 1 for axis in axes], [1] * len(axes)])
