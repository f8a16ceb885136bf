"""OneHot."""

from __future__ import annotations

import numpy

from xdlc.ir import Op
from xdlc.runtime import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.registry import lowering


@lowering("OneHot")
def one_hot(op: Op, b: Builder) -> None:
    """Lower to OneHot; indices beyond the depth give a row of the off value."""
    index, target = args.operand(op, 0), args.result(op)
    values = [op.param("off_value", 0), op.param("on_value", 1)]
    inputs = [
        b.read(index, dtype=numpy.dtype(numpy.int64)),
        b.ints(int(args.required(op, "depth"))),
        b.constant(values, b.dtype(target)),
    ]
    axis = args.axis(op, index.rank + 1, default=index.rank)
    b.write(target, b.node("OneHot", inputs, axis=axis))
