"""Positions: Gather and Scatter ops, Argmax, TopK, OneHot, and shapes as values."""

from __future__ import annotations

from typing import Any

import numpy

from xdlc.errors import ModelError
from xdlc.ir import Op, Tensor
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.ops import flip_sign_bit, is_uint64, lowering

INDEX = numpy.dtype(numpy.int64)


def _indices(b: Builder, index: Tensor) -> str:
    """Return indices in a type of the ONNX ops: int64 if static, else int32 too."""
    return b.read(index, dtype=INDEX if index.is_static else None)


@lowering("Gather", "GatherElements")
def gather(op: Op, b: Builder) -> None:
    """Lower to the ONNX op of the same name; negative indices count from the end."""
    source, index = args.operand(op, 0), args.operand(op, 1)
    axis = args.axis(op, source.rank, default=0)
    value = b.node(op.type, [b.read(source, dtype=b.held(source)), _indices(b, index)], axis=axis)
    b.write(args.result(op), value, dtype=b.held(source))


@lowering("GatherNd")
def gather_nd(op: Op, b: Builder) -> None:
    """Lower to GatherND."""
    source, index = args.operand(op, 0), args.operand(op, 1)
    inputs = [b.read(source), b.read(index, dtype=INDEX)]
    b.write(args.result(op), b.node("GatherND", inputs, batch_dims=int(op.param("batch_dims", 0))))


REDUCTIONS = ("none", "add", "mul", "max")


@lowering("ScatterElements", "ScatterNd")
def scatter(op: Op, b: Builder) -> None:
    """Lower to ScatterElements or ScatterND with the reduction of the same number."""
    source, index, updates = (args.operand(op, position) for position in range(3))
    number = int(op.param("reduction", 0))
    if not 0 <= number < len(REDUCTIONS):
        raise ModelError(f"parameter 'reduction' is {number}; valid values are 0 to {len(REDUCTIONS) - 1}")
    dtype = b.dtype(source)
    inputs = [b.read(source), b.read(index, dtype=numpy.dtype(numpy.int64)), b.read(updates, dtype=dtype)]
    along: dict[str, Any] = (
        {"axis": args.axis(op, source.rank, default=0)} if op.type == "ScatterElements" else {}
    )
    type = "ScatterElements" if along else "ScatterND"
    value = b.node(type, inputs, reduction=REDUCTIONS[number], **along)
    b.write(args.result(op), b.wrapped(value, source), dtype=dtype)


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
