"""Resampling of spatial axes: Resize, Gather, or products with tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from xdlc.converter.functions.shapes import (
    cast,
    channel_first,
    channel_last,
    dims,
    ints,
    permuted,
    positions,
    vector,
)
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.values import Value, check_table
from xdlc.errors import ModelError
from xdlc.ir.data import Array
from xdlc.ir.dtype import FLOAT32
from xdlc.opdefs import sampling

Size = Sequence[int] | Value
"""Spatial sizes, known or computed."""
_STEPS = 1 << 10
"""Positions between two elements that TensorFlow's cubic weights are tabulated for."""


# ------------------------------------------------------------------ of one axis


def picked(g: Operators, x: Value, axis: int, places: Array) -> Value:
    """Return the elements at known positions of an axis."""
    return (
        x
        if np.array_equal(places, np.arange(x.shape[axis]))
        else g("Gather", [x, vector(g, places)], axis=axis)
    )


def mixed(g: Operators, x: Value, axis: int, table: Array) -> Value:
    """Return a value with an axis replaced by shares [new, old] of its elements."""
    if np.array_equal(table, np.eye(len(table))):
        return x
    shares = table.astype(x.dtype.numpy)
    if axis == x.rank - 2:
        return g("MatMul", [shares, x])
    order = [*(other for other in range(x.rank) if other != axis), axis]
    product = g("MatMul", [permuted(g, x, order), np.ascontiguousarray(shares.T)])
    return permuted(g, product, [order.index(other) for other in range(x.rank)])


# ------------------------------------------------------------------ of values [N, C, spatial...]


def resize(g: Operators, x: Value, size: Size, mode: str, transform: str, **attributes: Any) -> Value:
    """Return [N, C, spatial...] after a canonical Resize.

    Args:
        mode: ``nearest``, ``linear`` or ``cubic``.
        transform: ``coordinate_transformation_mode``; nearest elements are rounded as this asks.
        attributes: Others of Resize.
    """
    if mode == "nearest":
        attributes.setdefault("nearest_mode", sampling.rounding_of(transform))
    sizes = positions(g, size) if isinstance(size, Value) else vector(g, [int(item) for item in size])
    return g(
        "Resize",
        [x, None, None, sizes],
        axes=list(range(2, x.rank)),
        mode=mode,
        coordinate_transformation_mode=transform,
        **attributes,
    )


def nearest_at(g: Operators, x: Value, picks: Mapping[int, Array], transform: str) -> Value:
    """Return [N, C, spatial...] with nearest elements, by Resize where it agrees.

    Args:
        picks: Elements along each axis to resize.
        transform: The transform that the picks approximate.
    """
    for axis, places in picks.items():
        if not np.array_equal(places, sampling.picks(x.shape[axis], len(places), transform)):
            x = picked(g, x, axis, places)
    size = [len(picks[axis]) for axis in range(2, x.rank)]
    return x if size == list(x.shape[2:]) else resize(g, x, size, "nearest", transform)


# ------------------------------------------------------------------ of images [N, H, W, C]


def _checked(x: Value, size: Size) -> tuple[Sequence[int], Sequence[int]]:
    """Return old and new height and width, which must be known."""
    size = ints(size, "the size") if isinstance(size, Value) else size
    if x.rank != 4 or len(size) != 2 or min(size) < 1:
        raise ModelError(
            f"xdlc cannot resize an input of rank {x.rank} to {list(size)}",
            fix="use an input [N, H, W, C] and two sizes",
        )
    check_table(max(size))
    return dims(x, (1, 2)), size


def _resized(g: Operators, x: Value, size: Size, mode: str, transform: str) -> Value:
    if not (isinstance(size, Value) or x.rank != 4 or None in (x.dims or (None,))[1:3]):
        _checked(x, size)
    return channel_last(g, resize(g, channel_first(g, x), size, mode, transform))


def bilinear(g: Operators, x: Value, size: Size, *, align_corners: bool, half_pixel: bool) -> Value:
    """Return bilinearly resized images; integers become float32.

    Args:
        x: [N, H, W, C].
        size: New height and width; computed ones leave it to the host.
        align_corners: Whether the corners stay in place: position i * (in - 1) / (out - 1).
        half_pixel: Whether elements have an area: position (i + 0.5) * in / out - 0.5.
    """
    return _resized(g, _real(g, x), size, "linear", sampling.transform_of(align_corners, half_pixel))


def nearest(g: Operators, x: Value, size: Size, *, align_corners: bool, half_pixel: bool) -> Value:
    """Return nearest elements: rounded with ``align_corners``, else rounded down.

    Args:
        x: [N, H, W, C].
        size: New height and width; computed ones leave it to the host.
        align_corners: Whether the corners stay in place: position (i + half) * (in - 1) / (out - 1).
        half_pixel: Whether half is 0.5: position (i + half) * in / out.
    """
    if not (align_corners and half_pixel):
        return _resized(g, x, size, "nearest", sampling.transform_of(align_corners, half_pixel))
    for axis, (n, m) in enumerate(zip(*_checked(x, size), strict=True), 1):
        places = sampling.stepped(m, _ratio(n, m, True), 0.5, dtype=np.float32) + np.float32(0.5)
        x = picked(g, x, axis, np.clip(np.floor(places), 0, n - 1))
    return x


def bicubic(g: Operators, x: Value, size: Sequence[int], *, align_corners: bool, half_pixel: bool) -> Value:
    """Return images interpolated by cubic polynomials, float32.

    With ``half_pixel``, shares outside the image go to the others; else the border repeats.  Positions are
    rounded to 1/1024, as by TensorFlow.

    Args:
        x: [N, H, W, C].
        size: New height and width.
        align_corners: As of ``bilinear``.
        half_pixel: As of ``bilinear``.
    """
    kernel = sampling.cubic(sampling.KEYS_CUBIC if half_pixel else sampling.CUBIC)
    half = 0.5 if half_pixel else 0.0

    def shares(n: int, m: int) -> Array:
        places = sampling.stepped(m, _ratio(n, m, align_corners), half, dtype=np.float32) - np.float32(half)
        first = np.floor(places)
        part = np.floor((places - first).astype(np.float64) * _STEPS + 0.5) / _STEPS
        return sampling.shares(first + part, n, kernel, drops=half_pixel)

    return _by_tables(g, x, size, shares)


def area(g: Operators, x: Value, size: Sequence[int], *, align_corners: bool) -> Value:
    """Return images of the means of the areas that the new elements cover, float32.

    Args:
        x: [N, H, W, C].
        size: New height and width.
        align_corners: Whether an element covers (in - 1) / (out - 1) of the old ones, else in / out.
    """
    return _by_tables(g, x, size, lambda n, m: sampling.areas(n, m, _ratio(n, m, align_corners)))


def scale_and_translate(
    g: Operators,
    x: Value,
    size: Sequence[int],
    scale: Sequence[float],
    shift: Sequence[float],
    *,
    kernel: str,
    antialias: bool,
) -> Value:
    """Return images scaled, moved and sampled with a kernel, float32.

    Args:
        x: [N, H, W, C].
        size: New height and width.
        scale: Factors of the height and width.
        shift: Distances in elements of the result.
        kernel: ``lanczos1``, ``lanczos3``, ``lanczos5``, ``gaussian``, ``box``, ``triangle``,
            ``keyscubic`` or ``mitchellcubic``.
        antialias: Whether the kernel widens where the image shrinks.

    Raises:
        ModelError: If the sizes or the scale do not fit, or the kernel is unknown.
    """
    if kernel not in sampling.KERNELS:
        raise ModelError(f"kernel {kernel!r} is unknown", fix=f"use {', '.join(sampling.KERNELS)}")
    for factor, move in zip(scale, shift, strict=True):
        if not (0 < factor < math.inf and math.isfinite(move)):
            raise ModelError(
                f"the scale must be finite and above 0, and the shift finite: {factor}, {move}",
                fix="correct the model",
            )

    def shares(n: int, m: int, factor: float, move: float) -> Array:
        step = 1.0 / factor
        places = sampling.stepped(m, step, 0.5) - move * step - 0.5
        stretch = max(step, 1.0) if antialias else 1.0
        table = sampling.shares(places, n, sampling.kernel(kernel), stretch=stretch, drops=True)
        return np.where(((places >= -0.5) & (places <= n - 0.5))[:, None], table, 0.0)

    return _by_tables(g, x, size, shares, scale, shift)


def _real(g: Operators, x: Value) -> Value:
    return x if x.dtype.is_float else cast(g, x, FLOAT32)


def _by_tables(
    g: Operators, x: Value, size: Sequence[int], shares: Callable[..., Array], *options: Sequence[float]
) -> Value:
    """Return images times a table [new, old] for the height and the width.

    Args:
        shares: Returns the table for an old size, a new one, and the options of the axis.
    """
    sizes, x = _checked(x, size), _real(g, x)
    for axis, (n, m, *others) in enumerate(zip(*sizes, *options, strict=True), 1):
        check_table(n, m)
        x = mixed(g, x, axis, shares(n, m, *others))
    return x


def _ratio(n: int, m: int, align_corners: bool) -> float:
    return (n - 1) / (m - 1) if align_corners and m > 1 else n / m
