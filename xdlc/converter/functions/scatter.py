"""Scattered elements and segments."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xdlc import ir
from xdlc.converter.functions.elementwise import where
from xdlc.converter.functions.shapes import cast, dims, ints, known, number, positions, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import CONTRADICTION
from xdlc.converter.values import Value
from xdlc.errors import ModelError
from xdlc.ir import DType
from xdlc.ir.dtype import BOOL8, INT32

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
        values = g("Expand", [values, [count]])
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
    """
    shape, id_dims = dims(x), dims(ids)
    if shape[: len(id_dims)] != id_dims:
        raise ModelError(f"segment ids {list(id_dims)} do not fit an input {list(shape)}", fix=CONTRADICTION)
    rest = shape[len(id_dims) :]
    rows = reshape(g, x, (math.prod(id_dims), *rest))
    place = reshape(g, positions(g, ids), (math.prod(id_dims), 1))
    may_drop = not (place.is_static and not bool((place.numpy() < 0).any()))
    if may_drop:
        place = where(g, g("Less", [place, 0]), number(g, place, count), place)
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
            result = g("Div", [result, cast(g, g("Max", [column, 1]), x.dtype)])
        if empty is not None:
            result = where(g, g("Equal", [column, 0]), number(g, x, empty), result)
    return g("Slice", [result, [0], [count], [0]]) if may_drop else result


def segment_count(ids: Value) -> int:
    """Return the number of segments of sorted ids, which the last one decides.

    Raises:
        UnsupportedOp: If the ids are computed when the graph runs.
    """
    given = known(ids, "the segment ids, which decide the shape of the result,")
    return int(given.reshape(-1)[-1]) + 1 if given.size else 0
