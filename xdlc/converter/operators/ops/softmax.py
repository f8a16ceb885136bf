"""Softmax and LogSoftmax."""

from __future__ import annotations

import math

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import neuron, reversed_along
from xdlc.converter.operators.registry import Node, importer
from xdlc.converter.values import Value
from xdlc.opdefs.elementwise_enums import (
    SIGMOID,
    SUBTRACT,
)

_TYPES = {"Softmax": "Softmax", "LogSoftmax": "LogSoftmax"}


@importer(*_TYPES, since=13)
def softmax(node: Node, b: Builder, value: Value) -> Value:
    """Map along one axis, moved to the end, as backends require."""
    return along(b, _TYPES[node.type], value, node.axis(node.attr("axis", -1), value.rank))


@importer(*_TYPES, since=1)
def flattening_softmax(node: Node, b: Builder, value: Value) -> Value:
    """Map the form before opset 13: softmax over all axes from ``axis`` on together."""
    axis = node.axis(node.attr("axis", 1), value.rank)
    if math.prod(value.shape[axis + 1 :]) == 1:
        return along(b, _TYPES[node.type], value, axis)
    flat = b.reshape(value, (math.prod(value.shape[:axis]), math.prod(value.shape[axis:])))
    return b.reshape(along(b, _TYPES[node.type], flat, 1), value.shape)


def along(b: Builder, type: str, value: Value, axis: int) -> Value:
    """Append a softmax along a source axis, or a sigmoid of differences for a pair."""
    if axis != value.rank - 1 and math.prod(value.shape[axis + 1 :]) == 1:
        rest = [dim for position, dim in enumerate(value.shape) if position != axis]
        moved = b.reshape(value, (*rest, value.shape[axis]))
        return b.reshape(along(b, type, moved, value.rank - 1), value.shape)
    if type == "Softmax" and value.shape[axis] == 2 and value.order[-1] != axis:
        return neuron(b, b.binary(SUBTRACT, value, reversed_along(b, value, axis)), SIGMOID)
    order = (*(held for held in value.order if held != axis), axis)
    tensor = b.to_layout(value, order, why=f"{b.node} works along the last axis")
    params = {"axis": ir.u32(len(order) - 1), "beta": ir.f32(1.0)}
    return Value(b.emit(type, [tensor], tensor.shape, value.dtype, params), order)
