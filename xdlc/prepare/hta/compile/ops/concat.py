"""Concat: each part brought to the output's encoding by a table of its own."""

from __future__ import annotations

from typing import Any

from xdlc.errors import ConstraintError
from xdlc.ir import Op
from xdlc.prepare.hta.compile.builder import PlanBuilder
from xdlc.prepare.hta.compile.registry import compiler
from xdlc.prepare.hta.compile.tables import activation, requantized, result


@compiler("Concat")
def concat(op: Op, builder: PlanBuilder) -> None:
    """Emit a join."""
    target = result(op)
    parts = [activation(op, index) for index in range(len(op.inputs))]
    if not parts:
        raise ConstraintError("has no inputs", fix="make the model again")
    axis = int(op.param("axis", target.rank - 1))
    constants: dict[str, Any] = {}
    for index, part in enumerate(parts):
        builder.buffer(part)
        if part.encoding != target.encoding or part.dtype is not target.dtype:
            constants[f"table{index}"] = requantized(builder, part, target)
    builder.emit("concat", op, parts, [target], constants, axis=axis % target.rank)
