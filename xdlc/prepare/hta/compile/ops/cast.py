"""Cast of positions, as the translation of old models puts it behind Argmax."""

from __future__ import annotations

from xdlc.errors import ConstraintError
from xdlc.ir import Op
from xdlc.prepare.hta.compile.builder import PlanBuilder
from xdlc.prepare.hta.compile.registry import compiler
from xdlc.prepare.hta.compile.tables import activation


@compiler("Cast")
def cast(op: Op, builder: PlanBuilder) -> None:
    """Emit a conversion between integers, or of integers to float32.

    Raises:
        ConstraintError: If numbers are quantized or cast from float.
    """
    source, target = activation(op, 0), op.outputs[0]
    if not source.dtype.is_integer or target.dtype.is_fixed:
        raise ConstraintError(
            f"casts {source.dtype} to {target.dtype}", fix="leave the op out of the HTA partition"
        )
    builder.emit("cast", op, [source], [target])
