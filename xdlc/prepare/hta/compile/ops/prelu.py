"""Prelu: a table per slope."""

from __future__ import annotations

from xdlc.errors import ConstraintError
from xdlc.ir import Op
from xdlc.prepare.hta.compile.builder import PlanBuilder
from xdlc.prepare.hta.compile.registry import compiler
from xdlc.prepare.hta.compile.tables import LARGEST_TABLE, activation, emit_lookup, result, with_static


@compiler("Prelu")
def prelu(op: Op, builder: PlanBuilder) -> None:
    """Emit a look-up that takes the row of the slope."""
    source, slope, target = activation(op, 0), activation(op, 1), result(op)
    if not slope.is_static:
        raise ConstraintError("has slopes that are no constant", fix="leave the op out of the HTA partition")
    builder.buffer(source), builder.buffer(target)
    found = with_static(builder, op, source, slope, target, most=LARGEST_TABLE)
    if found is None:
        raise ConstraintError(
            f"has too many different slopes for {source.dtype}",
            fix="quantize the model with 8-bit activations",
        )
    emit_lookup(builder, op, source, target, *found)
