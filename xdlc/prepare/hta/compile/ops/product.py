"""Products and quotients of two activations, or of one and static data."""

from __future__ import annotations

from typing import Any

from xdlc.errors import ConstraintError
from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import UFIXED8, UFIXED16
from xdlc.ir.quantization import unpacked
from xdlc.opdefs.elementwise_enums import MULTIPLY
from xdlc.prepare.hta.compile.bounds import bounds, quantized, real, real_numbers
from xdlc.prepare.hta.compile.builder import PlanBuilder
from xdlc.prepare.hta.compile.registry import compiler
from xdlc.prepare.hta.compile.singles import REACH, singles
from xdlc.prepare.hta.compile.tables import (
    activation,
    emit_lookup,
    filled,
    result,
    stored_integers,
    with_static,
)
from xdlc.runtime import htp_fusion
from xdlc.runtime.hta.kernels.product import MORE
from xdlc.runtime.hta.single import DROP, LARGEST_SHIFT

_TABLE = 1 << 20
"""Entries above which arithmetic is taken instead of a table."""


@compiler("ElementWiseMultiply", "ElementWiseDivide")
def product(op: Op, builder: PlanBuilder) -> None:
    """Emit a look-up, or arithmetic where a table would be too large."""
    sigmoid = _gate(op, builder)
    if sigmoid is not None:
        first, second = activation(op, 0), activation(op, 1)
        source = second if first.name == sigmoid.outputs[0].name else first
        _function(op, builder, source, [sigmoid, op])
    elif not look_up(op, builder):
        _compute(op, builder)


def look_up(op: Op, builder: PlanBuilder, *, most: int = _TABLE) -> bool:
    """Emit a look-up for an element-wise op of two operands.

    Args:
        op: The op.
        builder: Collects the plan.
        most: Entries that the table may have where an operand is static.

    Returns:
        Whether there is one: operands of 16 bits have too large a table, unless one of them is static and
        has few values.
    """
    first, second, target = activation(op, 0), activation(op, 1), result(op)
    builder.buffer(target)
    if first is second:
        _function(op, builder, first, [op])
    elif first.is_static or second.is_static:
        source, static = (second, first) if first.is_static else (first, second)
        builder.buffer(source)
        found = with_static(builder, op, source, static, target, most=most)
        if found is None:
            return False
        emit_lookup(builder, op, source, target, *found)
    elif {first.dtype.bits, second.dtype.bits} == {8}:
        _pair(op, builder, first, second)
    else:
        return False
    return True


def static_operands(*operands: Tensor) -> dict[str, Any]:
    """Return the constants for those of an instruction's operands that are static.

    Raises:
        ConstraintError: If their stored integers are not of the types that activations have.
    """
    held = {}
    for place, tensor in enumerate(operands):
        if tensor.is_static:
            if tensor.dtype not in (UFIXED8, UFIXED16):
                raise ConstraintError(
                    f"has a static operand of {tensor.dtype}, should be ufixed8 or ufixed16"
                )
            held[f"operand{place}"] = unpacked(tensor).numpy().reshape(tensor.shape)
    return held


def _gate(op: Op, builder: PlanBuilder) -> Op | None:
    """Return the Sigmoid of a product ``x * sigmoid(x)``, which the host does not round."""
    gate = None if builder.stated else htp_fusion.gate_of(op)
    return gate.producer if gate is not None else None


def _multiplies(op: Op) -> bool:
    return op.type == "ElementWiseMultiply" or op.param("operation") == MULTIPLY


def _function(op: Op, builder: PlanBuilder, source: Tensor, ops: list[Op]) -> None:
    """Emit a look-up of what ops make of one activation."""
    builder.buffer(source)
    known = {source.name: source}
    renamed = [step.twin(lambda tensor: known.setdefault(tensor.name, tensor)) for step in ops]
    target = result(op)
    table = filled(builder, renamed, {source: stored_integers(source)}, renamed[-1].outputs[0])
    emit_lookup(builder, op, source, target, table[None])


def _pair(op: Op, builder: PlanBuilder, first: Tensor, second: Tensor) -> None:
    import numpy as np

    target = result(op)
    builder.buffer(first), builder.buffer(second)
    columns = stored_integers(second)
    rows = np.repeat(stored_integers(first), columns.size)
    table = filled(builder, [op], {first: rows, second: np.tile(columns, columns.size)}, target)
    constants = {"table": table.reshape(columns.size, columns.size)}
    builder.emit("lookup_pair", op, [first, second], [target], constants)


def _compute(op: Op, builder: PlanBuilder) -> None:
    """Emit arithmetic in single precision."""
    first, second, target = activation(op, 0), activation(op, 1), result(op)
    multiplies = _multiplies(op)
    constants, units = static_operands(first, second), []
    for name, tensor in (("first", first), ("second", second)):
        numbers, shifts, unit = singles(real_numbers(tensor), LARGEST_SHIFT // 2)
        constants |= {name: numbers, f"{name}_shifts": shifts}
        units.append(unit)
    if multiplies:
        unit = units[0] * units[1] * 2.0**DROP
    else:
        unit = units[0] / units[1] * 2.0 ** -(MORE + 1 + int(constants["second_shifts"].max()))
    place = quantized(target)
    constants["bounds"] = bounds(lambda sums: place(real(sums, unit)), target, -REACH, REACH)
    sources = [tensor for tensor in (first, second) if not tensor.is_static]
    builder.emit("product", op, sources, [target], constants, divides=int(not multiplies))
