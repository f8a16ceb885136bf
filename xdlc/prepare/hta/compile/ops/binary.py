"""ElementWiseBinary: as the op that its operation has of its own."""

from __future__ import annotations

from xdlc.errors import ConstraintError
from xdlc.ir import Op
from xdlc.opdefs.elementwise_enums import BINARY
from xdlc.prepare.hta.compile.builder import PlanBuilder
from xdlc.prepare.hta.compile.registry import compiler, find


@compiler("ElementWiseBinary")
def binary(op: Op, builder: PlanBuilder) -> None:
    """Hand on to the compiler of the operation."""
    number = op.param("operation")
    name = BINARY[number] if isinstance(number, int) and 0 <= number < len(BINARY) else f"number {number}"
    function = find(f"ElementWise{name}")
    if function is None:
        raise ConstraintError(f"there is no integer form of operation {name}")
    function(op, builder)
