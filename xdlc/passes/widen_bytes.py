"""Widening of bools and bytes to int32 where HTP requires it."""

from __future__ import annotations

from collections.abc import Sequence

from xdlc import ir
from xdlc.ir import Graph, Op, Tensor
from xdlc.ir.dtype import BOOL8, FLOAT32, INT32, UINT8
from xdlc.opdefs import args
from xdlc.opdefs.elementwise_enums import EQUAL, GREATER, GREATER_EQUAL, LESS, LESS_EQUAL, NOT_EQUAL
from xdlc.opdefs.traits import traits, value_sources
from xdlc.opdefs.verify import verify_op
from xdlc.passes.base import graph_pass
from xdlc.passes.narrow_integers import cast_between

# The tables of HTP state types of ElementWiseBinary for all its operations; of bools the library takes And,
# Or and Xor alone, and of bytes none (SDK 2.51).
_COMPARISONS = frozenset((EQUAL, GREATER, GREATER_EQUAL, LESS, LESS_EQUAL, NOT_EQUAL))


@graph_pass(stage="htp", after=("exact_casts",))
def widen_bytes(graph: Graph) -> bool:
    """Cast bool8 and uint8 to int32 around ops that HTP has for int32 only.

    These move or compare values, or make floats of them, so that the results are the same.  Values between
    them stay int32.
    """
    wide: dict[Tensor, Tensor] = {}
    casts: list[Op] = []
    changed = [_carry(graph, op, wide, casts) for op in list(graph.ops)]
    for cast in casts:
        graph.discard(cast)
    return any(changed)


def _carry(graph: Graph, op: Op, wide: dict[Tensor, Tensor], casts: list[Op]) -> bool:
    """Let an op compute in int32 if HTP requires that; return whether it does.

    Args:
        wide: int32 twins of tensors; takes new ones.
        casts: Takes the Casts that bring results back.
    """
    places = _places(op)
    if not places or not _needs_int32(op, places):
        return False
    inputs = list(op.inputs)
    reason = f"HTP computes {op.type} with int32 here"
    for place in places:
        tensor = args.operand(op, place)
        if tensor not in wide:
            wide[tensor] = _as_int32(tensor, graph.unique_name(f"{tensor.name}_int32"))
            if not tensor.is_static:
                graph.insert_before(op, cast_between(graph, tensor, wide[tensor], reason))
        inputs[place] = wide[tensor]
    graph.set_inputs(op, inputs)
    for index, result in enumerate(op.outputs if moves(op) else ()):
        wide[result] = _as_int32(result, graph.unique_name(f"{result.name}_int32"))
        graph.set_output(op, index, wide[result])
        if result.name in graph.tensors:  # something reads it
            casts.append(cast_between(graph, wide[result], result, reason))
            graph.insert_after(op, casts[-1])
    return True


def _places(op: Op) -> list[int]:
    """Return the inputs of an op that are bools or bytes with numeric meaning."""
    if op.package != ir.NATIVE_PACKAGE:
        return []
    is_comparison = op.type == "ElementWiseBinary" and op.param("operation") in _COMPARISONS
    is_real = op.type == "Cast" and op.outputs[0].dtype is FLOAT32
    places = range(len(op.inputs)) if is_comparison or is_real else value_sources(op) if moves(op) else ()
    # HTP's Cast of bytes to float32 outputs 0 or 1, whatever the byte (emulation of SDK 2.51, v69 to v79).
    narrow = (UINT8,) if is_real else (BOOL8, UINT8)
    return [at for at in places if (tensor := op.inputs[at]) is not None and tensor.dtype in narrow]


def moves(op: Op) -> bool:
    """Return whether all elements of the results come from the operands."""
    return bool(value_sources(op)) and not traits(op).fills and len({out.dtype for out in op.outputs}) == 1


def _needs_int32(op: Op, places: Sequence[int]) -> bool:
    if moves(op) and not verify_op(op, backend="htp"):
        return False
    inputs = [_twin(tensor) if place in places else tensor for place, tensor in enumerate(op.inputs)]
    outputs = [_twin(tensor) for tensor in op.outputs] if moves(op) else op.outputs
    return not verify_op(Op(op.type, inputs, outputs, op.params, name=op.name), backend="htp")


def _twin(tensor: Tensor | None) -> Tensor:
    assert tensor is not None
    return _as_int32(tensor, tensor.name)


def _as_int32(tensor: Tensor, name: str) -> Tensor:
    data = None if tensor.data is None else tensor.data.cast(INT32.numpy)
    role = ir.Role.STATIC if tensor.is_static else ir.Role.NATIVE
    return Tensor(name, tensor.shape, INT32, None, data, role, tensor.dynamic_axes)
