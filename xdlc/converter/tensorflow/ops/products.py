"""Handlers of products, determinants and inverses of matrices."""

from __future__ import annotations

from xdlc.converter.functions.gathering import stack, unstack
from xdlc.converter.functions.products import dense, matmul, swapped
from xdlc.converter.functions.terms import Term
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.registry import (
    handler,
)
from xdlc.converter.values import Value


@handler("MatMul", ignores=("grad_a", "grad_b", "a_is_sparse", "b_is_sparse", "Ta", "Tb"))
def _matrix_product(node: Node, g: Operators, x: Value, y: Value) -> Value:
    return matrix_product(node, g, x, y, None)


def matrix_product(node: Node, g: Operators, x: Value, y: Value, bias: Value | None) -> Value:
    """Return the product of two matrices, plus a bias."""
    swap_x, swap_y = (bool(node.attr(name, False)) for name in ("transpose_a", "transpose_b"))
    if y.is_static and x.rank == y.rank == 2 and x.dtype.is_float and not x.is_static:
        left = g("Transpose", [x], perm=[1, 0]) if swap_x else x
        return dense(g, left, y if swap_y else g("Transpose", [y], perm=[1, 0]), bias)
    product = matmul(g, x, y, swap_x=swap_x, swap_y=swap_y)
    return product if bias is None else g("Add", [product, bias])


@handler("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", ignores=("Ta", "Tb", "grad_x", "grad_y"))
def _batch_product(node: Node, g: Operators, x: Value, y: Value) -> Value:
    swap_x, swap_y = (bool(node.attr(name, False)) for name in ("adj_x", "adj_y"))
    return matmul(g, x, y, swap_x=swap_x, swap_y=swap_y)


@handler("MatrixInverse")
def _inverse(node: Node, g: Operators, x: Value) -> Value:
    made = g.apply("Inverse", [x], domain="com.microsoft")[0]
    return swapped(g, made) if node.attr("adjoint", False) else made


@handler("Einsum")
def _einsum(node: Node, g: Operators, *values: Value) -> Value:
    return g("Einsum", values, equation=str(node.attr("equation")))


@handler("Cross")
def _cross(node: Node, g: Operators, first: Value, second: Value) -> Value:
    (a, b, c), (x, y, z) = ([Term(g, part) for part in unstack(g, value, 3, -1)] for value in (first, second))
    return stack(g, [minor.value for minor in (b * z - c * y, c * x - a * z, a * y - b * x)], -1)
