"""Tile."""

from __future__ import annotations

from xdlc.ir import Op
from xdlc.opdefs import args
from xdlc.runtime.builder import Builder
from xdlc.runtime.ops import lowering


@lowering("Tile")
def tile(op: Op, b: Builder) -> None:
    """Lower to Tile."""
    source = args.operand(op, 0)
    multiples = args.integers(op, "multiples", source.rank)
    b.write(
        args.result(op),
        b.node("Tile", [b.read(source, dtype=b.held(source)), b.ints(*multiples)]),
        dtype=b.held(source),
    )
