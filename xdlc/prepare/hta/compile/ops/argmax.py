"""Argmax: positions of the largest stored integers."""

from __future__ import annotations

from xdlc.ir import Op
from xdlc.prepare.hta.compile.builder import PlanBuilder
from xdlc.prepare.hta.compile.registry import compiler
from xdlc.prepare.hta.compile.tables import activation
from xdlc.runtime import args


@compiler("Argmax")
def argmax(op: Op, builder: PlanBuilder) -> None:
    """Emit a search: stored integers grow as the numbers do."""
    source = activation(op, 0)
    builder.emit("argmax", op, [source], [args.result(op)], axis=args.axis(op, source.rank))
