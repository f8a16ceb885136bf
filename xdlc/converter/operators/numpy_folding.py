"""Evaluation of the most frequent constant nodes by numpy, without a session of onnxruntime for each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from xdlc.converter.operators.registry import Node
from xdlc.ir.data import Array

if TYPE_CHECKING:
    from xdlc.ir.data import TensorData

_UFUNCS = {
    "Add": "add",
    "Div": "divide",
    "Max": "maximum",
    "Min": "minimum",
    "Mul": "multiply",
    "Neg": "negative",
    "Reciprocal": "reciprocal",
    "Sqrt": "sqrt",
    "Sub": "subtract",
}
"""Functions whose results IEEE 754 defines to the last bit, by operator."""
_UNARY = ("Neg", "Reciprocal", "Sqrt")
_OF_INTEGERS = ("Add", "Mul", "Sub")
_REAL, _WHOLE = ("float32", "float64"), ("int32", "int64")
Evaluation = tuple[int, Callable[[], Array]]


def evaluation(node: Node, inputs: Sequence[TensorData | None]) -> Evaluation | None:
    """Return the bytes that a constant node makes, at most, and what computes it; None for all other nodes.

    Args:
        node: A node of the default domain; only those that a handler applies are computed here.
        inputs: Its inputs; None for an omitted one.
    """
    given = [data for data in inputs if data is not None]
    if not node.is_applied or len(given) != len(inputs) or not given or len(node.outputs) != 1:
        return None
    if node.type in _UFUNCS:
        return _elementwise(node, given)
    if any(0 in data.shape for data in given):
        return None
    if node.type == "ReduceProd":
        return _product(node, given)
    if node.type == "Slice" and not node.attributes and len(given) >= 3:
        return _slice(given)
    if node.attributes.keys() - {"axis"}:
        return None
    if node.type == "Gather":
        return _gather(node, given)
    return _concat(node, given) if node.type == "Concat" else None


def _elementwise(node: Node, inputs: Sequence[TensorData]) -> Evaluation | None:
    import numpy

    dtype, names = inputs[0].dtype, _REAL + (_WHOLE if node.type in _OF_INTEGERS else ())
    if dtype.name not in names or any(data.dtype != dtype for data in inputs):
        return None
    if node.attributes or len(inputs) != (1 if node.type in _UNARY else 2):
        return None
    try:
        shape = numpy.broadcast_shapes(*(data.shape for data in inputs))
    except ValueError:
        return None
    function = getattr(numpy, _UFUNCS[node.type])

    def compute() -> Array:
        with numpy.errstate(all="ignore"):
            return numpy.asarray(function(*(data.numpy() for data in inputs)))

    return math.prod(shape) * dtype.itemsize, compute


def _gather(node: Node, inputs: Sequence[TensorData]) -> Evaluation | None:
    import numpy

    data, positions = inputs
    rank, axis = len(data.shape), node.attributes.get("axis", 0)
    if positions.dtype.kind != "i" or not -rank <= axis < rank:
        return None
    where, size = positions.numpy(), data.shape[axis]
    if where.min() < -size or where.max() >= size:
        return None
    count = math.prod(data.shape) // size * where.size
    return count * data.dtype.itemsize, lambda: numpy.asarray(numpy.take(data.numpy(), where, axis))


def _concat(node: Node, inputs: Sequence[TensorData]) -> Evaluation | None:
    import numpy

    rank, axis = len(inputs[0].shape), node.attributes.get("axis")
    if axis is None or not -rank <= axis < rank or any(data.dtype != inputs[0].dtype for data in inputs):
        return None
    rests = {tuple(dim for index, dim in enumerate(data.shape) if index != axis % rank) for data in inputs}
    if len(rests) != 1:
        return None
    return sum(data.nbytes for data in inputs), lambda: numpy.concatenate(
        [data.numpy() for data in inputs], axis
    )


def _slice(inputs: Sequence[TensorData]) -> Evaluation | None:
    data, rank = inputs[0], len(inputs[0].shape)
    starts, ends, *rest = (given.numpy().reshape(-1).tolist() for given in inputs[1:])
    axes = rest[0] if rest else list(range(len(starts)))
    steps = rest[1] if len(rest) > 1 else [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        return None
    if any(not -rank <= axis < rank for axis in axes) or len({axis % rank for axis in axes}) != len(axes):
        return None
    where = [slice(None)] * rank
    for axis, *bounds in zip(axes, starts, ends, steps, strict=True):
        where[axis] = slice(*bounds)
    return data.nbytes, lambda: data.numpy()[tuple(where)]


def _product(node: Node, inputs: Sequence[TensorData]) -> Evaluation | None:
    import numpy

    data, dtype = inputs[0], inputs[0].dtype
    axes = inputs[1].numpy().tolist() if len(inputs) == 2 else node.attributes.get("axes")
    rank = len(data.shape)
    if dtype.name not in _WHOLE or not isinstance(axes, list | tuple) or not axes:
        return None
    if any(not -rank <= axis < rank for axis in axes) or len({axis % rank for axis in axes}) != len(axes):
        return None
    keeps = bool(node.attributes.get("keepdims", 1))

    def compute() -> Array:
        return numpy.asarray(numpy.prod(data.numpy(), tuple(axes), dtype, keepdims=keeps))

    return data.nbytes, compute
