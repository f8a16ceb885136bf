"""Handlers of products, determinants and inverses of matrices."""

from __future__ import annotations

from xdlc.converter.nhwc.gathering import stack, unstack
from xdlc.converter.nhwc.products import dense, matmul, swapped
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.registry import (
    handler,
)
from xdlc.converter.values import Value


@handler("MatMul", ignores=("grad_a", "grad_b", "a_is_sparse", "b_is_sparse", "Ta", "Tb"))
def matrix_product(node: Node, g: Operators, x: Value, y: Value) -> Value:
    """Return the product of two matrices."""
    swap_x, swap_y = (bool(node.attr(name, False)) for name in ("transpose_a", "transpose_b"))
    if y.is_static and x.rank == y.rank == 2 and x.dtype.is_float and not x.is_static:
        left = g("Transpose", [x], perm=[1, 0]) if swap_x else x
        return dense(g, left, y if swap_y else g("Transpose", [y], perm=[1, 0]))
    return matmul(g, x, y, swap_x=swap_x, swap_y=swap_y)


@handler("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", ignores=("Ta", "Tb", "grad_x", "grad_y"))
def _batch_product(node: Node, g: Operators, x: Value, y: Value) -> Value:
    swap_x, swap_y = (bool(node.attr(name, False)) for name in ("adj_x", "adj_y"))
    return matmul(g, x, y, swap_x=swap_x, swap_y=swap_y)


@handler("MatrixDeterminant")
def _determinant(node: Node, g: Operators, x: Value) -> Value:
    return g("Det", [x])


@handler("MatrixInverse")
def _inverse(node: Node, g: Operators, x: Value) -> Value:
    made = g.apply("Inverse", [x], domain="com.microsoft")[0]
    return swapped(g, made) if node.attr("adjoint", False) else made


@handler("Einsum")
def _einsum(node: Node, g: Operators, *values: Value) -> Value:
    return g("Einsum", values, equation=str(node.attr("equation")))


@handler("Cross")
def _cross(node: Node, g: Operators, first: Value, second: Value) -> Value:
    (a, b, c), (x, y, z) = (unstack(g, value, 3, -1) for value in (first, second))

    def minor(p: Value, q: Value, r: Value, s: Value) -> Value:
        return g("Sub", [g("Mul", [p, q]), g("Mul", [r, s])])

    return stack(g, [minor(b, z, c, y), minor(c, x, a, z), minor(a, y, b, x)], -1)
