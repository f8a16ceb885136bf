"""Sums and differences of two activations."""

from __future__ import annotations

from xdlc.errors import ConstraintError
from xdlc.ir import Op, ScaleOffset, Tensor
from xdlc.prepare.hta.compile.builder import PlanBuilder
from xdlc.prepare.hta.compile.ops.product import look_up, static_operands
from xdlc.prepare.hta.compile.registry import compiler
from xdlc.prepare.hta.compile.scaling import mantissas
from xdlc.runtime import args
from xdlc.runtime.hta.scaling import NARROW
from xdlc.runtime.htp_arithmetic.u8_add import is_narrow_sum, sum_factors


@compiler("ElementWiseAdd")
def add(op: Op, builder: PlanBuilder) -> None:
    """Emit ``sum`` where the host sums as HTP does; else ``sum_wide``, or a look-up.

    Raises:
        ConstraintError: If the operands have no form in a plan, or their scales are too far apart.
    """
    first, second, target = args.operand(op, 0), args.operand(op, 1), args.result(op)
    if is_narrow_sum(builder.host, first, second, target):
        _emit_narrow(op, builder, first, second, target)
    else:
        _emit(op, builder, sign=1)


@compiler("ElementWiseSubtract")
def subtract(op: Op, builder: PlanBuilder) -> None:
    """Emit ``sum_wide`` or a look-up.

    Raises:
        ConstraintError: If the operands have no form in a plan.
    """
    _emit(op, builder, sign=-1)


def _emit_narrow(op: Op, builder: PlanBuilder, first: Tensor, second: Tensor, target: Tensor) -> None:
    factors, constant, shift = sum_factors(first, second, target)
    addend = constant + (1 << max(shift - 1, 0))
    if not 1 <= shift <= 31 or sum(factors) * 255 + abs(addend) >= 1 << 31:
        raise ConstraintError(
            "has operands with scales too far from that of the result", fix="quantize the model again"
        )
    zero = -_encoding(target).offset
    builder.emit("sum", op, [first, second], [target], factors=factors, addend=addend, shift=shift, zero=zero)


def _emit(op: Op, builder: PlanBuilder, *, sign: int) -> None:
    """Emit the sum of an activation and another, or its negative, in the host's arithmetic."""
    first, second, target = args.operand(op, 0), args.operand(op, 1), args.result(op)
    if look_up(op, builder):
        return
    numbers = [mantissas(_encoding(tensor).scale, NARROW) for tensor in (first, second, target)]
    factors, shifts = ([int(number[part]) for number in numbers] for part in range(2))
    if max(shifts) > 100 or min(shifts) < -20:
        raise ConstraintError("has scales of more than 20 or less than -76 binary places")
    builder.emit(
        "sum_wide",
        op,
        [tensor for tensor in (first, second) if not tensor.is_static],
        [target],
        static_operands(first, second),
        input_zeros=[-_encoding(tensor).offset for tensor in (first, second)],
        factors=[factors[0], sign * factors[1], factors[2]],
        shifts=shifts,
        zero=-_encoding(target).offset,
    )


def _encoding(tensor: Tensor) -> ScaleOffset:
    if not isinstance(tensor.encoding, ScaleOffset):
        raise ConstraintError("has no single scale", where=f"tensor {tensor.name!r}")
    return tensor.encoding
