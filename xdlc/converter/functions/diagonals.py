"""Diagonals and bands of matrices."""

from __future__ import annotations

import math

import numpy as np

from xdlc.converter.functions.elementwise import where
from xdlc.converter.functions.shapes import dims, number, reshape
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import CONTRADICTION
from xdlc.converter.values import Value, check_table
from xdlc.errors import ModelError
from xdlc.ir.data import Array


def _diagonal_table(
    rows: int, columns: int, band: tuple[int, int], width: int, align: str
) -> tuple[Array, Array]:
    """Return for each element of a matrix its place in [diagonals, width], and a mask.

    Diagonal d is column - row; the first stored is the upper one.  Shorter diagonals lie at the left or at
    the right end of their row, as ``align`` states of those above and below the main one.
    """
    check_table(rows, columns)
    low, high = band
    above, below = align.split("_") if "_" in align else (align, align)
    kind = np.int32 if (high - low + 1) * width < 1 << 31 else np.int64
    table, holds = np.zeros((rows, columns), kind), np.zeros((rows, columns), np.bool_)
    for diagonal in range(max(low, 1 - rows), min(high, columns - 1) + 1):
        row, column = max(-diagonal, 0), max(diagonal, 0)
        length = min(rows - row, columns - column)
        to_right = (above if diagonal >= 0 else below) == "RIGHT"
        along = np.arange(length)
        held = (row + along, column + along)
        table[held] = (high - diagonal) * width + along + (width - length if to_right else 0)
        holds[held] = True
    return table, holds


def _flat_diagonals(g: Operators, x: Value, band: tuple[int, int]) -> tuple[Value, int]:
    """Return diagonals [..., width] or [..., count, width] flattened, and the width."""
    shape = dims(x)
    count = band[1] - band[0] + 1
    if count > 1:
        if len(shape) < 2 or shape[-2] != count:
            raise ModelError(f"{count} diagonals do not fit an input {list(shape)}", fix=CONTRADICTION)
        return reshape(g, x, (*shape[:-2], count * shape[-1])), shape[-1]
    return x, shape[-1]


def matrix_diagonals(
    g: Operators,
    x: Value,
    band: tuple[int, int] = (0, 0),
    *,
    rows: int = -1,
    columns: int = -1,
    fill: Value | None = None,
    align: str = "RIGHT_LEFT",
) -> Value:
    """Return matrices with given diagonals.

    Args:
        x: [..., width], or [..., diagonals, width] for several.
        band: Lowest and highest diagonal; 0 is the main one, positive ones are above it.
        rows: Rows of a matrix; -1 for as many as are needed.
        columns: Columns of a matrix; -1 for as many as are needed.
        fill: One element, for the others; default: 0.
        align: Ends at which shorter diagonals lie.
    """
    width, (low, high) = dims(x)[-1], band
    least_rows, least_columns = width - min(high, 0), width + max(low, 0)
    if rows < 0 and columns < 0:
        rows = columns = max(least_rows, least_columns)
    rows = max(least_rows, columns - high) if rows < 0 else rows
    columns = max(least_columns, rows + low) if columns < 0 else columns
    if rows < 0 or columns < 0:
        raise ModelError(f"the diagonals do not fit {rows} rows and {columns} columns", fix=CONTRADICTION)
    rows = least_rows if rows == 0 else rows
    flat, width = _flat_diagonals(g, x, band)
    table, holds = _diagonal_table(rows, columns, band, width, align)
    gathered = g("Gather", [flat, table], axis=flat.rank - 1)
    other = number(g, x, 0) if fill is None else reshape(g, fill, ())
    return where(g, g.builder.const(holds), gathered, other)


def set_diagonals(
    g: Operators, x: Value, diagonals: Value, band: tuple[int, int] = (0, 0), align: str = "RIGHT_LEFT"
) -> Value:
    """Return matrices [..., rows, columns] with diagonals set as ``matrix_diagonals``."""
    rows, columns = dims(x, (-2, -1))
    flat, width = _flat_diagonals(g, diagonals, band)
    table, holds = _diagonal_table(rows, columns, band, width, align)
    gathered = g("Gather", [flat, table], axis=flat.rank - 1)
    return where(g, g.builder.const(holds), gathered, x)


def diagonals_of(
    g: Operators,
    x: Value,
    band: tuple[int, int] = (0, 0),
    *,
    fill: Value | None = None,
    align: str = "RIGHT_LEFT",
) -> Value:
    """Return diagonals of matrices [..., rows, columns], as in ``matrix_diagonals``.

    Raises:
        ModelError: If there are no such diagonals.
    """
    shape = dims(x)
    rows, columns = shape[-2:]
    low, high = band
    if not -rows < low <= high < columns:
        raise ModelError(
            f"diagonals {low} to {high} do not fit {rows} rows and {columns} columns", fix=CONTRADICTION
        )
    count = high - low + 1
    width = min(rows + min(high, 0), columns - max(low, 0))
    table, holds = _diagonal_table(rows, columns, band, width, align)
    source, filled = np.zeros(count * width, np.int64), np.zeros(count * width, np.bool_)
    source[table[holds]] = np.flatnonzero(holds)
    filled[table[holds]] = True
    flat = reshape(g, x, (*shape[:-2], rows * columns))
    gathered = g("Gather", [flat, source], axis=len(shape) - 2)
    other = number(g, x, 0) if fill is None else reshape(g, fill, ())
    gathered = gathered if filled.all() else where(g, g.builder.const(filled), gathered, other)
    return reshape(g, gathered, (*shape[:-2], count, width)) if count > 1 else gathered


def band_part(g: Operators, x: Value, lower: int, upper: int) -> Value:
    """Return matrices with 0 outside a band; a negative width keeps the whole side."""
    rows, columns = dims(x, (-2, -1))
    check_table(rows, columns)
    row, column = np.indices((rows, columns))
    kept = ((lower < 0) | (row - column <= lower)) & ((upper < 0) | (column - row <= upper))
    return x if kept.all() else where(g, g.builder.const(kept), x, number(g, x, 0))


def tensor_diagonal(g: Operators, x: Value) -> Value:
    """Return a value of twice the rank with ``x`` on its diagonal."""
    shape = dims(x)
    return reshape(g, matrix_diagonals(g, reshape(g, x, (math.prod(shape),))), (*shape, *shape))


def tensor_diagonal_part(g: Operators, x: Value) -> Value:
    """Return the diagonal of a value whose shape repeats.

    Raises:
        ModelError: If it does not.
    """
    shape = dims(x)
    half = shape[: len(shape) // 2]
    if half * 2 != shape or not half:
        raise ModelError(f"an input of shape {list(shape)} has no diagonal", fix=CONTRADICTION)
    return reshape(g, diagonals_of(g, reshape(g, x, (math.prod(half), math.prod(half)))), half)
