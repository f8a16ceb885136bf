"""Handlers of products with weights, and of reductions."""

from __future__ import annotations

import math

import numpy as np

from xdlc.converter.caffe2.ops.shapes import flattened
from xdlc.converter.caffe2.registry import flag, integer, integers, operator, vectors, wants
from xdlc.converter.functions.products import swapped
from xdlc.converter.functions.reduce import reduced
from xdlc.converter.functions.shapes import cast, dims, ints, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value
from xdlc.ir.dtype import INT64


def _matrix(node: Node, g: Operators, x: Value, argument: str) -> Value:
    """Return a value as a matrix; axes from the stated one on form its columns."""
    return flattened(g, x, node.axis(integer(node, argument, 1), x.rank))


@operator("FC", "FCTransposed")
def _fc(node: Node, g: Operators, x: Value, weight: Value, bias: Value) -> Value:
    """Return x, flattened from axis on, times [N, K] (or [K, N]), plus a bias [N]."""
    rows, table = _matrix(node, g, x, "axis"), _matrix(node, g, weight, "axis_w")
    transposed = node.type == "FCTransposed"
    units, inner = reversed(table.shape) if transposed else table.shape
    if rows.shape[1] != inner:
        raise node.invalid(
            f"{rows.shape[1]} elements per row of {node.names[0]!r} do not fit weights "
            f"{node.names[1]!r} of shape {list(weight.shape)}"
        )
    vectors(node, units, bias=bias)
    made = g("Gemm", [rows, table, bias], transB=int(not transposed))
    return reshape(g, made, (*dims(x)[: integer(node, "axis", 1) % x.rank], units))


def _product(node: Node, g: Operators, x: Value, y: Value) -> Value:
    """Return the product over the last two axes, which trans_a and trans_b swap."""
    x, y = (
        swapped(g, value) if flag(node, name) and value.rank > 1 else value
        for name, value in (("trans_a", x), ("trans_b", y))
    )
    if x.shape[-1:] != y.shape[-2:][:1]:
        raise node.invalid(f"a product of {list(x.shape)} and {list(y.shape)} needs equal inner dimensions")
    return g("MatMul", [x, y])


@operator("MatMul")
def _matmul(node: Node, g: Operators, x: Value, y: Value, _rows: Value | None = None) -> Value:
    """Return the product of two matrices, views of the inputs by axis_a and axis_b."""
    return _product(node, g, _matrix(node, g, x, "axis_a"), _matrix(node, g, y, "axis_b"))


@operator("BatchMatMul", ignores=("use_scratch",))
def _batch_matmul(node: Node, g: Operators, x: Value, y: Value) -> Value:
    """Return matrix products over the last two axes; the others broadcast."""
    if not flag(node, "broadcast") and (x.rank != y.rank or dims(x)[:-2] != dims(y)[:-2]):
        raise node.invalid(
            f"inputs {list(x.shape)} and {list(y.shape)} have different batches, and broadcast is not set"
        )
    return _product(node, g, x, y)


_KINDS = ("Max", "Mean", "Min", "Sum", "L1", "L2")
_ENDS = {f"Reduce{end}{kind}": (end, kind) for end in ("Front", "Back") for kind in ("Max", "Mean", "Sum")}


@operator(*(f"Reduce{kind}" for kind in _KINDS), layout=ANY)
def _reduce(node: Node, g: Operators, x: Value) -> Value:
    axes = [node.axis(axis, x.rank) for axis in integers(node, "axes") or range(x.rank)]
    if len(set(axes)) != len(axes):
        raise node.invalid(f"axes {axes} repeat an axis")
    return reduced(g, node.type, x, axes, keep=flag(node, "keepdims", True))


@operator(*_ENDS, layout=ANY)
def _reduce_ends(node: Node, g: Operators, x: Value) -> Value:
    """Return a reduction of the first or of the last axes, which are dropped."""
    if len(node.inputs) == 2:
        raise node.problem("xdlc does not support lengths (input 1)", "mask the values before the reduction")
    end, kind = _ENDS[node.type]
    count = integer(node, "num_reduce_dim", 1, 0)
    if count > x.rank:
        raise node.invalid(f"num_reduce_dim {count} does not fit an input of rank {x.rank}")
    axes = range(count) if end == "Front" else range(x.rank - count, x.rank)
    return reduced(g, kind, x, axes, keep=False)


@operator("ArgMax", "ArgMin", layout=ANY)
def _arg(node: Node, g: Operators, x: Value) -> Value:
    axis = node.axis(integer(node, "axis", -1), x.rank)
    return g(node.type, [x], axis=axis, keepdims=int(flag(node, "keepdims", True)))


@operator("TopK")
def _top_k(node: Node, g: Operators, x: Value, count: Value | None = None) -> list[Value]:
    """Return the k greatest elements of an axis, their indices and int64 flat ones."""
    k = integers(node, "k") if count is None else ints(count, "k")
    axis = node.axis(integer(node, "axis", -1), x.rank)
    if len(k) != 1 or not 0 < k[0] <= dims(x, [axis])[0]:
        raise node.invalid(f"k is {k}, but axis {axis} of the input has only {x.shape[axis]} elements")
    values, places = g.apply("TopK", [x, vector(g, k)], {"axis": axis}, 2)
    if not wants(node, 2):
        return [values, places]
    shape = dims(x)
    g.builder.check_table(*shape)
    first = g.builder.const(np.take(np.arange(x.size).reshape(shape), [0], axis))
    step = g.builder.const(np.asarray(math.prod(shape[axis + 1 :]), np.int64))
    flat = g("Add", [g("Mul", [places, step]), first])
    return [values, places, cast(g, reshape(g, flat, (flat.size,)), INT64)]
