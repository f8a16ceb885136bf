"""Recognises Gelu written out with the error function."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdlc import ir
from xdlc.ir import Graph, Op, Tensor

ADD, DIVIDE, MULTIPLY = 0, 2, 13
GELU = 1


@dataclass(frozen=True, slots=True)
class FuseGelu:
    """Turn ``x * (1 + erf(x / sqrt(2))) * 0.5``, in any order of its factors, into Gelu."""

    name: str = "fuse_gelu"

    def apply(self, graph: Graph) -> bool:
        results = [_fuse(graph, op) for op in graph.ops if op.type == "Erf" and op.package == ir.HOST_PACKAGE]
        return any(results)


def _fuse(graph: Graph, erf: Op) -> bool:
    source = _scaled_source(erf.inputs[0])
    plus = _constant_step(graph, erf.outputs[0], ADD, 1.0)
    if source is None or plus is None:
        return False
    last, halved, multiplied = plus, False, False
    while not (halved and multiplied):
        following = graph.sole_consumer(last.outputs[0])
        if following is None or not _is_binary(following, MULTIPLY):
            return False
        other = _other_input(following, last.outputs[0])
        if other is None:
            return False
        if not halved and _is_constant(other, 0.5):
            halved = True
        elif not multiplied and other is source:
            multiplied = True
        elif not (halved or multiplied) and _is_half_of(other, source):
            halved = multiplied = True
        else:
            return False
        last = following
    result = last.outputs[0]
    fused = ir.make_op(
        graph,
        "ElementWiseNeuron",
        [source],
        [result],
        {"operation": ir.u32(GELU)},
        name=f"{erf.name}_gelu",
        origin=erf.origin.merged(last.origin),
    )
    graph.replace_op(last, fused)
    return True


def _scaled_source(tensor: Tensor | None) -> Tensor | None:
    """Return x if ``tensor`` is x / sqrt(2)."""
    op = tensor.producer if tensor is not None else None
    if op is None or not (_is_binary(op, DIVIDE) or _is_binary(op, MULTIPLY)):
        return None
    factor = math.sqrt(2) if op.param("operation") == DIVIDE else math.sqrt(0.5)
    if _is_constant(op.inputs[1], factor):
        return op.inputs[0]
    if op.param("operation") == MULTIPLY and _is_constant(op.inputs[0], factor):
        return op.inputs[1]
    return None


def _is_half_of(tensor: Tensor, source: Tensor) -> bool:
    op = tensor.producer
    if op is None or not _is_binary(op, MULTIPLY) or source not in op.inputs:
        return False
    other = _other_input(op, source)
    return other is not None and _is_constant(other, 0.5)


def _constant_step(graph: Graph, tensor: Tensor, operation: int, value: float) -> Op | None:
    op = graph.sole_consumer(tensor)
    if op is None or not _is_binary(op, operation):
        return None
    other = _other_input(op, tensor)
    return op if other is not None and _is_constant(other, value) else None


def _other_input(op: Op, tensor: Tensor) -> Tensor | None:
    left, right = op.inputs
    return right if left is tensor else left


def _is_binary(op: Op, operation: int) -> bool:
    return (
        op.type == "ElementWiseBinary"
        and op.package == ir.NATIVE_PACKAGE
        and op.param("operation") == operation
    )


def _is_constant(tensor: Tensor | None, value: float) -> bool:
    if tensor is None or tensor.data is None or tensor.size != 1 or not tensor.dtype.is_float:
        return False
    return math.isclose(float(tensor.numpy().reshape(())), value, rel_tol=1e-5)
