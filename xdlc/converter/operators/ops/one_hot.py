"""OneHot and Hardmax."""

from __future__ import annotations

import math

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import compare, number, select
from xdlc.converter.operators.registry import Node, importer
from xdlc.converter.values import Value, identity
from xdlc.ir import DType, Scalar, Tensor
from xdlc.ir.dtype import INT32
from xdlc.opdefs.elementwise_enums import ADD, LESS


@importer("OneHot", since=9)
def one_hot(node: Node, b: Builder) -> Value:
    """Map onto OneHot; an index below 0 counts from the depth."""
    indices = node.required(0)
    depth, values = node.static(1, "the depth"), node.static(2, "the values")
    if depth is None or values is None or values.size != 2:
        raise node.invalid("requires a depth and two values")
    dim = int(depth.reshape(-1)[0])
    off, on = (_scalar(node, values.reshape(-1)[index]) for index in range(2))
    index = b.cast(indices, INT32)
    if indices.dtype.is_signed:
        below = compare(b, LESS, index, number(b, index, 0))
        index = select(b, below, b.binary(ADD, index, number(b, index, dim)), index)
    dtype = node.required(2).dtype
    axis = node.attr("axis", -1)
    return marked(b, index, dim, node.axis(axis, index.rank + 1), dtype, off=off, on=on)


def marked(b: Builder, index: Value, dim: int, axis: int, dtype: DType, *, off: Scalar, on: Scalar) -> Value:
    """Append a OneHot: a new source axis of ``dim`` elements, the indexed one ``on``."""
    shape = list(index.shape)
    source = index if index.rank else b.reshape(index, (1,))
    params: dict[str, ir.Param] = {
        "depth": ir.u32(dim),
        "axis": ir.u32(axis),
        "on_value": on,
        "off_value": off,
    }
    made = [*source.shape[:axis], dim, *source.shape[axis:]]
    out = b.emit("OneHot", [b.source_order(source)], made, dtype, params)
    shape.insert(axis, dim)
    return b.reshape(Value(out, identity(len(made))), shape)


def _scalar(node: Node, value: np.generic) -> Scalar:
    """Return a value as a parameter that holds it exactly."""
    plain = value.item()
    if isinstance(plain, bool):
        return ir.b8(plain)
    if isinstance(plain, int) and -(1 << 31) <= plain < 1 << 31:
        return ir.i32(plain)
    if isinstance(plain, float) and (not math.isfinite(plain) or float(np.float32(plain)) == plain):
        return ir.f32(plain)
    if value.dtype.name == "bfloat16":
        return ir.f32(float(value))
    raise node.problem(f"value {plain} has no exact form as a 32-bit parameter")


@importer("Hardmax")
def hardmax(node: Node, b: Builder) -> Value:
    """Map onto Argmax and OneHot; before opset 13 the axes from ``axis`` on are one."""
    x = node.required(0)
    axis = node.axis(node.attr("axis", -1 if node.opset >= 13 else 1), x.rank)
    if node.opset < 13:
        flat = b.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))
        return b.reshape(_hardmax(b, flat, 1), x.shape)
    return _hardmax(b, x, axis)


def _hardmax(b: Builder, x: Value, axis: int) -> Value:
    tensor: Tensor = b.source_order(x)
    rest = [dim for held, dim in enumerate(x.shape) if held != axis]
    params: dict[str, ir.Param] = {"axis": ir.u32(axis), "keep_dims": ir.b8(not rest)}
    found = b.emit("Argmax", [tensor], rest or (1,), INT32, params)
    index = b.reshape(Value(found, identity(found.rank)), rest)
    zero, one = (ir.f32(0.0), ir.f32(1.0)) if x.dtype.is_float else (ir.i32(0), ir.i32(1))
    return marked(b, index, x.shape[axis], axis, x.dtype, off=zero, on=one)
