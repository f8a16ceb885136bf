"""Concat and Split along an axis, Pack and UnPack of one."""

from __future__ import annotations

import functools
import itertools

import numpy

from xdlc.errors import ModelError
from xdlc.ir import Op
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.ops import lowering


@lowering("Concat")
def concat(op: Op, b: Builder) -> None:
    """Lower to Concat."""
    tensors = [args.operand(op, index) for index in range(len(op.inputs))]
    if not tensors:
        raise ModelError("has no inputs")
    rank, target = tensors[0].rank, args.result(op)
    axis = args.axis(op, rank, default=rank - 1)
    dtype = functools.reduce(numpy.promote_types, (b.held(tensor) for tensor in tensors))
    shared = [
        order
        for order in b.orders(tensors[0])
        if all(tensor.is_static or order in b.orders(tensor) for tensor in tensors)
    ]
    order = shared[0] if shared else tuple(range(rank))
    values = [b.read(tensor, order, dtype=dtype) for tensor in tensors]
    b.write(target, b.node("Concat", values, axis=order.index(axis)), order, dtype=dtype)


@lowering("Pack")
def pack(op: Op, b: Builder) -> None:
    """Lower to Unsqueeze of each input and Concat."""
    tensors = [args.operand(op, index) for index in range(len(op.inputs))]
    if not tensors:
        raise ModelError("has no inputs")
    axis = args.axis(op, tensors[0].rank + 1)
    values = [b.node("Unsqueeze", [b.read(tensor, dtype=b.held(tensor)), b.ints(axis)]) for tensor in tensors]
    b.write(args.result(op), b.node("Concat", values, axis=axis), dtype=b.held(tensors[0]))


@lowering("Split")
def split(op: Op, b: Builder) -> None:
    """Lower to Split; ``split_index`` lists where each output after the first begins."""
    source = args.operand(op, 0)
    axis = args.axis(op, source.rank)
    dim = source.shape[axis]
    bounds = [0, *args.integers(op, "split_index"), dim]
    sizes = [end - begin for begin, end in itertools.pairwise(bounds)]
    if min(sizes) < 0 or len(sizes) != len(op.outputs):
        raise ModelError(f"'split_index' {bounds[1:-1]} does not cut {dim} into {len(op.outputs)} outputs")
    values = b.nodes_out("Split", [b.read(source), b.ints(*sizes)], len(sizes), axis=axis)
    for tensor, value in zip(op.outputs, values, strict=True):
        b.write(tensor, value)


@lowering("UnPack")
def unpack(op: Op, b: Builder) -> None:
    """Lower to Split into slices of size 1 and Squeeze of each."""
    source = args.operand(op, 0)
    axis = args.axis(op, source.rank)
    count = len(op.outputs)
    if count != source.shape[axis]:
        raise ModelError(f"axis {axis} has size {source.shape[axis]}, but there are {count} outputs")
    values = b.nodes_out("Split", [b.read(source), b.ints(*[1] * count)], count, axis=axis)
    for tensor, value in zip(op.outputs, values, strict=True):
        b.write(tensor, b.node("Squeeze", [value, b.ints(axis)]))
