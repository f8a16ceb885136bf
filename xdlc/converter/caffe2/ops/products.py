"""Handlers of products of matrices."""

from __future__ import annotations

from xdlc.converter.caffe2.ops.shapes import flattened
from xdlc.converter.caffe2.registry import flag, integer, operator, vectors
from xdlc.converter.nhwc.products import swapped
from xdlc.converter.nhwc.shapes import dims, reshape
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value


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
