"""The error function, an op of the host only."""

from __future__ import annotations

from xdlc.ir import HOST_PACKAGE, Op
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.ops import lowering


@lowering("Erf", package=HOST_PACKAGE)
def erf(op: Op, b: Builder) -> None:
    """Lower to Erf."""
    source = args.operand(op, 0)
    order = b.orders(source)[0] if b.orders(source) else None
    b.write(args.result(op), b.node("Erf", [b.read(source, order)]), order)
