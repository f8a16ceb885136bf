"""Reductions along axes."""

from __future__ import annotations

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.onnx.ops.binary import MULTIPLY
from xdlc.converter.onnx.registry import ANY, Node, importer
from xdlc.converter.values import Order, Value

_TYPES = {f"Reduce{name}": f"Reduce{name}" for name in ("Max", "Mean", "Min", "Prod", "Sum")}
SQRT, EXP, LOG, ABS = 15, 5, 7, 0


@importer(*_TYPES, layout=ANY)
def reduce(node: Node, b: Builder) -> Value:
    """Map onto the reduction of the same name."""
    return _reduce(node, b, node.required(0), _TYPES[node.type])


@importer("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp", layout=ANY)
def composed(node: Node, b: Builder) -> Value:
    """Write a reduction as ReduceSum with operations before and after it."""
    value = node.required(0)
    if node.type in ("ReduceL2", "ReduceSumSquare"):
        value = b.binary(MULTIPLY, value, value)
    elif node.type == "ReduceL1":
        value = _unary(b, value, ABS)
    elif node.type == "ReduceLogSumExp":
        value = _unary(b, value, EXP)
    total = _reduce(node, b, value, "ReduceSum")
    if node.type == "ReduceL2":
        return _unary(b, total, SQRT)
    return _unary(b, total, LOG) if node.type.startswith("ReduceLog") else total


def _unary(b: Builder, value: Value, operation: int) -> Value:
    return b.unary("ElementWiseUnary", value, {"operation": ir.u32(operation)})


def _reduce(node: Node, b: Builder, value: Value, type: str) -> Value:
    given, keep = node.ints(1, "axes", "the axes"), bool(node.attr("keepdims", 1))
    keeps_all = bool(node.attr("noop_with_empty_axes", 0))
    if not given:
        if keeps_all:
            return value
        given = list(range(value.rank))
    axes = sorted({axis % value.rank for axis in given})
    lying = sorted(value.axis(axis) for axis in axes)
    shape = [1 if axis in lying else extent for axis, extent in enumerate(value.tensor.shape)]
    if not keep and len(axes) < value.rank:
        shape = [extent for axis, extent in enumerate(shape) if axis not in lying]
    params: dict[str, ir.Param] = {
        "axes": ir.static("", np.asarray(lying, np.uint32)),
        "keep_dims": ir.b8(keep or len(axes) == value.rank),
    }
    out = b.emit(type, [value.tensor], shape, value.dtype, params, encoding=None)
    if keep:
        return Value(out, value.order)
    if len(axes) == value.rank:
        return b.reshape(Value(out, value.order), ())
    return Value(out, without_axes(value.order, axes))


def without_axes(order: Order, axes: list[int]) -> Order:
    """Return the order of a value that lost source axes."""
    kept = [axis for axis in order if axis not in axes]
    ranks = {axis: position for position, axis in enumerate(sorted(kept))}
    return tuple(ranks[axis] for axis in kept)
