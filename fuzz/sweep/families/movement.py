"""Operators that move numbers: transpositions, parts, padding, gathers."""

from __future__ import annotations

import math

import numpy as np

from fuzz.sweep.draft import Draft, Unfit, family


def _source(d: Draft, shape: tuple[int, ...]) -> str:
    """Add an input of floats, or in some cases of integers."""
    if d.flag(0.2):
        d.quantizable = False
        return d.integers(shape, -99, 99)
    return d.input(shape)


@family("transpose")
def transpose(d: Draft) -> None:
    """Draw a Transpose, alone or between Reshapes."""
    shape = d.ranked(2, 5)
    order = sorted(range(len(shape)), key=lambda _: d.between(0, 1000))
    result = d.node("Transpose", _source(d, shape), perm=order)
    if d.flag(0.3):
        d.node("Reshape", result, d.indices(-1))


@family("cut")
def cut(d: Draft) -> None:
    """Draw a Slice or a Split."""
    shape = d.ranked()
    axis = d.between(0, len(shape) - 1)
    size, x = shape[axis], _source(d, shape)
    if d.flag(0.4) and size > 1:
        first = d.between(1, size - 1)
        d.several("Split", [x, d.indices(first, size - first)], 2, axis=axis)
        return
    if d.flag(0.3):
        d.node("Slice", x, *(d.indices(number) for number in (size - 1, -size - 1, axis, -d.between(1, 2))))
        return
    first = d.between(0, size - 1)
    bounds = (first, d.between(first + 1, size), axis, d.pick(1, 1, 2, 3))
    d.node("Slice", x, *(d.indices(number) for number in bounds))


@family("join")
def join(d: Draft) -> None:
    """Draw a Concat of two or three."""
    shape = d.shape(d.between(1, 5), 1 << 12)
    axis = d.between(0, len(shape) - 1)
    d.quantizable = d.flag(0.8)
    operands = []
    for _ in range(d.between(2, 3)):
        own = (*shape[:axis], d.size(33), *shape[axis + 1 :])
        if math.prod(own) > 1 << 14:
            raise Unfit
        operands.append(d.input(own) if d.quantizable else d.integers(own, -9, 9))
    d.node("Concat", *operands, axis=axis)


@family("pad")
def pad(d: Draft) -> None:
    """Draw a Pad of any mode, of one axis or several."""
    d.opset = 19
    shape = d.shape(d.between(1, 4), 1 << 12)
    mode = d.pick("constant", "constant", "reflect", "edge", "wrap")
    rank = len(shape)
    amounts = [0] * (2 * rank)
    for axis in [d.between(0, rank - 1)] if d.flag() else range(rank):
        most = min(3, shape[axis] - 1) if mode in ("reflect", "wrap") else 3
        amounts[axis], amounts[axis + rank] = (d.between(0, max(0, most)) for _ in range(2))
    value = [d.constant(np.float32(d.pick(0, 0.5)))] if mode == "constant" else []
    d.node("Pad", d.input(shape), d.indices(*amounts), *value, mode=mode)


@family("repeat")
def repeat(d: Draft) -> None:
    """Draw a Tile or an Expand."""
    shape = d.shape(d.between(1, 4), 1 << 10)
    if d.flag():
        d.node("Tile", _source(d, shape), d.indices(*(d.pick(1, 1, 2, 3) for _ in shape)))
        return
    source = tuple(1 if d.flag() else size for size in shape)
    d.node("Expand", _source(d, source), d.indices(*shape))


@family("gather")
def gather(d: Draft) -> None:
    """Draw a Gather, GatherElements or GatherND."""
    shape = d.shape(d.between(1, 4), 1 << 12)
    type = d.pick("Gather", "Gather", "GatherElements", "GatherND")
    axis = d.between(0, len(shape) - 1)
    x = _source(d, shape)
    if type == "Gather":
        size, count = shape[axis], d.pick((), (1,), (3,), (2, 3), (40,), (3, 32))
        values = [d.between(-size, size - 1) for _ in range(math.prod(count))]
        if d.flag(0.6):
            index = d.constant(np.reshape(values, count), d.pick(np.int64, np.int32))
        else:
            index = d.integers(count or (1,), -size, size, np.int64)
        d.node(type, x, index, axis=axis)
    elif type == "GatherElements":
        own = tuple(max(1, size // d.pick(1, 2)) if at == axis else size for at, size in enumerate(shape))
        d.node(type, x, d.integers(own, -shape[axis], shape[axis], np.int64), axis=axis)
    else:
        batch = 1 if len(shape) > 1 and d.flag(0.4) else 0
        depth = d.between(1, len(shape) - batch)
        count = d.pick(1, 2, 3, 4, 40)
        places = [
            [[d.between(0, size - 1) for size in shape[batch : batch + depth]] for _ in range(count)]
            for _ in range(shape[0] if batch else 1)
        ]
        d.node(type, x, d.constant(places if batch else places[0], np.int64), batch_dims=batch)


@family("scatter")
def scatter(d: Draft) -> None:
    """Draw a ScatterElements or ScatterND, with and without a reduction."""
    shape = d.shape(d.between(1, 4), 1 << 11)
    reduction = d.pick("none", "none", "add", "mul", "max", "min")
    x = d.input(shape)
    if d.flag():
        axis = d.between(0, len(shape) - 1)
        places = np.argsort(d.floats(shape), axis=axis)
        d.node(
            "ScatterElements", x, d.constant(places, np.int64), d.input(shape), axis=axis, reduction=reduction
        )
        return
    depth = d.between(1, len(shape))
    rows = sorted({tuple(d.between(0, size - 1) for size in shape[:depth]) for _ in range(3)})
    updates = d.input((len(rows), *shape[depth:]))
    d.node("ScatterND", x, d.constant(rows, np.int64), updates, reduction=reduction)


@family("blocks")
def blocks(d: Draft) -> None:
    """Draw a DepthToSpace, SpaceToDepth, Trilu, OneHot or ReverseSequence."""
    type = d.pick("DepthToSpace", "SpaceToDepth", "Trilu", "OneHot", "ReverseSequence")
    block, batch, rows, columns = d.between(2, 4), d.pick(1, 1, 2, 3), d.between(1, 9), d.between(1, 9)
    if type == "DepthToSpace":
        channels = block * block * d.between(1, 16)
        mode = d.pick("DCR", "CRD")
        d.node(type, d.input((batch, channels, rows, columns)), blocksize=block, mode=mode)
    elif type == "SpaceToDepth":
        d.node(type, d.input((batch, d.size(33), rows * block, columns * block)), blocksize=block)
    elif type == "Trilu":
        shape = d.ranked(2, 4)
        d.node(type, d.input(shape), d.constant(d.between(-2, 2), np.int64), upper=d.pick(0, 1))
    elif type == "OneHot":
        d.quantizable, depth = False, d.size(65)
        index = d.integers(d.pick((5,), (3, 5)), 0, depth, np.int64)
        values = d.constant([0, 1])
        d.node(type, index, d.constant(depth, np.int64), values, axis=d.pick(-1, 0, 1))
    else:
        time, count = d.between(2, 9), d.between(1, 5)
        lengths = d.indices(*(d.between(1, time) for _ in range(count)))
        d.node(type, d.input((time, count, d.size(33))), lengths, time_axis=0, batch_axis=1)


@family("views")
def views(d: Draft) -> None:
    """Draw the Reshape and Transpose of attention heads, and a shuffle of channels."""
    rows, heads, width = d.size(33), d.between(1, 8), d.size(33)
    if d.flag():
        parts = d.node("Reshape", d.input((1, rows, heads * width)), d.indices(1, rows, heads, width))
        d.node("Transpose", parts, perm=d.pick([0, 2, 1, 3], [0, 2, 3, 1]))
        return
    parts = d.node("Reshape", d.input((1, heads * width, 3, 4)), d.indices(1, heads, width, 3, 4))
    turned = d.node("Transpose", parts, perm=[0, 2, 1, 3, 4])
    d.node("Reshape", turned, d.indices(1, heads * width, 3, 4))
