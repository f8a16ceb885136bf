"""Factorizations of matrices of known sizes, written out column by column."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xdlc.converter.nhwc.products import swapped
from xdlc.converter.nhwc.shapes import dims, number, vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.values import Value
from xdlc.errors import UnsupportedOp

_MOST = 32
"""Columns that are written out; each takes about ten operations."""


class Factors(NamedTuple):
    """LU factors of matrices with rows exchanged, as LAPACK's getrf returns them.

    Attributes:
        packed: [..., m, n]: U, and below its diagonal L without the ones on its own.
        pivots: [..., k]: row that each row was exchanged with, counted from 0, int64.
        order: [..., m]: row of the matrix that each row of L U is, int64.
    """

    packed: Value
    pivots: Value
    order: Value


def check(x: Value) -> tuple[int, int]:
    """Return rows and columns of matrices whose factors are to be written out.

    Raises:
        UnsupportedOp: If they are too large, or no matrices.
    """
    if x.rank < 2:
        raise UnsupportedOp(f"a matrix of rank {x.rank}", fix="correct the model")
    rows, columns = dims(x)[-2:]
    if min(rows, columns) > _MOST:
        raise UnsupportedOp(
            f"a factorization of [{rows}, {columns}] has no operation in QNN, and at most {_MOST} columns "
            "are written out",
            fix="compute this part outside of the model",
        )
    return rows, columns


def block(g: Operators, x: Value, rows: tuple[int, int], columns: tuple[int, int]) -> Value:
    """Return a block of the last two axes."""
    bounds = list(zip(rows, columns, strict=True))
    if all(bound == (0, size) for bound, size in zip((rows, columns), x.shape[-2:], strict=True)):
        return x
    return g("Slice", [x, vector(g, bounds[0]), vector(g, bounds[1]), vector(g, [-2, -1])])


def joined(g: Operators, parts: list[Value], axis: int) -> Value:
    """Return values joined along an axis from the end, without empty ones."""
    some = [part for part in parts if part.shape[axis]] or parts[:1]
    return some[0] if len(some) == 1 else g("Concat", some, axis=some[0].rank + axis)


def padded(g: Operators, x: Value, rows: tuple[int, int], columns: tuple[int, int]) -> Value:
    """Return matrices with zeros around them: before and after their rows and columns."""
    if not any((*rows, *columns)):
        return x
    lead = [0] * (x.rank - 2)
    return g("Pad", [x, vector(g, [*lead, rows[0], columns[0], *lead, rows[1], columns[1]])])


def triangle(g: Operators, x: Value, *, upper: bool, unit: bool = False) -> Value:
    """Return the upper or lower triangle, with ones on its diagonal if ``unit``."""
    diagonal = int(upper) if unit else 0
    offset = diagonal if upper else -int(unit)
    made = g("Trilu", [x, g.builder.const(np.asarray(offset, np.int64))], upper=int(upper))
    if not unit:
        return made
    return g("Add", [made, g.builder.const(np.eye(*x.shape[-2:], dtype=x.dtype.numpy))])


def inverse(g: Operators, x: Value) -> Value:
    """Return the inverse of square matrices, an operation of the host."""
    return g.apply("Inverse", [x], domain="com.microsoft")[0]


def lu(g: Operators, x: Value) -> Factors:
    """Return LU factors; of equals, the first row is the pivot.

    Raises:
        UnsupportedOp: If the matrices are too large.
    """
    rows, columns = check(x)
    lead = x.shape[:-2]
    places = g.builder.const(np.arange(rows, dtype=np.int64))
    order = g.builder.const(np.broadcast_to(np.arange(rows, dtype=np.int64), (*lead, rows)).copy())
    pivots = []
    for step in range(min(rows, columns)):
        here = g.builder.const(np.asarray(step, np.int64))
        column = block(g, x, (step, rows), (step, step + 1))
        best = g("ArgMax", [g("Abs", [column])], axis=x.rank - 2, keepdims=0)
        pivot = g("Add", [best, here])  # [..., 1]
        pivots.append(pivot)
        moved = g("Where", [g("Equal", [places, pivot]), here, places])
        moved = g("Where", [g("Equal", [places, here]), pivot, moved])
        order = g("GatherElements", [order, moved], axis=order.rank - 1)
        index = g("Expand", [g("Unsqueeze", [moved, vector(g, [-1])]), vector(g, x.shape)])
        x = g("GatherElements", [x, index], axis=x.rank - 2)
        if step + 1 == rows:
            continue
        divisor = block(g, x, (step, step + 1), (step, step + 1))
        zero = g("Equal", [divisor, number(g, x, 0)])
        divisor = g("Where", [zero, number(g, x, 1), divisor])
        factor = g("Div", [block(g, x, (step + 1, rows), (step, step + 1)), divisor])
        rest = block(g, x, (step + 1, rows), (step + 1, columns))
        if step + 1 < columns:
            top = block(g, x, (step, step + 1), (step + 1, columns))
            rest = g("Sub", [rest, g("Mul", [factor, top])])
        below = joined(g, [block(g, x, (step + 1, rows), (0, step)), factor, rest], -1)
        x = joined(g, [block(g, x, (0, step + 1), (0, columns)), below], -2)
    return Factors(x, joined(g, pivots, -1), order)


def permutation(g: Operators, order: Value, like: Value) -> Value:
    """Return matrices P with P L U = A for the order of ``Factors``, in the type of ``like``."""
    rows = order.shape[-1]
    places = g.builder.const(np.arange(rows, dtype=np.int64).reshape(rows, 1))
    found = g("Equal", [places, g("Unsqueeze", [order, vector(g, [-2])])])
    return g.builder.cast(found, like.dtype)


def order_of(g: Operators, pivots: Value, rows: int) -> Value:
    """Return the order of ``Factors`` for its pivots."""
    lead = pivots.shape[:-1]
    places = g.builder.const(np.arange(rows, dtype=np.int64))
    order = g.builder.const(np.broadcast_to(np.arange(rows, dtype=np.int64), (*lead, rows)).copy())
    for step in range(pivots.shape[-1]):
        here = g.builder.const(np.asarray(step, np.int64))
        pivot = g("Gather", [pivots, vector(g, [step])], axis=pivots.rank - 1)
        moved = g("Where", [g("Equal", [places, pivot]), here, places])
        moved = g("Where", [g("Equal", [places, here]), pivot, moved])
        order = g("GatherElements", [order, moved], axis=order.rank - 1)
    return order


def cholesky(g: Operators, x: Value) -> tuple[Value, Value]:
    """Return lower triangles L with L Lᵀ = x, and the numbers [..., n] whose roots are on their diagonals.

    Raises:
        UnsupportedOp: If the matrices are too large or not square.
    """
    rows, columns = check(x)
    if rows != columns:
        raise UnsupportedOp(f"a Cholesky factor of [{rows}, {columns}]", fix="correct the model")
    made: list[Value] = []
    squares = []
    for step in range(rows):
        column = block(g, x, (step, rows), (step, step + 1))
        if made:
            before = joined(g, made, -1)
            left = block(g, before, (step, rows), (0, step))
            right = swapped(g, block(g, before, (step, step + 1), (0, step)))
            column = g("Sub", [column, g("MatMul", [left, right])])
        square = block(g, column, (0, 1), (0, 1))
        squares.append(g("Squeeze", [square, vector(g, [-1])]))
        column = g("Div", [column, g("Sqrt", [square])])
        made.append(padded(g, column, (step, 0), (0, 0)))
    return joined(g, made, -1), joined(g, squares, -1)


class Reflections(NamedTuple):
    """QR factors by reflections, as LAPACK's geqrf returns them.

    Attributes:
        upper: R, [..., k, n].
        vectors: [..., m, k], below the diagonal; the ones on it are omitted.
        factors: [..., k].
    """

    upper: Value
    vectors: Value
    factors: Value


def reflections(g: Operators, x: Value) -> Reflections:
    """Return QR factors.

    Raises:
        UnsupportedOp: If the matrices are too large.
    """
    rows, columns = check(x)
    zero, one = number(g, x, 0), number(g, x, 1)
    upper, vectors, factors = [], [], []
    for step in range(min(rows, columns)):
        height, width = x.shape[-2:]
        alpha = block(g, x, (0, 1), (0, 1))
        top = block(g, x, (0, 1), (1, width))
        if height == 1:
            upper.append(padded(g, joined(g, [alpha, top], -1), (0, 0), (step, 0)))
            vectors.append(padded(g, g("Mul", [alpha, zero]), (step, 0), (0, 0)))
            factors.append(g("Squeeze", [g("Mul", [alpha, zero]), vector(g, [-1])]))
            break
        tail = block(g, x, (1, height), (0, 1))
        rest = g("ReduceSum", [g("Mul", [tail, tail]), vector(g, [-2])], keepdims=1)
        size = g("Sqrt", [g("Add", [g("Mul", [alpha, alpha]), rest])])
        none = g("Equal", [rest, zero])
        beta = g("Where", [g("Less", [alpha, zero]), size, g("Neg", [size])])
        factor = g("Where", [none, zero, g("Div", [g("Sub", [beta, alpha]), g("Where", [none, one, beta])])])
        tail = g("Div", [tail, g("Where", [none, one, g("Sub", [alpha, beta])])])
        head = g("Where", [none, alpha, beta])
        if width > 1:
            below = block(g, x, (1, height), (1, width))
            change = g("Add", [top, g("MatMul", [swapped(g, tail), below])])
            change = g("Mul", [change, factor])
            top = g("Sub", [top, change])
            x = g("Sub", [below, g("Mul", [tail, change])])
        upper.append(padded(g, joined(g, [head, top], -1), (0, 0), (step, 0)))
        vectors.append(padded(g, tail, (step + 1, 0), (0, 0)))
        factors.append(g("Squeeze", [factor, vector(g, [-1])]))
    return Reflections(joined(g, upper, -2), joined(g, vectors, -1), joined(g, factors, -1))


def reflected(g: Operators, vectors: Value, factors: Value, x: Value, *, transpose: bool = False) -> Value:
    """Return Q x, or Qᵀ x, for Q the product of reflections.

    Args:
        g: The canonical operators.
        vectors: [..., m, n]; what is on and above the diagonal does not count.
        factors: [..., k].
        x: [..., m, c].
        transpose: Whether Qᵀ is applied.

    Raises:
        UnsupportedOp: If there are too many reflections.
    """
    check(vectors)
    lower = triangle(g, vectors, upper=False, unit=True)
    count, rows = dims(factors)[-1], vectors.shape[-2]
    for step in range(count) if transpose else reversed(range(count)):
        column = block(g, lower, (0, rows), (step, step + 1))
        factor = g("Gather", [factors, vector(g, [step])], axis=factors.rank - 1)
        share = g("MatMul", [swapped(g, column), x])
        share = g("Mul", [share, g("Unsqueeze", [factor, vector(g, [-1])])])
        x = g("Sub", [x, g("Mul", [column, share])])
    return x
