"""Transpose."""

from __future__ import annotations

from xdlc.errors import ModelError
from xdlc.ir import Op
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.ops import lowering


@lowering("Transpose")
def transpose(op: Op, b: Builder) -> None:
    """Take the value as it lies; whoever reads it in another axis order gets a Transpose."""
    source = args.operand(op, 0)
    perm = args.axes(op, source.rank, name="perm")
    if len(perm) != source.rank:
        raise ModelError(f"parameter 'perm' has {len(perm)} axes, the input has {source.rank}")
    b.write_view(args.result(op), source, perm)
