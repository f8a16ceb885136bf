"""Patterns of a few ops, and their replacement."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdlc import ir
from xdlc.ir import Graph, Op, Origin, Tensor
from xdlc.opdefs.elementwise_enums import DIVIDE, MULTIPLY


def is_native(op: Op | None, type: str, operation: int) -> bool:
    """Return whether ``op`` is an element-wise op of QNN's package with that operation number."""
    return (
        op is not None
        and op.package == ir.NATIVE_PACKAGE
        and op.type == type
        and op.param("operation") == operation
    )


def is_binary(op: Op | None, operation: int) -> bool:
    """Return whether ``op`` is an ElementWiseBinary with that operation number."""
    return is_native(op, "ElementWiseBinary", operation)


def other_input(op: Op, tensor: Tensor) -> Tensor | None:
    """Return the input of a binary op that is not ``tensor``."""
    left, right = op.inputs
    return right if left is tensor else left


def is_constant(tensor: Tensor | None, value: float) -> bool:
    """Return whether ``tensor`` holds this one number."""
    if tensor is None or tensor.data is None or tensor.size != 1 or not tensor.dtype.is_float:
        return False
    return math.isclose(float(tensor.numpy().reshape(())), value, rel_tol=1e-5)


def scaled_by(graph: Graph, tensor: Tensor, factor: float) -> Op | None:
    """Return the sole reader of ``tensor`` if it multiplies by ``factor`` or divides by its inverse."""
    op = graph.sole_consumer(tensor)
    if op is None:
        return None
    if is_binary(op, MULTIPLY) and is_constant(other_input(op, tensor), factor):
        return op
    if is_binary(op, DIVIDE) and op.inputs[0] is tensor and is_constant(op.inputs[1], 1.0 / factor):
        return op
    return None


def product_chain(graph: Graph, start: Tensor, source: Tensor, factor: float) -> Op | None:
    """Return the last op of ``start * source * factor``, in any order and grouping of the product.

    Args:
        graph: The graph.
        start: Read by nothing else.
        source: The other factor.
        factor: The constant.
    """
    tensor, scaled, multiplied = start, math.isclose(factor, 1.0), False
    while True:
        step = None if scaled else scaled_by(graph, tensor, factor)
        if step is not None:
            scaled = True
        else:
            step = graph.sole_consumer(tensor)
            if multiplied or step is None or not is_binary(step, MULTIPLY):
                return None
            other = other_input(step, tensor)
            if other is source:
                multiplied = True
            elif not scaled and other is not None and _is_scaled(other, source, factor):
                scaled = multiplied = True
            else:
                return None
        if scaled and multiplied:
            return step
        tensor = step.outputs[0]


def _is_scaled(tensor: Tensor, source: Tensor, factor: float) -> bool:
    op = tensor.producer
    if is_binary(op, MULTIPLY) and op is not None and source in op.inputs:
        return is_constant(other_input(op, source), factor)
    return (
        is_binary(op, DIVIDE)
        and op is not None
        and op.inputs[0] is source
        and is_constant(op.inputs[1], 1.0 / factor)
    )


def replace_by_neuron(graph: Graph, last: Op, source: Tensor, operation: int, name: str) -> None:
    """Put an ElementWiseNeuron of ``source`` in the place of ``last`` ; the ops between die unread."""
    fused = ir.make_op(
        graph,
        "ElementWiseNeuron",
        [source],
        [last.outputs[0]],
        {"operation": ir.u32(operation)},
        name=name,
        origin=last.origin,
    )
    inputs = last.inputs
    graph.replace_op(last, fused)
    fused.origin = _with_unread(graph, fused.origin, inputs)


def _with_unread(graph: Graph, origin: Origin, tensors: Sequence[Tensor | None]) -> Origin:
    """Return ``origin`` with those of the ops, back from ``tensors``, whose results nobody reads any more."""
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
