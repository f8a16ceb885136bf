"""Local response normalization."""

from __future__ import annotations

from typing import Any

from xdlc.errors import ModelError
from xdlc.ir import Op
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.onnx_emitter import channels_first
from xdlc.runtime.ops import lowering

ACROSS_CHANNEL, WITHIN_CHANNEL = range(2)


@lowering("Lrn")
def lrn(op: Op, b: Builder) -> None:
    """Lower to ``x / (bias + alpha * sum(x^2)) ^ beta`` over ``2 * radius + 1``.

    ONNX divides alpha by the window's size, the QNN op does not.
    """
    source, target = args.operand(op, 0), args.result(op)
    radius, region = int(args.required(op, "radius")), int(op.param("region", ACROSS_CHANNEL))
    if radius < 0 or source.rank < 3 or region not in (ACROSS_CHANNEL, WITHIN_CHANNEL):
        raise ModelError(f"radius {radius} and region {region} on an input of rank {source.rank}")
    alpha, beta = float(op.param("alpha", 1.0)), float(op.param("beta", 0.5))
    bias, width = float(op.param("bias", 1.0)), 2 * radius + 1
    order = channels_first(source.rank)
    x = b.read(source, order)
    if region == ACROSS_CHANNEL:
        value = b.node("LRN", [x], alpha=alpha * width, beta=beta, bias=bias, size=width)
    else:
        count = source.rank - 2
        window: dict[str, Any] = {
            "kernel_shape": [width] * count,
            "pads": [radius] * (2 * count),
            "strides": [1] * count,
        }
        mean = b.node("AveragePool", [b.node("Mul", [x, x])], count_include_pad=1, **window)
        scaled = b.node("Mul", [mean, b.like(source, alpha * width**count)])
        base = b.node("Add", [scaled, b.like(source, bias)])
        value = b.node("Div", [x, b.node("Pow", [base, b.like(source, beta)])])
    b.write(target, value, order)
