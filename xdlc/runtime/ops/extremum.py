"""Positions: Argmax, Argmin, TopK and OneHot."""

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


@lowering("OneHot")
def one_hot(op: Op, b: Builder) -> None:
    """Lower to OneHot; indices out of range result in rows of the off value.

    So does the vendor's emulation of HTP (SDK 2.51); ONNX's operator counts those below 0 from the end.
    """
    index, target = args.operand(op, 0), args.result(op)
    values = [op.param("off_value", 0), op.param("on_value", 1)]
    place, depth = b.read(index, dtype=numpy.dtype(numpy.int64)), int(args.required(op, "depth"))
    # The two types that onnxruntime fills in; the parameters are exact in them.
    dtype = numpy.dtype(numpy.float32 if b.dtype(target).kind == "f" else numpy.int64)
    if index.dtype.is_signed:
        below = b.node("Less", [place, b.constant(0, numpy.int64)])
        place = b.node("Where", [below, b.constant(depth, numpy.int64), place])
    inputs = [
        place,
        b.ints(depth),
        b.constant(values, dtype),
    ]
    axis = args.axis(op, index.rank + 1, default=index.rank)
    b.write(target, b.node("OneHot", inputs, axis=axis), dtype=dtype)
