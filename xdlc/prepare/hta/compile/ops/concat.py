"""Concat: each part brought to the output's encoding by a table of its own."""

from __future__ import annotations

from typing import Any

from xdlc.errors import ConstraintError
from xdlc.ir import Op
from xdlc.ir.quantization import unpacked
from xdlc.prepare.hta.compile.builder import PlanBuilder
from xdlc.prepare.hta.compile.registry import compiler
from xdlc.prepare.hta.compile.tables import activation, check_activation, requantized, result


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
        same = part.encoding == target.encoding and part.dtype is target.dtype
        if part.is_static:
            check_activation(part)
            stored = unpacked(part).numpy().reshape(part.shape)
            constants[f"part{index}"] = stored if same else requantized(builder, part, target)[stored]
            continue
        builder.buffer(part)
        if not same:
            constants[f"table{index}"] = requantized(builder, part, target)
    sources = [part for part in parts if not part.is_static]
    builder.emit("concat", op, sources, [target], constants, axis=axis % target.rank)
