"""Reductions along axes."""

from __future__ import annotations

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import reduced, unary
from xdlc.converter.operators.ops.neuron import neuron
from xdlc.converter.operators.registry import ANY, Node, importer
from xdlc.converter.values import Value
from xdlc.ir.dtype import FLOAT32
from xdlc.opdefs.elementwise_enums import ABS, ADD, EXP, LOG, MULTIPLY, RELU_MIN_MAX, SQRT, SUBTRACT

_TYPES = {f"Reduce{name}": f"Reduce{name}" for name in ("Max", "Mean", "Min", "Prod", "Sum")}


@importer(*_TYPES, layout=ANY)
def reduce(node: Node, b: Builder) -> Value:
    """Map onto the reduction of the same name."""
    return _reduce(node, b, node.required(0), _TYPES[node.type])


@importer("ReduceLogSumExp", layout=ANY)
def log_sum_exp(node: Node, b: Builder) -> Value:
    """Write log(sum(exp(x - m))) + m with the maximum m, to avoid overflow."""
    x = node.required(0)
    most = float(np.finfo(np.float32).max)
    axes, keep = _axes(node, x), node.flag("keepdims", 1)
    if not axes:
        return x
    value = x if x.dtype.is_float else b.cast(x, FLOAT32)
    limits: dict[str, ir.Param] = {"min_value": ir.f32(-most), "max_value": ir.f32(most)}
    top = neuron(
        b, reduced(b, "ReduceMax", value, axes), RELU_MIN_MAX, limits
    )  # infinity minus infinity is NaN
    total = reduced(b, "ReduceSum", unary(b, EXP, b.binary(SUBTRACT, value, top)), axes)
    result = b.cast(b.binary(ADD, unary(b, LOG, total), top), x.dtype)
    if keep:
        return result
    return b.reshape(result, [dim for axis, dim in enumerate(value.shape) if axis not in axes])


@importer("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", layout=ANY)
def composed(node: Node, b: Builder) -> Value:
    """Write a reduction as ReduceSum with operations before and after it."""
    value = node.required(0)
    if node.type in ("ReduceL2", "ReduceSumSquare"):
        value = b.binary(MULTIPLY, value, value)
    elif node.type == "ReduceL1":
        value = unary(b, ABS, value)
    total = _reduce(node, b, value, "ReduceSum")
    if node.type == "ReduceL2":
        return unary(b, SQRT, total)
    return unary(b, LOG, total) if node.type == "ReduceLogSum" else total


def _axes(node: Node, value: Value) -> list[int]:
    """Return the axes to reduce, from 0; none if the operator has no effect."""
    axes, keeps_all = node.ints(1, "axes", "the axes"), node.flag("noop_with_empty_axes")
    if not axes:
        return [] if keeps_all else list(range(value.rank))
    return sorted({node.axis(axis, value.rank) for axis in axes})


def _reduce(node: Node, b: Builder, value: Value, type: str) -> Value:
    axes, keep = _axes(node, value), node.flag("keepdims", 1)
    return reduced(b, type, value, axes, keep=keep) if axes else value
