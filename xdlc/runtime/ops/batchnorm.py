"""Batchnorm: a factor and a summand per channel, the statistics folded in."""

from __future__ import annotations

from xdlc.ir import Op
from xdlc.runtime import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.registry import lowering


@lowering("Batchnorm")
def batchnorm(op: Op, b: Builder) -> None:
    """Lower to ``x * weight + bias`` along the last axis."""
    source, bias = args.operand(op, 0), args.optional(op, 2)
    value = b.node("Mul", [b.read(source), b.read(args.operand(op, 1))])
    if bias is not None:
        value = b.node("Add", [value, b.read(bias)])
    b.write(args.result(op), value)
