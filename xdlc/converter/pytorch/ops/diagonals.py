"""Handlers of diagonals and triangles of matrices."""

from __future__ import annotations

import numpy as np

from xdlc.converter.nhwc.elementwise import where
from xdlc.converter.nhwc.scatter import matrix_diagonals, set_diagonals
from xdlc.converter.nhwc.shapes import dims, reshape
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._shapes import (
    axes_of,
    empty,
    moved,
    reshaped,
)
from xdlc.converter.pytorch.ops.slicing import cut
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value, check_table
from xdlc.ir.dtype import BOOL8


def _matrices(node: AtenNode, g: Operators, x: Value, dim1: int, dim2: int) -> Value:
    """Return a value with the axes of its matrices last."""
    first, second = axes_of(node, [dim1, dim2], x.rank)
    return moved(g, x, [first, second], [x.rank - 2, x.rank - 1])


@aten("diagonal", "diagonal_copy")
def _diagonal(node: AtenNode, g: Operators, self: Value, offset: int, dim1: int, dim2: int) -> Value:
    x = _matrices(node, g, self, dim1, dim2)
    *before, rows, columns = dims(x)
    first, column = max(-offset, 0), max(offset, 0)
    count = min(rows - first, columns - column)
    if count <= 0:
        return empty(g, [*before, 0], x.dtype)
    start = first * columns + column
    flat = reshape(g, x, [*before, rows * columns])
    return cut(g, flat, len(before), start, start + (count - 1) * (columns + 1) + 1, columns + 1)


@aten("linalg_diagonal")
def _linalg_diagonal(node: AtenNode, g: Operators, A: Value, offset: int, dim1: int, dim2: int) -> Value:  # noqa: N803 - the schema's name
    return _diagonal(node, g, A, offset, dim1, dim2)


@aten("trace")
def _trace(node: AtenNode, g: Operators, self: Value) -> Value:
    return g("ReduceSum", [g.builder.cast(_diagonal(node, g, self, 0, 0, 1), node.dtype)], keepdims=0)


@aten("diag_embed")
def _diag_embed(node: AtenNode, g: Operators, self: Value, offset: int, dim1: int, dim2: int) -> Value:
    rank = self.rank + 1
    first, second = axes_of(node, [dim1, dim2], rank)
    if first > second:  # which turns the matrices round
        offset = -offset
        first, second = second, first
    made = matrix_diagonals(g, self, (offset, offset))
    return moved(g, made, [rank - 2, rank - 1], [first, second])


@aten("diag")
def _diag(node: AtenNode, g: Operators, self: Value, diagonal: int) -> Value:
    if self.rank == 1:
        return matrix_diagonals(g, self, (diagonal, diagonal))
    return _diagonal(node, g, self, diagonal, 0, 1)


@aten("diagflat")
def _diagflat(node: AtenNode, g: Operators, self: Value, offset: int) -> Value:
    return matrix_diagonals(g, reshaped(node, g, self, [-1]), (offset, offset))


@aten("diagonal_scatter")
def _diagonal_scatter(
    node: AtenNode, g: Operators, self: Value, src: Value, offset: int, dim1: int, dim2: int
) -> Value:
    first, second = axes_of(node, [dim1, dim2], self.rank)
    x = _matrices(node, g, self, dim1, dim2)
    rows, columns = dims(x, (-2, -1))
    if not -rows < offset < columns:
        return self
    made = set_diagonals(g, x, g.builder.cast(src, self.dtype), (offset, offset))
    return moved(g, made, [self.rank - 2, self.rank - 1], [first, second])


@aten("tril", "triu", layout=ANY)
def _triangle(node: AtenNode, g: Operators, self: Value, diagonal: int) -> Value:
    is_upper = node.type == "triu"
    if self.dtype is BOOL8 and not self.is_dynamic:
        rows, columns = dims(self, (-2, -1))
        check_table(rows, columns)
        diagonal = max(-rows, min(diagonal, columns))
        kept = (np.triu if is_upper else np.tril)(np.ones((rows, columns), np.bool_), diagonal)
        return g("And", [self, g.builder.const(kept)])
    return g("Trilu", [self, g.builder.const(np.asarray(diagonal, np.int64))], upper=int(is_upper))


@aten("fill_diagonal")
def _fill_diagonal(node: AtenNode, g: Operators, self: Value, fill_value: float, wrap: bool) -> Value:
    shape = dims(self)
    if self.rank < 2 or (self.rank > 2 and len(set(shape)) > 1):
        raise node.invalid(f"the diagonal of shape {list(shape)}")
    step = sum(int(np.prod(shape[axis + 1 :], dtype=np.int64)) for axis in range(self.rank))
    most = self.size if wrap or self.rank > 2 else min(self.size, shape[1] * shape[1])
    check_table(self.size)
    held = np.zeros(self.size, np.bool_)
    held[:most:step] = True
    fill = g.builder.const(np.asarray(fill_value, self.dtype.numpy))
    return where(g, g.builder.const(held.reshape(shape)), fill, self)
