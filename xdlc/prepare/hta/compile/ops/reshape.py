"""Reshape: the stored integers stay as they are."""

from __future__ import annotations

from xdlc.errors import ConstraintError
from xdlc.ir import Op
from xdlc.prepare.hta.compile.builder import PlanBuilder
from xdlc.prepare.hta.compile.registry import compiler


@compiler("Reshape")
def reshape(op: Op, builder: PlanBuilder) -> None:
    """Emit a copy."""
    source, target = op.inputs[0], op.outputs[0]
    if source is None or source.encoding != target.encoding:
        raise ConstraintError(
            "input and output have different encodings", fix="quantize the model again: they should share one"
        )
    builder.emit("copy", op, [source], [target])
