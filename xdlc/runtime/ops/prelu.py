"""Prelu: a slope for negative numbers."""

from __future__ import annotations

from xdlc.ir import Op
from xdlc.opdefs import args
from xdlc.runtime import htp_fusion
from xdlc.runtime.builder import Builder
from xdlc.runtime.ops import lowering


@lowering("Prelu")
def prelu(op: Op, b: Builder) -> None:
    """Lower to PRelu; the slope broadcasts against the input's last axes."""
    source, slope = args.operand(op, 0), args.operand(op, 1)
    orders = b.orders(source)
    rounded = not htp_fusion.with_producer(source, "Prelu")
    if (
        orders
        and slope.is_static
        and slope.size in (1, source.shape[-1])
        and slope.shape[-1:] == (slope.size,)
    ):
        order = orders[0]
        along = [slope.size if axis == source.rank - 1 else 1 for axis in order]
        value = b.node("PRelu", [b.read(source, order, rounded=rounded), b.reshape(b.read(slope), along)])
        b.write(args.result(op), value, order)
        return
    b.write(args.result(op), b.node("PRelu", [b.read(source, rounded=rounded), b.read(slope)]))
