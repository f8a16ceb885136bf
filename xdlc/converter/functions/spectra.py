"""Fourier transforms as products with tables of cosines and sines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xdlc.converter.functions.shapes import dims, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.values import Value, check_table
from xdlc.ir.data import Array


class Complex(NamedTuple):
    """A complex value.

    Attributes:
        real: Real parts.
        imag: Imaginary parts, of the same shape.
    """

    real: Value
    imag: Value


def forward(g: Operators, x: Complex | Value, sizes: Sequence[int]) -> Complex:
    """Return the transform over the last axes; half of the last axis for real input.

    Args:
        x: Real or complex values.
        sizes: Numbers of elements, to which the axes are cut or filled up with 0.

    Raises:
        UnsupportedOp: If a dimension is open, or a table would be too large.
    """
    if isinstance(x, Value):
        for axis, size in enumerate(reversed(sizes), 1):
            x = _fitted(g, x, -axis, size)
        angle = angles(sizes[-1], columns=sizes[-1] // 2 + 1)
        table = [g.builder.const(part.astype(x.dtype.numpy)) for part in (np.cos(angle), -np.sin(angle))]
        done, rest = Complex(*(g("MatMul", [x, part]) for part in table)), sizes[:-1]
    else:
        done, rest = Complex(*(_all_fitted(g, part, sizes) for part in x)), sizes
    first = 1 + len(sizes) - len(rest)
    for axis, size in enumerate(reversed(rest), first):
        done = _transformed(g, done, axis, size, -1.0)
    return done


def inverse(g: Operators, x: Complex, sizes: Sequence[int], *, is_real: bool) -> Complex | Value:
    """Return the inverse transform over the last axes; real from half if ``is_real``.

    Raises:
        UnsupportedOp: If a dimension is open, or a table would be too large.
    """
    stored = [*sizes[:-1], sizes[-1] // 2 + 1] if is_real else list(sizes)
    x = Complex(*(_all_fitted(g, part, stored) for part in x))
    whole = sizes[:-1] if is_real else sizes
    for axis, size in enumerate(reversed(whole), 2 if is_real else 1):
        x = _transformed(g, x, axis, size, 1.0)
        x = Complex(*(g("Mul", [part, 1 / size]) for part in x))
    if not is_real:
        return x
    size = sizes[-1]
    angle = angles(size, size // 2 + 1)
    weight = np.full((size // 2 + 1, 1), 2.0 / size)
    weight[0] = 1.0 / size
    if size % 2 == 0:
        weight[-1] = 1.0 / size
    dtype = x.real.dtype.numpy
    tables = [g.builder.const((part * weight).astype(dtype)) for part in (np.cos(angle), -np.sin(angle))]
    return g("Add", [g("MatMul", [part, table]) for part, table in zip(x, tables, strict=True)])


def angles(size: int, rows: int | None = None, columns: int | None = None) -> Array:
    """Return 2 pi i k / size, below 2 pi, for rows i and columns k.

    There are as many of both as ``size`` by default.

    Raises:
        UnsupportedOp: If the table is too large.
    """
    rows, columns = rows or size, columns or size
    check_table(rows, columns)
    return 2 * np.pi * (np.outer(np.arange(rows), np.arange(columns)) % size) / size


def _transformed(g: Operators, x: Complex, axis: int, size: int, sign: float) -> Complex:
    """Return the Fourier transform along the axis ``axis`` from the end."""
    angle = angles(size)
    cosine, sine = (
        g.builder.const(part.astype(x.real.dtype.numpy)) for part in (np.cos(angle), sign * np.sin(angle))
    )

    def times(value: Value, table: Value) -> Value:
        if axis == 1:
            return g("MatMul", [value, table])
        if axis == 2:
            return g("MatMul", [table, value])
        turned = g(
            "Transpose",
            [value],
            perm=[*range(value.rank - 3), value.rank - 2, value.rank - 1, value.rank - 3],
        )
        back = g("MatMul", [turned, table])
        return g(
            "Transpose", [back], perm=[*range(value.rank - 3), value.rank - 1, value.rank - 3, value.rank - 2]
        )

    real = g("Sub", [times(x.real, cosine), times(x.imag, sine)])
    return Complex(real, g("Add", [times(x.real, sine), times(x.imag, cosine)]))


def _all_fitted(g: Operators, x: Value, sizes: Sequence[int]) -> Value:
    for axis, size in enumerate(reversed(sizes), 1):
        x = _fitted(g, x, -axis, size)
    return x


def _fitted(g: Operators, x: Value, axis: int, size: int) -> Value:
    """Return ``x`` with an axis cut, or filled up with 0, to a size."""
    (present,) = dims(x, [axis])
    if present > size:
        return g("Slice", [x, [0], [size], [axis]])
    if present < size:
        pads = [0] * (2 * x.rank)
        pads[axis] = size - present
        return g("Pad", [x, vector(g, pads)])
    return x


def magnitude(g: Operators, x: Complex) -> Value:
    """Return the absolute values."""
    return g("Sqrt", [g("Add", [g("Mul", [part, part]) for part in x])])


ARITHMETIC = ("Add", "Sub", "Mul", "Neg")
"""Operators of ``combined``."""


def combined(g: Operators, type: str, x: Complex, y: Complex | None = None) -> Complex:
    """Return the sum, difference, product or negative of complex values."""
    if y is None:
        return Complex(*(g(type, [part]) for part in x))
    if type != "Mul":
        return Complex(*(g(type, [a, b]) for a, b in zip(x, y, strict=True)))
    real = g("Sub", [g("Mul", [x.real, y.real]), g("Mul", [x.imag, y.imag])])
    return Complex(real, g("Add", [g("Mul", [x.real, y.imag]), g("Mul", [x.imag, y.real])]))
