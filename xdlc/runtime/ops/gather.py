"""Selection and replacement of elements by position: Gather and Scatter ops."""

from __future__ import annotations

from typing import Any

import numpy

from xdlc.errors import ModelError
from xdlc.ir import Op, Tensor
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.ops import lowering

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
