"""Handlers of resized images and sampled grids."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xdlc.converter.nhwc.shapes import dims, positions, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops._shapes import mixed
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.node import bind_dims
from xdlc.converter.session.ordering import CHANNEL_LAST
from xdlc.converter.values import Value, check_table
from xdlc.ir.data import Array

Sizes = Sequence["int | Value"]
Factors = Sequence[float | None]


def _sizes(
    node: AtenNode, g: Operators, x: Value, output_size: Sizes | None, factors: Factors
) -> list[int] | Value:
    """Return the new spatial sizes: as stated, or the old ones times factors."""
    if output_size:
        if any(isinstance(size, Value) for size in output_size):
            parts = [
                reshape(g, positions(g, size), (1,)) if isinstance(size, Value) else vector(g, [size])
                for size in output_size
            ]
            return g("Concat", parts, axis=0) if len(parts) > 1 else parts[0]
        return [int(size) for size in output_size if not isinstance(size, Value)]
    known = [factor for factor in factors if factor is not None]
    if len(known) != x.rank - 2:
        raise node.invalid("the operator has neither sizes nor scales")
    return [int(size * factor) for size, factor in zip(dims(x, range(2, x.rank)), known, strict=True)]


def _step(n: int, m: int, factor: float | None, *, align: bool = False) -> float:
    """Return the distance of neighbours of the result in elements of the input."""
    if align:
        return (n - 1) / (m - 1) if m > 1 else 0.0
    return 1.0 / factor if factor is not None and factor > 0 else n / m


def _resized(
    node: AtenNode,
    g: Operators,
    x: Value,
    output_size: Sizes | None,
    factors: Factors,
    *,
    align: bool,
) -> Value:
    """Return a value with its axes after the channels resized.

    Args:
        x: [N, C, spatial...].
        output_size: New sizes, or None.
        factors: Scale of each axis; positions follow it, not the ratio of the sizes; None for that ratio.
        align: Whether the corners stay in place.

    Raises:
        XdlcError: If the sizes do not fit.
    """
    type, count = node.type.partition(".")[0], x.rank - 2
    if not 1 <= count <= 3:
        raise node.invalid(f"the input has rank {x.rank}, which resizing does not support")
    mode, exact, antialias = _MODES[type], "exact" in type, type.endswith("_aa")
    if mode != "nearest" and not x.dtype.is_float:
        raise node.problem(f"xdlc does not support {mode} interpolation of {x.dtype}", "use float values")
    scales = [*factors, *[None] * (count - len(factors))]
    output_sizes = _sizes(node, g, x, output_size, scales)
    attributes: dict[str, Any] = {"mode": mode, "axes": list(range(2, x.rank))}
    attributes["coordinate_transformation_mode"] = "align_corners" if align else "half_pixel"
    if mode == "nearest":
        attributes["nearest_mode"] = "round_prefer_ceil" if exact else "floor"
        if not exact:
            attributes["coordinate_transformation_mode"] = "asymmetric"
    elif mode == "cubic":
        attributes["cubic_coeff_a"] = -0.75
    is_open = isinstance(output_sizes, Value) or None in (x.dims or (None,) * 3)[2:]
    if is_open and not antialias and not any(scales):
        sizes = output_sizes if isinstance(output_sizes, Value) else vector(g, output_sizes)
        return g("Resize", [x, None, None, sizes], **attributes)
    spatial = dims(x, range(2, x.rank))
    if isinstance(output_sizes, Value):
        raise node.problem("the output sizes depend on dynamic dimensions", bind_dims())
    if min(output_sizes) < 1 or len(output_sizes) != count:
        raise node.invalid(f"sizes {output_sizes} do not fit an input of {count} axes")
    axes = list(zip(spatial, output_sizes, scales, strict=True))
    for n, m, _ in axes:
        check_table(n)
        check_table(m)
    if mode == "nearest":
        doubles = x.rank == 4 and not exact  # PyTorch's images of twice the size follow no scale
        picks, is_plain = [], True
        for n, m, factor in axes:
            picks.append(_picks(n, m, None if doubles and m in (n, 2 * n) else factor, exact=exact))
            plain = (2 * np.arange(m) + 1) * n // (2 * m) if exact else np.arange(m) * n // m
            is_plain = is_plain and np.array_equal(picks[-1], plain)
        if not is_plain:
            for axis, places in enumerate(picks, 2):
                if not np.array_equal(places, np.arange(x.shape[axis])):
                    x = g("Gather", [x, vector(g, places)], axis=axis)
            return x
    elif antialias or not all(
        align or factor is None or math.isclose(factor, m / n, rel_tol=1e-6) for n, m, factor in axes
    ):
        for axis, (n, m, factor) in enumerate(axes, 2):
            check_table(n, m)
            if n == m and (antialias or mode == "linear"):
                continue  # whatever the scale
            step = _step(n, m, factor, align=align)
            table = _smooth(n, m, step, mode) if antialias else _shares(n, m, step, mode)
            x = mixed(g, x, axis, table)
        return x
    return g("Resize", [x, None, None, vector(g, output_sizes)], **attributes)


def _picks(n: int, m: int, factor: float | None, *, exact: bool) -> Array:
    """Return the source index of each new element, in single precision as in PyTorch."""
    out = np.arange(m, dtype=np.float32)
    step = np.float32(_step(n, m, factor))
    places = np.floor((out + np.float32(0.5)) * step) if exact else np.floor(out * step)
    return np.minimum(places, n - 1).astype(np.int64)


def _shares(n: int, m: int, step: float, mode: str) -> Array:
    """Return the shares [m, n] of the elements, where the border repeats."""
    place = (np.arange(m) + 0.5) * step - 0.5
    if mode == "linear":
        place = np.maximum(place, 0)
    first = np.floor(place)
    near = first[:, None] + np.arange(-1, 3)
    shares = _kernel(near - place[:, None], mode, -0.75)
    table = np.zeros((m, n))
    np.add.at(table, (np.arange(m)[:, None], np.clip(near, 0, n - 1).astype(np.int64)), shares)
    return table


def _smooth(n: int, m: int, step: float, mode: str) -> Array:
    """Return shares [m, n] of kernels as wide as new elements; the outside is ignored."""
    reach = {"linear": 1, "cubic": 2, "lanczos": 3}[mode] * max(step, 1.0)
    center = step * (np.arange(m) + 0.5)
    first = np.maximum(np.trunc(center - reach + 0.5), 0)[:, None]
    last = np.minimum(np.trunc(center + reach + 0.5), n)[:, None]
    place = np.arange(n)[None, :]
    distance = (place - center[:, None] + 0.5) / max(step, 1.0)
    shares = np.where((place >= first) & (place < last), _kernel(distance, mode, -0.5), 0.0)
    total = shares.sum(1, keepdims=True)
    return shares / np.where(total, total, 1)


def _kernel(distance: Array, mode: str, a: float) -> Array:
    x = np.abs(distance)
    if mode == "linear":
        return np.clip(1 - x, 0, None)
    if mode == "lanczos":
        return np.where(x < 3, np.sinc(x) * np.sinc(x / 3), 0.0)
    inner = ((a + 2) * x - (a + 3)) * x * x + 1
    outer = ((x - 5) * x + 8) * x * a - 4 * a
    return np.where(x < 1, inner, np.where(x < 2, outer, 0.0))


_MODES = {
    **{f"upsample_nearest{rank}d": "nearest" for rank in (1, 2, 3)},
    **{f"_upsample_nearest_exact{rank}d": "nearest" for rank in (1, 2, 3)},
    "upsample_linear1d": "linear",
    "upsample_bilinear2d": "linear",
    "upsample_trilinear3d": "linear",
    "upsample_bicubic2d": "cubic",
    "_upsample_bilinear2d_aa": "linear",
    "_upsample_bicubic2d_aa": "cubic",
    "_upsample_lanczos2d_aa": "lanczos",
}


@aten(*_MODES, layout=CHANNEL_LAST, symbolic=("output_size",), names={"self": "input"})
def _resize(
    node: AtenNode,
    g: Operators,
    input: Value,
    output_size: Sizes | None,
    align_corners: bool = False,
    scale_factors: Factors | None = None,
    scales: float | None = None,
    scales_d: float | None = None,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Value:
    factors = scale_factors or (
        [scales] if input.rank == 3 else [scales_d, scales_h, scales_w][5 - input.rank :]
    )
    return _resized(node, g, input, output_size, factors, align=align_corners)


# ---------------------------------------------------------------------------------------------- grids


@aten("grid_sampler", "grid_sampler_2d", "grid_sampler_3d", layout=CHANNEL_LAST)
def _grid_sampler(
    node: AtenNode,
    g: Operators,
    input: Value,
    grid: Value,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> Value:
    return g(
        "GridSample",
        [input, grid],
        mode=("linear", "nearest", "cubic")[interpolation_mode],
        padding_mode=("zeros", "border", "reflection")[padding_mode],
        align_corners=int(align_corners),
    )


@aten("affine_grid_generator")
def _affine_grid(
    node: AtenNode, g: Operators, theta: Value, size: Sequence[int], align_corners: bool
) -> Value:
    if align_corners and 1 in size[2:]:  # PyTorch has the one place at 0, ONNX at -1
        kept = [float(each != 1) for each in reversed(size[2:])]
        theta = g("Mul", [theta, g.builder.const(np.asarray([*kept, 1.0], theta.dtype.numpy))])
    return g("AffineGrid", [theta, vector(g, size)], align_corners=int(align_corners))
