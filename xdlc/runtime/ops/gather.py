"""Gather, GatherElements and GatherNd."""

from __future__ import annotations

import numpy

from xdlc.ir import Op, Tensor
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.ops import lowering

INDEX = numpy.dtype(numpy.int64)


def _indices(b: Builder, index: Tensor) -> str:
    """Return indices in a type that the ONNX ops take: 64 bits where they are static, else 32 or 64."""
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
