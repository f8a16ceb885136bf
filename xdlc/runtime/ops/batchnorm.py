"""Batchnorm: a factor and a summand per channel, the statistics folded in."""

from __future__ import annotations

import numpy

from xdlc.ir import Op
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder, channels_first
from xdlc.runtime.ops import lowering


@lowering("Batchnorm")
def batchnorm(op: Op, b: Builder) -> None:
    """Lower to BatchNormalization of statistics that change nothing, or to ``x * weight + bias``."""
    source, weight, bias = args.operand(op, 0), args.operand(op, 1), args.optional(op, 2)
    if source.rank > 1 and source.dtype.is_float and weight.shape == source.shape[-1:]:
        order, dtype = channels_first(source.rank), b.dtype(source)
        zeros = numpy.zeros(weight.shape, dtype)
        shift = b.constant(zeros) if bias is None else b.read(bias, dtype=dtype)
        factor = b.read(weight, dtype=dtype)
        inputs = [b.read(source, order), factor, shift, b.constant(zeros), b.constant(zeros + 1)]
        b.write(args.result(op), b.node("BatchNormalization", inputs, epsilon=0.0), order)
        return
    value = b.node("Mul", [b.read(source), b.read(weight)])
    if bias is not None:
        value = b.node("Add", [value, b.read(bias)])
    b.write(args.result(op), value)
