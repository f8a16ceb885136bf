"""Operators whose result is known while converting."""

from __future__ import annotations

import numpy as np

from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import Node, importer
from xdlc.converter.values import Value
from xdlc.ir import ArrayData, TensorData, fill


@importer("Constant")
def constant(node: Node, b: Builder) -> Value:
    """Bind a constant; its data are not copied."""
    name = node.outputs[0]
    for key, dtype in (("value_float", np.float32), ("value_floats", np.float32), ("value_int", np.int64)):
        if node.attr(key) is not None:
            return b.const(np.asarray(node.attr(key), dtype), name)
    if node.attr("value_ints") is not None:
        return b.const(np.asarray(node.attr("value_ints"), np.int64), name)
    value = node.attr("value", node.attr("sparse_value"))
    if not isinstance(value, TensorData):
        raise node.problem("string constants are not supported", "use a tensor of numbers")
    return b.const(value, name)


@importer("ConstantOfShape", since=9)
def constant_of_shape(node: Node, b: Builder) -> Value:
    """Fill a shape with one value, expanded only when it is written."""
    shape = tuple(node.required_ints(0, "shape", "the sizes"))
    if any(dim < 0 for dim in shape):
        raise node.problem(f"its shape {list(shape)} has a negative dimension")
    given = node.attr("value")
    value = given.numpy().reshape(()) if given is not None else np.zeros((), np.float32)
    filled = fill(ArrayData(value), shape)
    if not b.takes_fill(filled):
        raise node.problem(f"its shape {list(shape)} has too many elements to be written out")
    return b.const(filled, node.outputs[0])


@importer("Shape")
def shape(node: Node, b: Builder) -> Value:
    """Give the shape, which is known while converting."""
    dims = np.asarray(node.required(0).shape, np.int64)
    return b.const(dims[slice(node.attr("start", 0), node.attr("end"))], node.outputs[0])


@importer("Size")
def size(node: Node, b: Builder) -> Value:
    """Give the number of elements, which is known while converting."""
    return b.const(np.asarray(node.required(0).size, np.int64), node.outputs[0])
