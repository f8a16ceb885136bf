"""FullyConnected: a matrix of weights over rows of the input."""

from __future__ import annotations

from xdlc.errors import ConstraintError
from xdlc.ir import Op
from xdlc.prepare.hta.compile.builder import PlanBuilder
from xdlc.prepare.hta.compile.registry import compiler
from xdlc.prepare.hta.compile.weighted import weighted
from xdlc.runtime import args


@compiler("FullyConnected")
def fully_connected(op: Op, builder: PlanBuilder) -> None:
    """Emit ``rows``, the weights turned to [width, units].

    Raises:
        ConstraintError: If shapes, weights or bias have no form in a plan.
    """
    source, weight, target = args.operand(op, 0), args.operand(op, 1), args.result(op)
    units, width = weight.shape if weight.rank == 2 else (0, 0)
    if not width or source.size % width or source.size // width * units != target.size:
        raise ConstraintError(
            f"weights {list(weight.shape)} do not make {list(target.shape)} of {list(source.shape)}"
        )
    weighted(op, builder, lambda values: values.T).emit("rows")
