"""Shapes as values: Shape, ConstantOfShape, NonZero."""

from __future__ import annotations

import numpy

from xdlc.ir import Op
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.ops import lowering

INDEX = numpy.dtype(numpy.int64)


@lowering("Shape")
def shape(op: Op, b: Builder) -> None:
    """Lower to Shape."""
    source = args.operand(op, 0)
    start, end = int(op.param("start", 0)), int(op.param("end", source.rank))
    b.write(args.result(op), b.node("Shape", [b.read(source)], start=start, end=end), dtype=INDEX)


@lowering("ConstantOfShape")
def constant_of_shape(op: Op, b: Builder) -> None:
    """Lower to Expand of the value."""
    dims, target = args.operand(op, 0), args.result(op)
    value = b.like(target, numpy.asarray(args.required(op, "value")).reshape(-1)[0])
    b.write(target, b.node("Expand", [value, b.read(dims, dtype=INDEX)]))


@lowering("NonZero")
def non_zero(op: Op, b: Builder) -> None:
    """Lower to NonZero, one position a row; the number of rows depends on the data."""
    value = b.node("NonZero", [b.read(args.operand(op, 0))])
    b.write(args.result(op), b.transpose(value, (1, 0)), dtype=INDEX)
