"""Handlers of diagonals and triangles of matrices."""

from __future__ import annotations

import numpy as np

from xdlc.converter.nhwc.elementwise import where
from xdlc.converter.nhwc.scatter import matrix_diagonals, set_diagonals
from xdlc.converter.nhwc.shapes import dims, number, reshape
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._forms import operand
from xdlc.converter.pytorch.ops._shapes import axes_of, cut, empty, flat, moved
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value, check_table
from xdlc.ir.dtype import BOOL8, INT32


@aten("diagonal", "diagonal_copy", "linalg_diagonal", names={"A": "self"})
def _diagonal(node: AtenNode, g: Operators, self: Value, offset: int, dim1: int, dim2: int) -> Value:
    x = moved(g, self, axes_of(node, [dim1, dim2], self.rank), [self.rank - 2, self.rank - 1])
    *before, rows, columns = dims(x)
    first, column = max(-offset, 0), max(offset, 0)
    count = min(rows - first, columns - column)
    if count <= 0:
        return empty(g, [*before, 0], x.dtype)
    start = first * columns + column
    lying = reshape(g, x, [*before, rows * columns])
    return cut(g, lying, len(before), start, start + (count - 1) * (columns + 1) + 1, columns + 1)


@aten("trace")
def _trace(node: AtenNode, g: Operators, self: Value) -> Value:
    return g("ReduceSum", [operand(node, g, _diagonal(node, g, self, 0, 0, 1))], keepdims=0)


@aten("diag_embed")
def _diag_embed(node: AtenNode, g: Operators, self: Value, offset: int, dim1: int, dim2: int) -> Value:
    first, second = axes_of(node, [dim1, dim2], self.rank + 1)
    if first > second:  # which turns the matrices round
        offset, first, second = -offset, second, first
    made = matrix_diagonals(g, self, (offset, offset))
    return moved(g, made, [self.rank - 1, self.rank], [first, second])


@aten("diag", names={"diagonal": "offset"})
@aten("diagflat")
def _diag(node: AtenNode, g: Operators, self: Value, offset: int) -> Value:
    x = flat(node, g, self) if node.type == "diagflat" else self
    if x.rank == 2:
        return _diagonal(node, g, x, offset, 0, 1)
    return matrix_diagonals(g, x, (offset, offset))


@aten("diagonal_scatter")
def _diagonal_scatter(
    node: AtenNode, g: Operators, self: Value, src: Value, offset: int, dim1: int, dim2: int
) -> Value:
    axes, last = axes_of(node, [dim1, dim2], self.rank), [self.rank - 2, self.rank - 1]
    x = moved(g, self, axes, last)
    rows, columns = dims(x, (-2, -1))
    if not -rows < offset < columns:
        return self
    return moved(g, set_diagonals(g, x, g.builder.cast(src, self.dtype), (offset, offset)), last, axes)


@aten("tril", "triu", layout=ANY)
def _triangle(node: AtenNode, g: Operators, self: Value, diagonal: int) -> Value:
    x = g.builder.cast(self, INT32) if self.dtype is BOOL8 else self
    return g("Trilu", [x, g.builder.const(np.asarray(diagonal, np.int64))], upper=int(node.type == "triu"))


@aten("fill_diagonal")
def _fill_diagonal(node: AtenNode, g: Operators, self: Value, fill_value: float, wrap: bool) -> Value:
    shape = dims(self)
    if self.rank < 2 or (self.rank > 2 and len(set(shape)) > 1):
        raise node.invalid(f"the diagonal of shape {list(shape)}")
    check_table(*shape)
    held = np.zeros(shape, np.bool_)
    np.fill_diagonal(held, True, wrap)
    return where(g, g.builder.const(held), number(g, self, fill_value), self)
