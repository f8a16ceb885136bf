"""Singular values by one-sided Jacobi rotations (M. R. Hestenes, 1958), in a loop of fixed length.

Each step rotates all pairs of columns of a round of a tournament at once; the columns then move on by one
place, so that all pairs have met after as many rounds as there are columns less one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xdlc.converter.nhwc.products import swapped
from xdlc.converter.nhwc.shapes import dims, number, vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._factors import block, check, padded, triangle
from xdlc.converter.session.node import Computed
from xdlc.converter.values import Value

_SWEEPS = 10
"""Rounds of all pairs; rotations vanish quadratically, within 7 in single precision."""


class Decomposition(NamedTuple):
    """A matrix as products of its right singular vectors.

    Attributes:
        images: [..., m, k]: the matrix times each vector, orthogonal to one another.
        vectors: [..., n, k], in no order.
        sizes: [..., 1, k]: singular values.
    """

    images: Value
    vectors: Value
    sizes: Value


def decomposed(g: Operators, x: Value) -> Decomposition:
    """Return the decomposition of matrices [..., m, n] with m >= n; k is n, or n + 1 if n is odd.

    Raises:
        UnsupportedOp: If the matrices are too large.
    """
    check(x)
    *lead, rows, columns = dims(x)
    wide = columns + columns % 2
    eye = np.broadcast_to(np.eye(columns, dtype=x.dtype.numpy), (*lead, columns, columns)).copy()
    both = padded(g, g("Concat", [x, g.builder.const(eye)], axis=len(lead)), (0, 0), (0, wide - columns))
    half, zero = wide // 2, number(g, x, 0)
    moved = [0, wide - 1, *range(1, wide - 1)]

    def rotation(values: Sequence[object]) -> list[Value]:
        held = values[2]
        assert isinstance(held, Value)
        first = block(g, held, (0, rows + columns), (0, half))
        second = g("Gather", [held, vector(g, range(wide - 1, half - 1, -1))], axis=held.rank - 1)
        left, right = (block(g, part, (0, rows), (0, half)) for part in (first, second))
        axis = vector(g, [-2])
        one, two, mixed = (
            g("ReduceSum", [g("Mul", [a, b]), axis], keepdims=1)
            for a, b in ((left, left), (right, right), (left, right))
        )
        flat = g("Equal", [mixed, zero])
        twice = g("Where", [flat, number(g, x, 1), g("Mul", [mixed, number(g, x, 2)])])
        slope = g("Div", [g("Sub", [two, one]), twice])
        root = g("Sqrt", [g("Add", [g("Mul", [slope, slope]), number(g, x, 1)])])
        sign = g("Where", [g("Less", [slope, zero]), number(g, x, -1), number(g, x, 1)])
        tangent = g("Div", [sign, g("Add", [g("Abs", [slope]), root])])
        tangent = g("Where", [flat, zero, tangent])
        cosine = g("Reciprocal", [g("Sqrt", [g("Add", [g("Mul", [tangent, tangent]), number(g, x, 1)])])])
        sine = g("Mul", [cosine, tangent])
        new = g("Sub", [g("Mul", [cosine, first]), g("Mul", [sine, second])])
        other = g("Add", [g("Mul", [sine, first]), g("Mul", [cosine, second])])
        back = g("Gather", [other, vector(g, range(half - 1, -1, -1))], axis=held.rank - 1)
        joined = g("Concat", [new, back], axis=held.rank - 1)
        following = g("Gather", [joined, vector(g, moved)], axis=held.rank - 1)
        return [g.builder.const(np.asarray(True)), following]

    count = g.builder.const(np.asarray(_SWEEPS * (wide - 1), np.int64))
    body = Computed(["step", "flag", "columns"], ["go_on", "columns_next"], rotation)
    made = g.apply("Loop", [count, None, both], {"body": body}, 1)[0]
    images = block(g, made, (0, rows), (0, wide))
    vectors = block(g, made, (rows, rows + columns), (0, wide))
    return Decomposition(images, vectors, g("ReduceL2", [images, vector(g, [-2])], keepdims=1))


def singular_values(g: Operators, x: Value) -> Value:
    """Return the singular values of matrices, [..., min(m, n)], greatest first."""
    rows, columns = check(x)
    sizes = decomposed(g, swapped(g, x) if rows < columns else x).sizes
    flat = g("Squeeze", [sizes, vector(g, [-2])])
    return g.apply("TopK", [flat, vector(g, [min(rows, columns)])], {"axis": flat.rank - 1}, 2)[0]


def mirrored(g: Operators, x: Value, *, upper: bool) -> Value:
    """Return the symmetric matrices that have a triangle of ``x``."""
    half = triangle(g, x, upper=upper)
    eye = g.builder.const(np.eye(*x.shape[-2:], dtype=x.dtype.numpy))
    return g("Sub", [g("Add", [half, swapped(g, half)]), g("Mul", [half, eye])])


def symmetric_values(g: Operators, x: Value, *, upper: bool) -> Value:
    """Return the eigenvalues of symmetric matrices, of which one triangle is read, smallest first."""
    size, _ = check(x)
    whole, eye = mirrored(g, x, upper=upper), g.builder.const(np.eye(size, dtype=x.dtype.numpy))
    sums = g("ReduceSum", [g("Abs", [whole]), vector(g, [-1])], keepdims=1)
    most = g("ReduceMax", [sums, vector(g, [-2])], keepdims=1)  # no eigenvalue is greater
    sizes = singular_values(g, g("Add", [whole, g("Mul", [most, eye])]))
    found = g("Sub", [sizes, g("Squeeze", [most, vector(g, [-1])])])
    return g("Gather", [found, vector(g, range(size - 1, -1, -1))], axis=found.rank - 1)
