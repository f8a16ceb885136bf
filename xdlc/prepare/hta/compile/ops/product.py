"""Products and quotients of two activations, or of one and static data."""

from __future__ import annotations

from xdlc.errors import ConstraintError
from xdlc.ir import Op, Tensor
from xdlc.opdefs.operations import MULTIPLY
from xdlc.prepare.hta.compile.builder import PlanBuilder
from xdlc.prepare.hta.compile.registry import compiler
from xdlc.prepare.hta.compile.tables import activation, emit_lookup, filled, stored_integers, with_static
from xdlc.runtime import fused


@compiler("ElementWiseMultiply", "ElementWiseDivide")
def product(op: Op, builder: PlanBuilder) -> None:
    """Emit a look-up of the one activation, or of the pair of activations.

    Raises:
        ConstraintError: If there is no table for the operands.
    """
    first, second, target = activation(op, 0), activation(op, 1), op.outputs[0]
    builder.buffer(target)
    sigmoid = _gate(op, builder)
    if sigmoid is not None:
        source = second if first.name == sigmoid.outputs[0].name else first
        _function(op, builder, source, [sigmoid, op])
    elif first is second:
        _function(op, builder, first, [op])
    elif first.is_static or second.is_static:
        source, static = (second, first) if first.is_static else (first, second)
        if source.shape != target.shape:
            raise ConstraintError("broadcasts its activation", fix="leave the op out of the HTA partition")
        builder.buffer(source)
        emit_lookup(builder, op, source, target, *with_static(builder, op, source, static, target))
    else:
        _pair(op, builder, first, second)


def _gate(op: Op, builder: PlanBuilder) -> Op | None:
    """Return the Sigmoid of a product ``x * sigmoid(x)``, which the host does not round.

    It may be outside of the section: x is not.
    """
    whole = builder.original(op.outputs[0])
    original = whole.producer if whole is not None else None
    multiplies = op.type == "ElementWiseMultiply" or op.param("operation") == MULTIPLY
    if builder.stated or original is None or not multiplies:
        return None
    gate = fused.gate_of(original)
    return gate.producer if gate is not None else None


def _function(op: Op, builder: PlanBuilder, source: Tensor, ops: list[Op]) -> None:
    """Emit a look-up of what ops make of one activation."""
    builder.buffer(source)
    known = {source.name: source}
    renamed = [step.twin(lambda tensor: known.setdefault(tensor.name, tensor)) for step in ops]
    target = op.outputs[0]
    table = filled(builder, renamed, {source: stored_integers(source)}, renamed[-1].outputs[0])
    emit_lookup(builder, op, source, target, table[None])


def _pair(op: Op, builder: PlanBuilder, first: Tensor, second: Tensor) -> None:
    import numpy as np

    target = op.outputs[0]
    builder.buffer(first), builder.buffer(second)
    if {first.dtype.bits, second.dtype.bits} != {8}:
        raise ConstraintError(
            f"computes {first.dtype} and {second.dtype}", fix="quantize the model with 8-bit activations"
        )
    columns = stored_integers(second)
    rows = np.repeat(stored_integers(first), columns.size)
    table = filled(builder, [op], {first: rows, second: np.tile(columns, columns.size)}, target)
    constants = {"table": table.reshape(columns.size, columns.size)}
    builder.emit("lookup_pair", op, [first, second], [target], constants)
