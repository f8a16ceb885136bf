"""Removal of ops without effect, and of ops that nothing reads."""

from __future__ import annotations

import numpy

from xdlc.ir import Graph, Op, Tensor
from xdlc.opdefs.elementwise_enums import ADD, DIVIDE, MULTIPLY, SUBTRACT
from xdlc.passes._match import is_binary, made, match
from xdlc.passes.base import graph_pass, op_pass

_NEUTRAL = {ADD: 0, SUBTRACT: 0, MULTIPLY: 1, DIVIDE: 1}
_LARGEST = 1 << 16


@op_pass("ElementWiseBinary", stage="converter")
def drop_neutral(graph: Graph, op: Op) -> bool:
    """Drop ``x * 1``, ``x / 1``, ``x + 0`` and ``x - 0`` of floats.

    They stay if their result is an output.

    Drop Tiles of floats too where a sum or product broadcasts what they repeat.
    """
    return _broadcast(graph, op) or _drop(graph, op)


def _broadcast(graph: Graph, op: Op) -> bool:
    """Let sums and products read the inputs of Tiles, and broadcast.

    HTP broadcasts their operands at all ranks.
    """
    if not any(is_binary(op, operation) for operation in _NEUTRAL):
        return False
    for tensor in op.inputs:
        named = match(graph, made("Tile", "x"), tensor)
        if tensor is None or named is None:
            continue
        source = named["x"]
        if not source.dtype.is_float or source.dynamic_axes:
            continue
        inputs = [source if other is tensor else other for other in op.inputs]
        shape = numpy.broadcast_shapes(*(other.shape for other in inputs if other is not None))
        whole = all(size in (1, repeated) for size, repeated in zip(source.shape, tensor.shape, strict=True))
        if whole and source.encoding == tensor.encoding and shape == op.outputs[0].shape:
            graph.set_inputs(op, inputs)
            return True
    return False


def _drop(graph: Graph, op: Op) -> bool:
    result = op.outputs[0]
    if graph.is_output(result) or not result.dtype.is_float or result.encoding is not None:
        return False
    for operation, neutral in _NEUTRAL.items():
        if not is_binary(op, operation):
            continue
        pairs = (op.inputs, op.inputs[::-1]) if operation in (ADD, MULTIPLY) else (op.inputs,)
        for source, other in pairs:
            if source is None or source.is_static or source.encoding is not None or source.dynamic_axes:
                continue
            if source.shape == result.shape and source.dtype is result.dtype and _is_all(other, neutral):
                graph.replace(result, source)
                graph.remove(op)
                return True
    return False


def _is_all(tensor: Tensor | None, value: int) -> bool:
    if tensor is None or tensor.data is None or tensor.encoding is not None or tensor.size > _LARGEST:
        return False
    is_equal = bool(numpy.all(tensor.numpy() == value))
    tensor.data.release()  # a touched page of a file may map megabytes
    return is_equal


@graph_pass(stage="converter")
def prune(graph: Graph) -> bool:
    """Remove ops whose results nobody reads, and tensors that no op touches."""
    return graph.prune()
