"""Reductions over axes, and CumulativeSum."""

from __future__ import annotations

from xdlc.ir import Op
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.onnx_emitter import channels_first
from xdlc.runtime.ops import flip_sign_bit, is_uint64, lowering

TYPES = {
    "ReduceMax": "ReduceMax",
    "ReduceMean": "ReduceMean",
    "ReduceMin": "ReduceMin",
    "ReduceProd": "ReduceProd",
    "ReduceSum": "ReduceSum",
    "ReduceSumSquare": "ReduceSumSquare",
}


@lowering(*TYPES)
def reduce(op: Op, b: Builder) -> None:
    """Lower to the ONNX op; spatial means of images to GlobalAveragePool."""
    source, target = args.operand(op, 0), args.result(op)
    axes, keep = args.axes(op, source.rank), bool(op.param("keep_dims", False))
    if op.type == "ReduceMean" and keep and source.rank == 4 and sorted(axes) == [1, 2]:
        order = channels_first(4)
        b.write(target, b.node("GlobalAveragePool", [b.read(source, order)]), order)
        return
    turned = is_uint64(source) and op.type in ("ReduceMax", "ReduceMin")
    x = flip_sign_bit(b, b.read(source)) if turned else b.read(source)
    value = b.node(TYPES[op.type], [x, b.ints(*axes)], keepdims=int(keep))
    value = flip_sign_bit(b, value) if turned else value
    b.write(target, b.wrapped(value, target))


@lowering("Moments")
def moments(op: Op, b: Builder) -> None:
    """Lower to mean and variance over the axes."""
    source = args.operand(op, 0)
    axes, keep = args.axes(op, source.rank), int(bool(args.required(op, "keep_dims")))
    x, along = b.read(source), b.ints(*args.axes(op, source.rank))
    centred = b.node("Sub", [x, b.node("ReduceMean", [x, along], keepdims=1)])
    b.write(args.result(op, 0), b.node("ReduceMean", [x, b.ints(*axes)], keepdims=keep))
    squares = b.node("Mul", [centred, centred])
    b.write(args.result(op, 1), b.node("ReduceMean", [squares, along], keepdims=keep))


@lowering("CumulativeSum")
def cumulative_sum(op: Op, b: Builder) -> None:
    """Lower to CumSum."""
    source = args.operand(op, 0)
    value = b.node(
        "CumSum",
        [b.read(source), b.constant(args.axis(op, source.rank), "int64")],
        exclusive=int(bool(op.param("exclusive", False))),
        reverse=int(bool(op.param("reverse", False))),
    )
    b.write(args.result(op), b.wrapped(value, source))
