"""Reshape: the stored integers stay as they are, unless the encoding changes."""

from __future__ import annotations

from xdlc.ir import Op
from xdlc.prepare.hta.compile.builder import PlanBuilder
from xdlc.prepare.hta.compile.registry import compiler
from xdlc.prepare.hta.compile.tables import activation, emit_requantized, result


@compiler("Reshape")
def reshape(op: Op, builder: PlanBuilder) -> None:
    """Emit a copy."""
    source, target = activation(op, 0), result(op)
    emit_requantized(builder, op, source, target, lambda place: builder.emit("copy", op, [source], [place]))
