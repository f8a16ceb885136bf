"""CumulativeSum."""

from __future__ import annotations

from xdlc.ir import Op
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.ops import lowering


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
