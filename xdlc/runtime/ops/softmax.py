"""Softmax and LogSoftmax with a factor on their input."""

from __future__ import annotations

from xdlc.ir import Op
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.ops import lowering


@lowering("Softmax", "LogSoftmax")
def softmax(op: Op, b: Builder) -> None:
    """Lower to the ONNX op of the same name over ``beta * x``."""
    source = args.operand(op, 0)
    if source.dtype.name == "bfloat16":
        raise b.unsupported(
            "the partial sums of a bfloat16 Softmax: ONNX rounds each, the host sums in float32",
            "cast its input to float32 and its result back",
        )
    axis = args.axis(op, source.rank, default=source.rank - 1)
    beta = float(op.param("beta", 1.0))
    value = b.read(source)
    if beta != 1.0:
        value = b.node("Mul", [value, b.like(source, beta)])
    b.write(args.result(op), b.node(op.type, [value], axis=axis))
