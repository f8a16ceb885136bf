"""Handlers of products of matrices."""

from __future__ import annotations

import math

from xdlc.converter.caffe2.ops._args import flag, inputs, integer, vector_of
from xdlc.converter.caffe2.registry import operator
from xdlc.converter.nhwc.products import matmul, swapped
from xdlc.converter.nhwc.shapes import dims, reshape
from xdlc.converter.operators.applying import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value


def _matrix(g: Operators, x: Value, axis: int) -> Value:
    """Return a value as a matrix whose columns are the axes from ``axis`` on."""
    shape = dims(x)
    return reshape(g, x, (math.prod(shape[:axis]), math.prod(shape[axis:])))


@operator("FC", "FCTransposed")
def _fc(node: Node, g: Operators) -> Value:
    """Return x, flattened from axis on, times weights [N, K] (FCTransposed: [K, N]), plus a bias [N]."""
    x, weight, bias = inputs(node, 3)
    axis = node.axis(integer(node, "axis", 1), x.rank)
    transposed = node.type == "FCTransposed"
    rows, table = _matrix(g, x, axis), _matrix(g, weight, node.axis(integer(node, "axis_w", 1), weight.rank))
    units, inner = reversed(table.shape) if transposed else table.shape
    if rows.shape[1] != inner:
        raise node.invalid(
            f"{rows.shape[1]} elements of {node.names[0]!r} from axis {axis} on meet weights "
            f"{node.names[1]!r} of shape {list(weight.shape)}"
        )
    vector_of(node, bias, units, "the bias")
    made = g("Gemm", [rows, table, bias], transB=int(not transposed))
    return reshape(g, made, (*dims(x)[:axis], units))


@operator("MatMul")
def _matmul(node: Node, g: Operators) -> Value:
    """Return the product of two matrices, views of the inputs by axis_a and axis_b."""
    x, y, *_ = inputs(node, 2, 3)
    swap_x, swap_y = flag(node, "trans_a"), flag(node, "trans_b")
    left = _matrix(g, x, node.axis(integer(node, "axis_a", 1), x.rank))
    right = _matrix(g, y, node.axis(integer(node, "axis_b", 1), y.rank))
    if left.shape[0 if swap_x else 1] != right.shape[1 if swap_y else 0]:
        raise node.invalid(f"{list(left.shape)} times {list(right.shape)}: the inner dimensions differ")
    return matmul(g, left, right, swap_x=swap_x, swap_y=swap_y)


@operator("BatchMatMul", ignores=("use_scratch",))
def _batch_matmul(node: Node, g: Operators) -> Value:
    """Return products of matrices in the last two axes; those before them are equal, or broadcast."""
    x, y = inputs(node, 2)
    shapes, free = (dims(x), dims(y)), flag(node, "broadcast")
    swap_x, swap_y = flag(node, "trans_a"), flag(node, "trans_b")
    if not free and (x.rank != y.rank or shapes[0][:-2] != shapes[1][:-2]):
        raise node.invalid(f"batches of {list(shapes[0])} and {list(shapes[1])} differ, without broadcast")
    x = swapped(g, x) if swap_x and x.rank > 1 else x
    y = swapped(g, y) if swap_y and y.rank > 1 else y
    if not x.rank or not y.rank or x.shape[-1] != y.shape[-2 if y.rank > 1 else -1]:
        raise node.invalid(f"{list(x.shape)} times {list(y.shape)}: the inner dimensions differ")
    return g("MatMul", [x, y])
