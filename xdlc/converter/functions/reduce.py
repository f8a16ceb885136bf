"""Reductions, running sums, moments, argmax and top-k."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xdlc.converter.functions.shapes import (
    axis_of,
    cast,
    dims,
    positions,
    reshape,
    vector,
)
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.values import Value
from xdlc.errors import ModelError
from xdlc.ir import DType
from xdlc.ir.dtype import BOOL8, FLOAT32, INT32


def reduced(g: Operators, type: str, x: Value, axes: Sequence[int], *, keep: bool) -> Value:
    """Return a reduction along axes; none of them is a copy.

    Args:
        type: ``Mean``, ``Sum``, ``Max``, ``Min``, ``Prod``, ``Any``, ``All``, or an ONNX operator.
        axes: Axes, negative from the end, maybe repeated.
        keep: Whether they stay, with size 1.

    Raises:
        UnsupportedOp: If there is no such axis, or the mean of integers has an open axis.
    """
    chosen = sorted({axis_of(axis, x.rank) for axis in axes})
    if not chosen:
        return x
    is_empty = x.dims is not None and any(x.dims[axis] == 0 for axis in chosen)
    if type in ("Any", "All"):
        found = reduced(g, "Max" if type == "Any" else "Min", cast(g, x, INT32), chosen, keep=keep)
        if is_empty and type == "Any":  # the greatest of no integers is the least that there is
            return g("Greater", [found, 0])
        return cast(g, found, BOOL8)
    if type == "Mean" and is_empty:
        return g("Div", [reduced(g, "Sum", x, chosen, keep=keep), 0])
    if type == "Mean" and not x.dtype.is_float:
        count = 1
        for size in dims(x, chosen):
            count *= size
        return g("Div", [reduced(g, "Sum", x, chosen, keep=keep), count])
    name = type if type.startswith("Reduce") else f"Reduce{type}"
    return g(name, [x, vector(g, chosen)], keepdims=int(keep))


def accumulated(g: Operators, type: str, x: Value, axis: int, *, exclusive: bool, reverse: bool) -> Value:
    """Return ``CumSum`` or ``CumProd`` of ``x`` along an axis."""
    place = g.builder.const(np.asarray(axis_of(axis, x.rank), np.int64))
    return g(type, [x, place], exclusive=int(exclusive), reverse=int(reverse))


def place_of(g: Operators, type: str, x: Value, axis: int, dtype: DType) -> Value:
    """Return the index of the maximum (``ArgMax``) or minimum, the first of equals."""
    if x.dtype is BOOL8:
        x = cast(g, x, INT32)
    return cast(g, g(type, [x], axis=axis_of(axis, x.rank), keepdims=0), dtype)


def top_k(g: Operators, x: Value, k: Value, dtype: DType) -> list[Value]:
    """Return the ``k`` greatest elements of the last axis, and indices, stably.

    Raises:
        ModelError: If ``k`` is known and negative.
    """
    if k.is_static and k.numpy().min(initial=0) < 0:
        raise ModelError("the number of elements, k, is negative", fix="correct the model")
    values, places = g.apply("TopK", [x, reshape(g, positions(g, k), (1,))], {"axis": -1}, 2)
    return [values, cast(g, places, dtype)]


def window_reduced(
    g: Operators,
    type: str,
    x: Value,
    start: Value,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> Value:
    """Return a reduction of windows over any axes, without padding.

    Args:
        type: Operator of two elements whose order has no meaning, like ``Add``.
        start: One element, which takes part in every window.
        kernel: Elements of a window, for each axis.
        strides: Distances of windows.
        dilations: Distances of the elements of a window.
    """
    shape = dims(x)
    if (
        not len(shape) == len(kernel) == len(strides) == len(dilations)
        or min((*kernel, *strides, *dilations), default=1) < 1
    ):
        raise ModelError(
            f"a window {list(kernel)} does not fit an input {list(shape)}", fix="correct the model"
        )
    for axis, (size, width, step, gap) in enumerate(zip(shape, kernel, strides, dilations, strict=True)):
        count = size - (width - 1) * gap
        if count < 1:
            raise ModelError(
                f"a window {list(kernel)} does not fit an input {list(shape)}", fix="correct the model"
            )

        def part(value: Value, first: int, count: int, step: int = 1, axis: int = axis) -> Value:
            ends = (first, first + (count - 1) * step + 1, axis, step)
            return g("Slice", [value, *(vector(g, [end]) for end in ends)])

        done: Value | None = None
        reach, reduced_count, place = x, 1, 0  # ``reach`` has the reductions of so many elements
        while True:
            if width & reduced_count:
                piece = part(reach, place * gap, count)
                done = piece if done is None else g(type, [done, piece])
                place += reduced_count
            if place == width:
                break
            fewer = size - (2 * reduced_count - 1) * gap
            reach = g(type, [part(reach, 0, fewer), part(reach, reduced_count * gap, fewer)])
            reduced_count *= 2
        if done is not None:
            x = done if step == 1 else part(done, 0, -(-count // step), step)
    return g(type, [x, start if not start.rank else reshape(g, start, ())])


def moments(g: Operators, x: Value, axes: Sequence[int]) -> tuple[Value, Value]:
    """Return the mean and the variance along axes, which are dropped."""
    wide = x if x.dtype.is_float else cast(g, x, FLOAT32)
    mean = reduced(g, "Mean", wide, axes, keep=True)
    distance = g("Sub", [wide, mean])
    variance = reduced(g, "Mean", g("Mul", [distance, distance]), axes, keep=False)
    return g("Squeeze", [mean, sorted(axis_of(axis, x.rank) for axis in axes)]), variance
