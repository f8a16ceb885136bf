"""Patterns of a few ops, and their replacement."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from xdlc import ir
from xdlc.ir import Graph, Op, Origin, Param, Tensor
from xdlc.opdefs.elementwise_enums import MULTIPLY, POWER

NORM_RANKS = (2, 3, 4)
"""Ranks of which HTP's validator accepts normalizations (SDK 2.51, SM8650)."""


def is_type(op: Op | None, *types: str) -> bool:
    """Return whether ``op`` is a native QNN op of one of these types."""
    return op is not None and op.package == ir.NATIVE_PACKAGE and op.type in types


def is_native(op: Op | None, type: str, operation: int) -> bool:
    """Return whether ``op`` is an element-wise op of QNN with that operation number."""
    return op is not None and is_type(op, type) and op.param("operation") == operation


def is_reinterpret(op: Op | None) -> bool:
    """Return whether ``op`` only reinterprets quantized values."""
    return op is not None and op.package == ir.HOST_PACKAGE and op.type == "Reinterpret"


def is_binary(op: Op | None, operation: int) -> bool:
    """Return whether ``op`` is an ElementWiseBinary with that operation number."""
    return is_native(op, "ElementWiseBinary", operation)


def is_constant(tensor: Tensor | None, value: float) -> bool:
    """Return whether ``tensor`` is a constant with this value."""
    found = constant_number(tensor)
    return found is not None and math.isclose(found, value, rel_tol=1e-5)


def constant_number(tensor: Tensor | None) -> float | None:
    """Return the single number of a static float tensor, or None."""
    if tensor is None or tensor.data is None or tensor.size != 1 or not tensor.dtype.is_float:
        return None
    return float(tensor.numpy().reshape(())) if tensor.encoding is None else None


def is_reduction(op: Op | None, type: str) -> bool:
    """Return whether ``op`` is a reduction of the last axis that keeps the axis."""
    if op is None or not is_type(op, type) or op.inputs[0] is None:
        return False
    axes = [int(axis) for axis in op.param("axes").reshape(-1)]
    return bool(op.param("keep_dims", False)) and axes == [op.inputs[0].rank - 1]


def squared(tensor: Tensor | None) -> Tensor | None:
    """Return x of x * x and of x to the power of 2."""
    op = tensor.producer if tensor is not None else None
    if op is None:
        return None
    if is_binary(op, MULTIPLY) and op.inputs[0] is op.inputs[1]:
        return op.inputs[0]
    return op.inputs[0] if is_binary(op, POWER) and is_constant(op.inputs[1], 2.0) else None


def replace_by(
    graph: Graph,
    last: Op,
    type: str,
    inputs: Sequence[Tensor],
    params: Mapping[str, Param],
    *,
    name: str,
) -> None:
    """Put an op with the output of ``last`` in its place."""
    fused = ir.make_op(graph, type, inputs, [last.outputs[0]], params, name=name, origin=last.origin)
    held = last.inputs
    graph.replace_op(last, fused)
    fused.origin = _with_unread(graph, fused.origin, held)


def replace_by_neuron(graph: Graph, last: Op, source: Tensor, operation: int, name: str) -> None:
    """Put an ElementWiseNeuron of ``source`` in the place of ``last``."""
    replace_by(graph, last, "ElementWiseNeuron", [source], {"operation": ir.u32(operation)}, name=name)


def _with_unread(graph: Graph, origin: Origin, tensors: Sequence[Tensor | None]) -> Origin:
    """Return ``origin`` merged with the origins of ops that become unused."""
    dead: set[Op] = set()
    pending = list(tensors)
    while pending:
        tensor = pending.pop()
        op = tensor.producer if tensor is not None else None
        if op is None or op in dead or not all(_is_unread(graph, held, dead) for held in op.outputs):
            continue
        dead.add(op)
        pending += op.inputs
        origin = op.origin.merged(origin)
    return origin


def _is_unread(graph: Graph, tensor: Tensor, dead: set[Op]) -> bool:
    return not graph.is_output(tensor) and dead.issuperset(graph.consumers(tensor))
