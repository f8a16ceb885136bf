"""Cast of positions, as the translation of old models puts it behind Argmax."""

from __future__ import annotations

from xdlc.errors import ConstraintError
from xdlc.ir import Op
from xdlc.prepare.hta.compile.builder import PlanBuilder
from xdlc.prepare.hta.compile.registry import compiler
from xdlc.runtime import args


@compiler("Cast")
def cast(op: Op, builder: PlanBuilder) -> None:
    """Emit a conversion between integers, or of integers to float32.

    Raises:
        ConstraintError: If numbers are quantized or cast from float.
    """
    source, target = args.operand(op, 0), args.result(op)
    if not source.dtype.is_integer or target.dtype.is_fixed:
        raise ConstraintError(f"casts {source.dtype} to {target.dtype}")
    builder.emit("cast", op, [source], [target])
