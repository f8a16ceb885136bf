"""Reductions along axes, positions of extremes, and cumulative sums and products."""

from __future__ import annotations

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import ANY, Node, importer
from xdlc.converter.ops._compose import (
    joined,
    neuron,
    number,
    part,
    reduced,
    reversed_along,
    unary,
    without_axes,
)
from xdlc.converter.values import Value
from xdlc.ir.dtype import FLOAT32, INT32, INT64
from xdlc.opdefs.elementwise_enums import ABS, ADD, EXP, LOG, MULTIPLY, RELU_MIN_MAX, SQRT, SUBTRACT


@importer("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", layout=ANY)
def reduce(node: Node, b: Builder) -> Value:
    """Map onto the reduction of the same name."""
    return _reduce(node, b, node.required(0), node.type)


@importer("ReduceLogSumExp", layout=ANY)
def log_sum_exp(node: Node, b: Builder, x: Value) -> Value:
    """Write log(sum(exp(x - m))) + m with the maximum m, to avoid overflow."""
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
def composed(node: Node, b: Builder, value: Value) -> Value:
    """Write a reduction as ReduceSum with operations before and after it."""
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


@importer("ArgMax", "ArgMin", layout=ANY)
def arg(node: Node, b: Builder, value: Value) -> Value:
    """Map onto Argmax or Argmin (int32), cast to ONNX's int64."""
    axis = node.axis(node.attr("axis", 0), value.rank)
    last = node.flag("select_last_index")
    if last:  # the first from the other end
        value = reversed_along(b, value, axis)
    lying = value.axis(axis)
    keep = node.flag("keepdims", 1) or value.rank == 1
    shape = [1 if position == lying else dim for position, dim in enumerate(value.tensor.shape)]
    if not keep:
        del shape[lying]
    params = {"axis": ir.u32(lying), "keep_dims": ir.b8(keep)}
    found = b.emit({"ArgMax": "Argmax", "ArgMin": "Argmin"}[node.type], [value.tensor], shape, INT32, params)
    result = Value(found, value.order if keep else without_axes(value.order, [axis]))
    if last:
        result = b.binary(SUBTRACT, number(b, result, value.shape[axis] - 1), result)
    if keep and not node.flag("keepdims", 1):
        result = b.reshape(result, ())
    return b.cast(result, INT64)


@importer("TopK")
def top_k(node: Node, b: Builder, x: Value) -> list[Value]:
    """Map onto TopK along the last axis; its int32 indices are cast to int64."""
    (k,) = node.ints(1, "k", "k") or [0]
    axis = node.axis(node.attr("axis", -1), x.rank)
    node.flag("sorted", 1)  # QNN's result is sorted always
    if not 0 < k <= x.shape[axis]:
        raise node.problem(f"k is {k}, but the axis has only {x.shape[axis]} elements")
    order = (*(held for held in x.order if held != axis), axis)
    tensor = b.to_layout(x, order, why=f"{node.name} works along the last axis")
    shape = (*tensor.shape[:-1], k)
    params = {"k": ir.u32(k), "largest": ir.b8(node.flag("largest", 1))}
    values, indices = b.emit_many("TopK", [tensor], [(shape, x.dtype), (shape, INT32)], params)
    return [Value(values, order), b.cast(Value(indices, order), INT64)]


@importer("CumSum", since=11, layout=ANY)
def cumulative_sum(node: Node, b: Builder, x: Value) -> Value:
    """Map onto CumulativeSum."""
    axis = node.static(1, "the axis")
    if axis is None:
        raise node.problem("the axis (input 1) is missing")
    params = {
        "axis": ir.u32(x.axis(node.axis(int(axis.reshape(-1)[0]), x.rank))),
        "exclusive": ir.b8(node.flag("exclusive")),
        "reverse": ir.b8(node.flag("reverse")),
    }
    return b.unary("CumulativeSum", x, params)


@importer("CumProd", since=26, layout=ANY)
def cumulative_product(node: Node, b: Builder, x: Value) -> Value:
    """Write log2(n) products with elements 1, 2, 4, ... before."""
    given = node.static(1, "the axis")
    if given is None or given.size != 1:
        raise node.invalid("requires one axis")
    axis = node.axis(int(given.reshape(-1)[0]), x.rank)
    reverse = node.flag("reverse")
    if reverse:
        x = reversed_along(b, x, axis)
    if node.flag("exclusive"):
        x = _delayed(b, x, axis, 1)
    step = 1
    while step < x.shape[axis]:
        x = b.binary(MULTIPLY, x, _delayed(b, x, axis, step))
        step *= 2
    return reversed_along(b, x, axis) if reverse else x


def _delayed(b: Builder, x: Value, axis: int, step: int) -> Value:
    """Return ``x`` shifted along an axis and filled with ones at the start."""
    shape = (*x.shape[:axis], step, *x.shape[axis + 1 :])
    b.check_table(*shape)
    ones = b.const(np.ones(shape, x.dtype.numpy), f"{b.stem}_ones")
    return joined(b, [ones, part(b, x, axis, 0, x.shape[axis] - step)], axis)
