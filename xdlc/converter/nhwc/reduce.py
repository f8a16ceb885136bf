"""Reductions, sums along axes and places of extremes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xdlc.converter.nhwc.shapes import axis_of, cast, channel_first, channel_last, dims, number, vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.values import Value
from xdlc.ir import DType
from xdlc.ir.dtype import BOOL8, FLOAT32, INT32


def reduced(g: Operators, type: str, x: Value, axes: Sequence[int], *, keep: bool) -> Value:
    """Return a reduction along axes; none of them is a copy.

    Args:
        g: The canonical operators.
        type: ``Mean``, ``Sum``, ``Max``, ``Min``, ``Prod``, ``Any``, ``All``, or an ONNX operator.
        x: Any value.
        axes: Axes, negative from the end, maybe repeated.
        keep: Whether they stay, with size 1.

    Raises:
        UnsupportedOp: If there is no such axis, or the mean of integers has an open axis.
    """
    chosen = sorted({axis_of(axis, x.rank) for axis in axes})
    if not chosen:
        return x
    if type in ("Any", "All"):
        found = reduced(g, "Max" if type == "Any" else "Min", cast(g, x, INT32), chosen, keep=keep)
        return cast(g, found, BOOL8)
    if type == "Mean" and not x.dtype.is_float:
        count = 1
        for size in dims(x, chosen):
            count *= size
        return g("Div", [reduced(g, "Sum", x, chosen, keep=keep), number(g, x, count)])
    name = type if type.startswith("Reduce") else f"Reduce{type}"
    return g(name, [x, vector(g, chosen)], keepdims=int(keep))


def softmax(g: Operators, x: Value, *, beta: float = 1.0, log: bool = False) -> Value:
    """Return the softmax, or its logarithm, along the last axis of ``beta`` times ``x``."""
    scaled = x if beta == 1.0 else g("Mul", [x, number(g, x, beta)])
    return g("LogSoftmax" if log else "Softmax", [scaled], axis=-1)


def l2_normalized(g: Operators, x: Value, axes: Sequence[int], epsilon: float) -> Value:
    """Return x / max(sqrt(sum of squares along axes), sqrt(epsilon))."""
    squares = reduced(g, "Sum", g("Mul", [x, x]), axes, keep=True)
    return g("Div", [x, g("Sqrt", [g("Max", [squares, number(g, x, epsilon)])])])


def lrn(g: Operators, x: Value, *, radius: int, bias: float, alpha: float, beta: float) -> Value:
    """Return x / (bias + alpha * sum of squares of 2 radius + 1 channels)^beta of [N, H, W, C]."""
    size = 2 * radius + 1
    given = {"size": size, "bias": bias, "alpha": alpha * size, "beta": beta}
    return channel_last(g, g("LRN", [channel_first(g, x)], **given))


def accumulated(g: Operators, type: str, x: Value, axis: int, *, exclusive: bool, reverse: bool) -> Value:
    """Return ``CumSum`` or ``CumProd`` of ``x`` along an axis."""
    place = g.builder.const(np.asarray(axis_of(axis, x.rank), np.int64))
    return g(type, [x, place], exclusive=int(exclusive), reverse=int(reverse))


def place_of(g: Operators, type: str, x: Value, axis: int, dtype: DType) -> Value:
    """Return the place of the greatest (``ArgMax``) or least (``ArgMin``) element, the first of equals."""
    if x.dtype is BOOL8:
        x = cast(g, x, INT32)
    return cast(g, g(type, [x], axis=axis_of(axis, x.rank), keepdims=0), dtype)


def top_k(g: Operators, x: Value, k: Value, dtype: DType) -> list[Value]:
    """Return the ``k`` greatest elements along the last axis, and their places, the first of equals first."""
    values, places = g.apply("TopK", [x, vector(g, k.numpy()) if k.is_static else k], {"axis": -1}, 2)
    return [values, cast(g, places, dtype)]


def batch_norm(
    g: Operators, x: Value, scale: Value, offset: Value, mean: Value, variance: Value, epsilon: float
) -> Value:
    """Return (x - mean) / sqrt(variance + epsilon) * scale + offset of [N, spatial..., C]; all [C]."""
    given = [channel_first(g, x), scale, offset, mean, variance]
    return channel_last(g, g("BatchNormalization", given, epsilon=epsilon))


def moments(g: Operators, x: Value, axes: Sequence[int]) -> tuple[Value, Value]:
    """Return the mean and the variance along axes, which are dropped."""
    wide = x if x.dtype.is_float else cast(g, x, FLOAT32)
    mean = reduced(g, "Mean", wide, axes, keep=True)
    distance = g("Sub", [wide, mean])
    variance = reduced(g, "Mean", g("Mul", [distance, distance]), axes, keep=False)
    return g("Squeeze", [mean, vector(g, sorted(axis_of(axis, x.rank) for axis in axes))]), variance
