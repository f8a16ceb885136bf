"""Sums of two activations."""

from __future__ import annotations

from xdlc.errors import ConstraintError
from xdlc.ir import Op, Tensor
from xdlc.prepare.hta.compile.builder import PlanBuilder
from xdlc.prepare.hta.compile.registry import compiler
from xdlc.runtime import args
from xdlc.runtime.narrow_add import is_narrow_sum, sum_factors


@compiler("ElementWiseAdd")
def add(op: Op, builder: PlanBuilder) -> None:
    """Emit ``sum``, with the factors that HTP has.

    Raises:
        ConstraintError: If the host does not sum as HTP does, or the scales are too far apart.
    """
    first, second, target = args.operand(op, 0), args.operand(op, 1), args.result(op)
    if not is_narrow_sum(builder.host, first, second, target):
        raise ConstraintError(f"sums {first.dtype} and {second.dtype} to {target.dtype}")
    _emit_narrow(op, builder, first, second, target)


def _emit_narrow(op: Op, builder: PlanBuilder, first: Tensor, second: Tensor, target: Tensor) -> None:
    factors, constant, shift = sum_factors(first, second, target)
    addend = constant + (1 << max(shift - 1, 0))
    if not 1 <= shift <= 31 or sum(factors) * 255 + abs(addend) >= 1 << 31:
        raise ConstraintError(
            "has operands with scales too far from that of the result", fix="quantize the model again"
        )
    zero = -target.encoding.offset  # type: ignore[union-attr]
    builder.emit("sum", op, [first, second], [target], factors=factors, addend=addend, shift=shift, zero=zero)
