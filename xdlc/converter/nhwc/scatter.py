"""Scattered elements, segments, and diagonals of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xdlc import ir
from xdlc.converter.nhwc.elementwise import where
from xdlc.converter.nhwc.shapes import cast, dims, ints, known, number, positions, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.values import Value, check_table
from xdlc.errors import ModelError
from xdlc.ir import DType
from xdlc.ir.data import Array
from xdlc.ir.dtype import BOOL8, INT32

_FIX = "the node contradicts itself: correct the model, or export it again"
_REDUCTIONS = {"Sum": "add", "Prod": "mul", "Max": "max", "Min": "min"}


def full(g: Operators, shape: Sequence[int], value: float, dtype: DType) -> Value:
    """Return a constant of one repeated element."""
    filled = ir.ArrayData(np.asarray([value], dtype.numpy))
    return g("ConstantOfShape", [vector(g, shape)], value=filled)


def scatter_nd(g: Operators, x: Value, indices: Value, updates: Value, reduction: str = "none") -> Value:
    """Return ``x`` with elements or slices replaced by or combined with ``updates``.

    Args:
        indices: [..., depth] positions along the first ``depth`` axes, from 0.
        updates: [..., rest of the shape of x].
        reduction: ``none``, ``add``, ``sub``, ``mul``, ``max`` or ``min``.
    """
    if reduction == "sub":
        updates, reduction = g("Neg", [updates]), "add"
    if x.dtype is BOOL8 and reduction == "none":
        made = scatter_nd(g, cast(g, x, INT32), indices, cast(g, updates, INT32))
        return cast(g, made, BOOL8)
    return g("ScatterND", [x, positions(g, indices), updates], reduction=reduction)


def sparse_to_dense(g: Operators, indices: Value, shape: Value, values: Value, fill: Value) -> Value:
    """Return ``fill`` everywhere but at ``indices``.

    Args:
        indices: [count, rank], [count] for one axis, or a scalar.
        shape: Constant dimensions of the result.
        values: [count], or a scalar for all.
        fill: One element.
    """
    count = indices.shape[0] if indices.rank else 1
    sizes = ints(shape, "the shape")
    indices = reshape(g, indices, (count, len(sizes)))
    if values.size != count:
        values = g("Expand", [values, vector(g, [count])])
    base = g("Expand", [reshape(g, fill, ()), vector(g, sizes)])
    return scatter_nd(g, base, indices, reshape(g, values, (count,)))


def segments(
    g: Operators, x: Value, ids: Value, count: int, reduction: str, *, empty: float | None = None
) -> Value:
    """Return slices of ``x`` reduced by segment; negative ids are dropped.

    Args:
        x: [ids..., rest...].
        ids: Segment of each part, below ``count``.
        reduction: ``Sum``, ``Prod``, ``Max``, ``Min`` or ``Mean``.
        empty: Value of empty segments; default: the neutral one (lowest for Max).

    Raises:
        ModelError: If the shapes do not fit.
        UnsupportedOp: If a dimension is open.
    """
    shape, id_dims = dims(x), dims(ids)
    if shape[: len(id_dims)] != id_dims:
        raise ModelError(f"segments {list(id_dims)} of {list(shape)}", fix=_FIX)
    rest = shape[len(id_dims) :]
    rows = reshape(g, x, (math.prod(id_dims), *rest))
    place = reshape(g, positions(g, ids), (math.prod(id_dims), 1))
    may_drop = not (place.is_static and not bool((place.numpy() < 0).any()))
    if may_drop:
        place = where(g, g("Less", [place, number(g, place, 0)]), number(g, place, count), place)
    finite = x.dtype.float_info if x.dtype.is_float else None
    lowest, highest = (finite.min, finite.max) if finite else x.dtype.limits
    neutral = {"Sum": 0, "Prod": 1, "Max": lowest, "Min": highest}
    size = (count + may_drop, *rest)
    name = "Sum" if reduction == "Mean" else reduction
    base = full(g, size, float(neutral[name]) if finite else int(neutral[name]), x.dtype)
    result = scatter_nd(g, base, place, rows, _REDUCTIONS[name])
    if reduction == "Mean" or empty is not None:
        ones = full(g, (math.prod(id_dims),), 1, INT32)
        number_of = scatter_nd(g, full(g, size[:1], 0, INT32), place, ones, "add")
        column = reshape(g, number_of, (size[0], *[1] * len(rest)))
        if reduction == "Mean":
            result = g("Div", [result, cast(g, g("Max", [column, number(g, column, 1)]), x.dtype)])
        if empty is not None:
            result = where(g, g("Equal", [column, number(g, column, 0)]), number(g, x, empty), result)
    return g("Slice", [result, vector(g, [0]), vector(g, [count]), vector(g, [0])]) if may_drop else result


def segment_count(ids: Value) -> int:
    """Return the number of segments of sorted ids, which the last one decides.

    Raises:
        UnsupportedOp: If the ids are computed when the graph runs.
    """
    given = known(ids, "the segment ids, which decide the shape of the result,")
    return int(given.reshape(-1)[-1]) + 1 if given.size else 0


# ------------------------------------------------------------------ diagonals


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
            raise ModelError(f"{count} diagonals from {list(shape)}", fix=_FIX)
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

    Raises:
        ModelError: If the shapes do not fit.
        UnsupportedOp: If a dimension is open.
    """
    width, (low, high) = dims(x)[-1], band
    least_rows, least_columns = width - min(high, 0), width + max(low, 0)
    if rows < 0 and columns < 0:
        rows = columns = max(least_rows, least_columns)
    rows = max(least_rows, columns - high) if rows < 0 else rows
    columns = max(least_columns, rows + low) if columns < 0 else columns
    if rows < 0 or columns < 0:
        raise ModelError(f"matrices of {rows} rows and {columns} columns", fix=_FIX)
    rows = least_rows if rows == 0 else rows
    flat, width = _flat_diagonals(g, x, band)
    table, holds = _diagonal_table(rows, columns, band, width, align)
    found = g("Gather", [flat, g.builder.const(table)], axis=flat.rank - 1)
    other = number(g, x, 0) if fill is None else reshape(g, fill, ())
    return where(g, g.builder.const(holds), found, other)


def set_diagonals(
    g: Operators, x: Value, diagonals: Value, band: tuple[int, int] = (0, 0), align: str = "RIGHT_LEFT"
) -> Value:
    """Return matrices [..., rows, columns] with diagonals set as ``matrix_diagonals``.

    Raises:
        ModelError: If the shapes do not fit.
        UnsupportedOp: If a dimension is open.
    """
    rows, columns = dims(x, (-2, -1))
    flat, width = _flat_diagonals(g, diagonals, band)
    table, holds = _diagonal_table(rows, columns, band, width, align)
    found = g("Gather", [flat, g.builder.const(table)], axis=flat.rank - 1)
    return where(g, g.builder.const(holds), found, x)


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
        UnsupportedOp: If a dimension is open.
    """
    shape = dims(x)
    rows, columns = shape[-2:]
    low, high = band
    if not -rows < low <= high < columns:
        raise ModelError(f"diagonals {low} to {high} of {rows} rows and {columns} columns", fix=_FIX)
    count = high - low + 1
    width = min(rows + min(high, 0), columns - max(low, 0))
    table, holds = _diagonal_table(rows, columns, band, width, align)
    source, filled = np.zeros(count * width, np.int64), np.zeros(count * width, np.bool_)
    source[table[holds]] = np.flatnonzero(holds)
    filled[table[holds]] = True
    flat = reshape(g, x, (*shape[:-2], rows * columns))
    found = g("Gather", [flat, g.builder.const(source)], axis=len(shape) - 2)
    other = number(g, x, 0) if fill is None else reshape(g, fill, ())
    found = found if filled.all() else where(g, g.builder.const(filled), found, other)
    return reshape(g, found, (*shape[:-2], count, width)) if count > 1 else found


def band_part(g: Operators, x: Value, lower: int, upper: int) -> Value:
    """Return matrices with 0 outside a band; a negative width keeps the whole side.

    Raises:
        UnsupportedOp: If a dimension is open.
    """
    rows, columns = dims(x, (-2, -1))
    check_table(rows, columns)
    row, column = np.indices((rows, columns))
    kept = ((lower < 0) | (row - column <= lower)) & ((upper < 0) | (column - row <= upper))
    return x if kept.all() else where(g, g.builder.const(kept), x, number(g, x, 0))


def tensor_diagonal(g: Operators, x: Value) -> Value:
    """Return a value of twice the rank with ``x`` on its diagonal.

    Raises:
        UnsupportedOp: If a dimension is open.
    """
    shape = dims(x)
    return reshape(g, matrix_diagonals(g, reshape(g, x, (math.prod(shape),))), (*shape, *shape))


def tensor_diagonal_part(g: Operators, x: Value) -> Value:
    """Return the diagonal of a value whose shape repeats.

    Raises:
        ModelError: If it does not.
        UnsupportedOp: If a dimension is open.
    """
    shape = dims(x)
    half = shape[: len(shape) // 2]
    if half * 2 != shape or not half:
        raise ModelError(f"the diagonal of {list(shape)}", fix=_FIX)
    return reshape(g, diagonals_of(g, reshape(g, x, (math.prod(half), math.prod(half)))), half)
