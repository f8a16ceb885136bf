"""Evaluation of the most frequent constant nodes by numpy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

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
_TYPES = {*_UFUNCS, "Concat", "Gather", "ReduceProd", "Slice"}
_UNARY = ("Neg", "Reciprocal", "Sqrt")
_OF_INTEGERS = ("Add", "Div", "Mul", "Sub")
_REAL, _WHOLE = ("float32", "float64"), ("int32", "int64")
Evaluation = tuple[int, Callable[[], Array]]


def evaluation(node: Node, inputs: Sequence[TensorData | None]) -> Evaluation | None:
    """Return the bytes that a node makes and a function for it, or None.

    Args:
        node: A node of the default domain.
        inputs: Its inputs; None for an omitted one.
    """
    operands = [data for data in inputs if data is not None]
    if node.type not in _TYPES or len(operands) != len(inputs) or not operands or len(node.outputs) != 1:
        return None
    attributes = dict(node.attributes) if node.load is None else node.load(False)
    if node.type in _UFUNCS:
        return None if attributes else _elementwise(node.type, operands)
    if any(0 in data.shape for data in operands):
        return None
    if node.type == "ReduceProd":
        return _product(attributes, operands)
    if node.type == "Slice":
        return None if attributes or len(operands) < 3 else _slice(operands)
    axis = attributes.pop("axis", 0 if node.type == "Gather" else None)
    rank = len(operands[0].shape)
    if attributes or not isinstance(axis, int) or not -rank <= axis < rank:
        return None
    if node.type == "Concat":
        return _concat(axis, operands)
    return _gather(axis, operands) if len(operands) == 2 else None


def _elementwise(type: str, inputs: Sequence[TensorData]) -> Evaluation | None:
    import numpy

    dtype, names = inputs[0].dtype, _REAL + (_WHOLE if type in _OF_INTEGERS else ())
    if dtype.name not in names or any(data.dtype != dtype for data in inputs):
        return None
    if len(inputs) != (1 if type in _UNARY else 2):
        return None
    try:
        shape = numpy.broadcast_shapes(*(data.shape for data in inputs))
    except ValueError:
        return None
    function = getattr(numpy, _UFUNCS[type])
    if type == "Div" and dtype.name in _WHOLE:
        if not inputs[1].numpy().all():
            return None  # onnxruntime refuses a divisor of 0
        function = _towards_zero

    def compute() -> Array:
        with numpy.errstate(all="ignore"):
            return numpy.asarray(function(*(data.numpy() for data in inputs)))

    return math.prod(shape) * dtype.itemsize, compute


def _towards_zero(dividend: Array, divisor: Array) -> Array:
    import numpy

    down = numpy.floor_divide(dividend, divisor)
    return numpy.asarray(down + (((dividend < 0) != (divisor < 0)) & (down * divisor != dividend)))


def _gather(axis: int, inputs: Sequence[TensorData]) -> Evaluation | None:
    import numpy

    data, positions = inputs
    if positions.dtype.kind != "i":
        return None
    where, size = positions.numpy(), data.shape[axis]
    if where.min() < -size or where.max() >= size:
        return None
    count = math.prod(data.shape) // size * where.size
    return count * data.dtype.itemsize, lambda: numpy.asarray(numpy.take(data.numpy(), where, axis))


def _concat(axis: int, inputs: Sequence[TensorData]) -> Evaluation | None:
    import numpy

    at = axis % len(inputs[0].shape)
    if len({(data.dtype, len(data.shape), data.shape[:at], data.shape[at + 1 :]) for data in inputs}) != 1:
        return None
    return sum(data.nbytes for data in inputs), lambda: numpy.concatenate(
        [data.numpy() for data in inputs], axis
    )


def _slice(inputs: Sequence[TensorData]) -> Evaluation | None:
    data, rank = inputs[0], len(inputs[0].shape)
    if len(inputs) > 5 or any(
        given.dtype.kind != "i" or math.prod(given.shape) > rank for given in inputs[1:]
    ):
        return None
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


def _product(attributes: dict[str, Any], inputs: Sequence[TensorData]) -> Evaluation | None:
    import numpy

    data, dtype = inputs[0], inputs[0].dtype
    rank = len(data.shape)
    given = inputs[1].numpy().reshape(-1)[: rank + 1].tolist() if len(inputs) == 2 else attributes.get("axes")
    axes = given if isinstance(given, list | tuple) else []
    if dtype.name not in _WHOLE or not axes or not all(isinstance(axis, int) for axis in axes):
        return None
    if any(not -rank <= axis < rank for axis in axes) or len({axis % rank for axis in axes}) != len(axes):
        return None
    keeps = bool(attributes.get("keepdims", 1))

    def compute() -> Array:
        return numpy.asarray(numpy.prod(data.numpy(), tuple(axes), dtype, keepdims=keeps))

    return data.nbytes, compute
