"""Prelu: a table per slope, or of all pairs where slopes are computed."""

from __future__ import annotations

from xdlc.errors import ConstraintError
from xdlc.ir import Op
from xdlc.prepare.hta.compile.builder import PlanBuilder
from xdlc.prepare.hta.compile.ops.product import look_up
from xdlc.prepare.hta.compile.registry import compiler
from xdlc.prepare.hta.compile.tables import LARGEST_TABLE, activation


@compiler("Prelu")
def prelu(op: Op, builder: PlanBuilder) -> None:
    """Emit a look-up.

    Raises:
        ConstraintError: If 16-bit activations have too many slopes.
    """
    if not look_up(op, builder, most=LARGEST_TABLE):
        raise ConstraintError(
            f"has too many slopes for {activation(op, 0).dtype}",
            fix="quantize the model with 8-bit activations",
        )
