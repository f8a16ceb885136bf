"""Concat along an axis, and Pack along a new one."""

from __future__ import annotations

import functools

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
