"""Changes of the height and width of images [N, H, W, C]."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xdlc.converter.nhwc.shapes import (
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

Size = Sequence[int] | Value
"""Height and width, known or computed."""
_STEPS = 1 << 10  # entries of the table of cubic weights that positions are rounded to


def _known(size: Size) -> Sequence[int]:
    return ints(size, "the size") if isinstance(size, Value) else size


def _is_computed(x: Value, size: Size) -> bool:
    """Return whether sizes are known at run time only, before or after."""
    return isinstance(size, Value) or x.rank != 4 or None in (x.dims or (None,))[1:3]


def _check(x: Value, size: Sequence[int]) -> tuple[int, ...]:
    if x.rank != 4 or len(size) != 2 or min(size) < 1:
        raise ModelError(
            f"xdlc cannot resize an input of rank {x.rank} to {list(size)}",
            fix="use an input [N, H, W, C] and two sizes",
        )
    check_table(max(size))
    return dims(x, (1, 2))


def bilinear(g: Operators, x: Value, size: Size, *, align_corners: bool, half_pixel: bool) -> Value:
    """Return bilinearly resized images; integers become float32.

    Args:
        x: [N, H, W, C].
        size: New height and width; computed ones leave it to the host.
        align_corners: Whether the corners stay in place: position i * (in - 1) / (out - 1).
        half_pixel: Whether elements have an area: position (i + 0.5) * in / out - 0.5.

    Raises:
        ModelError: If the sizes do not fit.
        UnsupportedOp: If the height or width is open.
    """
    if not _is_computed(x, size):
        _check(x, _known(size))
    mode = "align_corners" if align_corners else "half_pixel" if half_pixel else "asymmetric"
    return _resize(g, _real(g, x), size, mode="linear", coordinate_transformation_mode=mode)


def nearest(g: Operators, x: Value, size: Size, *, align_corners: bool, half_pixel: bool) -> Value:
    """Return nearest elements: rounded with ``align_corners``, else rounded down.

    Args:
        x: [N, H, W, C].
        size: New height and width; computed ones leave it to the host.
        align_corners: Whether the corners stay in place: position (i + half) * (in - 1) / (out - 1).
        half_pixel: Whether half is 0.5: position (i + half) * in / out.

    Raises:
        ModelError: If the sizes do not fit.
        UnsupportedOp: If the height or width is open.
    """
    if align_corners and half_pixel:
        size = _known(size)
        spatial = _check(x, size)
        for axis, (n, m) in enumerate(zip(spatial, size, strict=True), 1):
            ratio = np.float32((n - 1) / (m - 1) if m > 1 else n / m)
            places = np.floor((np.arange(m, dtype=np.float32) + np.float32(0.5)) * ratio + np.float32(0.5))
            x = g("Gather", [x, vector(g, np.clip(places, 0, n - 1))], axis=axis)
        return x
    if not _is_computed(x, size):
        _check(x, _known(size))
    mode, rounds = ("align_corners", "round_prefer_ceil") if align_corners else ("asymmetric", "floor")
    if half_pixel:
        mode, rounds = "half_pixel", "round_prefer_ceil"
    return _resize(g, x, size, mode="nearest", coordinate_transformation_mode=mode, nearest_mode=rounds)


def bicubic(g: Operators, x: Value, size: Sequence[int], *, align_corners: bool, half_pixel: bool) -> Value:
    """Return images interpolated by cubic polynomials, float32.

    With ``half_pixel``, a = -0.5 and shares outside the image go to the others; else a = -0.75 and the
    border repeats.  Positions are rounded to 1/1024, as by TensorFlow.

    Args:
        x: [N, H, W, C].
        size: New height and width.
        align_corners: As of ``bilinear``.
        half_pixel: As of ``bilinear``.

    Raises:
        ModelError: If the sizes do not fit.
        UnsupportedOp: If the height or width is open.
    """
    return _by_shares(g, x, size, lambda n, m: _cubic(n, m, align_corners, half_pixel))


def area(g: Operators, x: Value, size: Sequence[int], *, align_corners: bool) -> Value:
    """Return images of the means of the areas that the new elements cover, float32.

    Args:
        x: [N, H, W, C].
        size: New height and width.
        align_corners: Whether an element covers (in - 1) / (out - 1) of the old ones, else in / out.

    Raises:
        ModelError: If the sizes do not fit.
        UnsupportedOp: If the height or width is open.
    """
    return _by_shares(g, x, size, lambda n, m: _areas(n, m, _ratio(n, m, align_corners)))


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
        UnsupportedOp: If the height or width is open.
    """
    if kernel not in _KERNELS:
        raise ModelError(f"kernel {kernel!r} is unknown", fix=f"use {', '.join(_KERNELS)}")
    tables = []
    for n, m, factor, move in zip(_check(x, size), size, scale, shift, strict=True):
        if not (0 < factor < math.inf and math.isfinite(move)):
            raise ModelError(
                f"the scale must be finite and above 0, and the shift finite: {factor}, {move}",
                fix="correct the model",
            )
        check_table(n, m)
        tables.append(_kernel_shares(n, m, float(factor), float(move), *_KERNELS[kernel], antialias))
    return _mixed(g, x, tables)


def _resize(g: Operators, x: Value, size: Size, **attributes: str) -> Value:
    sizes = positions(g, size) if isinstance(size, Value) else vector(g, [int(item) for item in size])
    return channel_last(g, g("Resize", [channel_first(g, x), None, None, sizes], axes=[2, 3], **attributes))


def _real(g: Operators, x: Value) -> Value:
    return x if x.dtype.is_float else cast(g, x, FLOAT32)


def _by_shares(g: Operators, x: Value, size: Sequence[int], shares: Callable[[int, int], Array]) -> Value:
    tables = []
    for n, m in zip(_check(x, size), size, strict=True):
        check_table(n, m)
        tables.append(shares(n, m))
    return _mixed(g, x, tables)


def _mixed(g: Operators, x: Value, tables: Sequence[Array]) -> Value:
    """Return images times tables [new, old] of shares for height and width."""
    x = _real(g, x)
    for axis, table in enumerate(tables, 1):
        if np.array_equal(table, np.eye(len(table))):
            continue
        shares = g.builder.const(table.astype(x.dtype.numpy))
        front = permuted(g, x, (0, 3, 3 - axis, axis))
        mixed = g("MatMul", [front, permuted(g, shares, (1, 0))])
        x = permuted(g, mixed, (0, 3, 2, 1) if axis == 1 else (0, 2, 3, 1))
    return x


def _ratio(n: int, m: int, align_corners: bool) -> float:
    return (n - 1) / (m - 1) if align_corners and m > 1 else n / m


def _cubic(n: int, m: int, align_corners: bool, half_pixel: bool) -> Array:
    a = -0.5 if half_pixel else -0.75
    ratio = np.float32(_ratio(n, m, align_corners))
    out = np.arange(m, dtype=np.float32)
    place = (out + np.float32(0.5)) * ratio - np.float32(0.5) if half_pixel else out * ratio
    first = np.floor(place)
    part = np.floor((place - first).astype(np.float64) * _STEPS + 0.5) / _STEPS
    table = np.zeros((m, n))
    for tap in range(-1, 3):
        distance = np.abs(part - tap)
        inner = ((a + 2) * distance - (a + 3)) * distance**2 + 1
        outer = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
        share = np.where(distance <= 1, inner, outer)
        index = first.astype(np.int64) + tap
        if half_pixel:
            share = np.where((index >= 0) & (index < n), share, 0)
        np.add.at(table, (np.arange(m), np.clip(index, 0, n - 1)), share)
    return table / table.sum(1, keepdims=True) if half_pixel else table


def _areas(n: int, m: int, ratio: float) -> Array:
    edge = (np.arange(m, dtype=np.float32) * np.float32(ratio)).astype(np.float64)[:, None]
    old = np.arange(math.ceil(edge[-1, 0] + ratio) + 1)
    covered = np.clip(np.minimum(edge + ratio, old + 1) - np.maximum(edge, old), 0, None)
    table = np.zeros((m, n))
    for place, column in zip(np.clip(old, 0, n - 1), covered.T, strict=True):
        table[:, place] += column
    return table / table.sum(1, keepdims=True)


def _lanczos(radius: float) -> Callable[[Array], Array]:
    return lambda x: np.sinc(x) * np.sinc(x / radius)


def _keys_cubic(x: Array) -> Array:
    return np.where(x >= 1, ((-0.5 * x + 2.5) * x - 4) * x + 2, (1.5 * x - 2.5) * x * x + 1)


def _mitchell_cubic(x: Array) -> Array:
    outer = ((-7 / 18 * x + 2) * x - 10 / 3) * x + 16 / 9
    return np.where(x >= 1, outer, (7 / 6 * x - 2) * x * x + 8 / 9)


_KERNELS: dict[str, tuple[float, Callable[[Array], Array]]] = {
    "lanczos1": (1.0, _lanczos(1.0)),
    "lanczos3": (3.0, _lanczos(3.0)),
    "lanczos5": (5.0, _lanczos(5.0)),
    "gaussian": (1.5, lambda x: np.exp(-(x**2) / 0.5)),
    "box": (1.0, lambda x: np.where(x < 0.5, 1.0, np.where(x == 0.5, 0.5, 0.0))),
    "triangle": (1.0, lambda x: 1 - x),
    "keyscubic": (2.0, _keys_cubic),
    "mitchellcubic": (2.0, _mitchell_cubic),
}
"""Radius, and value at a distance within it, of each kernel."""


def _kernel_shares(
    n: int, m: int, scale: float, shift: float, radius: float, kernel: Callable[[Array], Array], wide: bool
) -> Array:
    """Return shares [m, n] of old elements; 0 if a new center is outside of them."""
    step = 1.0 / scale
    widening = max(step, 1.0) if wide else 1.0
    center = (np.arange(m) + 0.5) * step - shift * step
    reach = radius * widening
    first = np.maximum(np.ceil(center - reach - 0.5), 0)[:, None]
    last = np.minimum(np.floor(center + reach - 0.5), n - 1)[:, None]
    old = np.arange(n)[None, :]
    distance = np.abs(old + 0.5 - center[:, None]) / widening
    shares = np.where((old >= first) & (old <= last) & (distance <= radius), kernel(distance), 0.0)
    total = shares.sum(1, keepdims=True)
    inside = ((center >= 0) & (center <= n))[:, None] & (np.abs(total) > 1000 * np.finfo(np.float32).tiny)
    return np.where(inside, shares / np.where(inside, total, 1), 0.0)
