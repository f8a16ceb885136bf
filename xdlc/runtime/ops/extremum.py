"""Positions of extreme values: Argmax, Argmin, TopK."""

from __future__ import annotations

import numpy

from xdlc.ir import Op
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.ops import flip_sign_bit, is_uint64, lowering

INDEX = numpy.dtype(numpy.int64)


@lowering("Argmax", "Argmin")
def arg_extremum(op: Op, b: Builder) -> None:
    """Lower to ArgMax or ArgMin; the first of equals wins."""
    source = args.operand(op, 0)
    type = "ArgMax" if op.type == "Argmax" else "ArgMin"
    keep = int(bool(op.param("keep_dims", False)))
    x = flip_sign_bit(b, b.read(source)) if is_uint64(source) else b.read(source)
    value = b.node(type, [x], axis=args.axis(op, source.rank), keepdims=keep)
    b.write(args.result(op), value, dtype=INDEX)


@lowering("TopK")
def top_k(op: Op, b: Builder) -> None:
    """Lower to TopK over the last axis."""
    source = args.operand(op, 0)
    wide = is_uint64(source)
    x = flip_sign_bit(b, b.read(source)) if wide else b.read(source)
    inputs = [x, b.ints(int(args.required(op, "k")))]
    largest = int(bool(op.param("largest", True)))
    values, positions = b.nodes_out("TopK", inputs, 2, axis=-1, largest=largest, sorted=1)
    b.write(args.result(op, 0), flip_sign_bit(b, values) if wide else values)
    if len(op.outputs) > 1:
        b.write(op.outputs[1], positions, dtype=INDEX)
