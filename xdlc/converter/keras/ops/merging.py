"""Layers that merge several tensors."""

from __future__ import annotations

from xdlc.converter.keras.registry import as_float, batched, const, handler, inputs, moved
from xdlc.converter.nhwc.normalization import l2_normalized
from xdlc.converter.nhwc.shapes import axis_of, dims, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value

_CHAINS = {"Add": "Add", "Subtract": "Sub", "Multiply": "Mul", "Maximum": "Max", "Minimum": "Min"}


def _of_one_type(node: Node, g: Operators) -> list[Value]:
    values = inputs(node)
    if any(value.dtype is not values[0].dtype for value in values):
        return [as_float(g, value) for value in values]
    return values


@handler(*_CHAINS, "Average", ignores=("mask",))
def merged(node: Node, g: Operators) -> Value:
    """Combine tensors element-wise; lower ranks gain axes after the batch."""
    values = _of_one_type(node, g)
    rank = max(value.rank for value in values)
    values = [
        g("Unsqueeze", [value, vector(g, range(1, 1 + rank - value.rank))]) if value.rank < rank else value
        for value in values
    ]
    total = values[0]
    for value in values[1:]:
        total = g(_CHAINS.get(node.type, "Add"), [total, value])
    if node.type != "Average":
        return total
    return g("Mul", [as_float(g, total), const(g, 1 / len(values))])


@handler("Concatenate", ignores=("mask",))
def concatenate(node: Node, g: Operators) -> Value:
    """Put tensors side by side."""
    values = _of_one_type(node, g)
    axis = axis_of(int(node.attr("axis", -1)), values[0].rank)
    return g("Concat", values, axis=axis) if len(values) > 1 else values[0]


@handler("Dot", ignores=("mask",))
def dot(node: Node, g: Operators) -> Value:
    """Sum products along an axis of each of two tensors, example by example."""
    x, y = (as_float(g, value) for value in inputs(node))
    given = node.attr("axes")
    pair = given if isinstance(given, list) else [given, given]
    if len(pair) != 2 or not all(type(axis) is int for axis in pair):
        raise node.invalid(f"the axes are not valid: {given!r:.40}")
    first, second = axis_of(pair[0], x.rank), axis_of(pair[1], y.rank)
    if node.attr("normalize", False):
        x, y = l2_normalized(g, x, [first], 1e-24), l2_normalized(g, y, [second], 1e-24)
    x, _ = moved(g, x, [first], [x.rank - 1])
    y, _ = moved(g, y, [second], [1])
    left, right = dims(x, range(1, x.rank - 1)), dims(y, range(2, y.rank))
    size = x.shape[-1]
    made = g("MatMul", [batched(g, x, [-1, size]), batched(g, y, [size, -1])])
    return batched(g, made, [*left, *right] or [1])
