"""Handlers of resized images, sampled grids and shuffled pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xdlc.converter.functions.gathering import shuffled
from xdlc.converter.functions.resampling import mixed, nearest_at, resize
from xdlc.converter.functions.shapes import dims, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops._shapes import Size, numbers, vector_of
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.node import bind_dims
from xdlc.converter.session.ordering import ANY, CHANNEL_LAST
from xdlc.converter.values import Value, check_table
from xdlc.ir.data import Array
from xdlc.opdefs import sampling

Factors = Sequence[float | None]


def _sizes(node: AtenNode, x: Value, output_size: Sequence[Size] | None, factors: Factors) -> Sequence[Size]:
    """Return the new spatial sizes: as stated, or the old ones times factors."""
    if output_size:
        return output_size
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
    output_size: Sequence[Size] | None,
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
    output_sizes = _sizes(node, x, output_size, scales)
    transform = sampling.transform_of(align, mode != "nearest" or exact)
    attributes = {"cubic_coeff_a": sampling.CUBIC} if mode == "cubic" else {}
    sizes = numbers(output_sizes)
    is_open = sizes is None or None in (x.dims or (None,) * 3)[2:]
    if is_open and not antialias and not any(scales):
        return resize(g, x, vector_of(g, output_sizes), mode, transform, **attributes)
    spatial = dims(x, range(2, x.rank))
    if sizes is None:
        raise node.problem("the output sizes depend on dynamic dimensions", bind_dims())
    if min(sizes) < 1 or len(sizes) != count:
        raise node.invalid(f"sizes {sizes} do not fit an input of {count} axes")
    axes = list(zip(spatial, sizes, scales, strict=True))
    for n, m, _ in axes:
        check_table(n)
        check_table(m)
    if mode == "nearest":
        doubles = x.rank == 4 and not exact  # PyTorch's images of twice the size follow no scale
        steps = (_step(n, m, None if doubles and m in (n, 2 * n) else factor) for n, m, factor in axes)
        picks = {
            axis: _picks(n, m, step, exact=exact)
            for axis, ((n, m, _), step) in enumerate(zip(axes, steps, strict=True), 2)
        }
        return nearest_at(g, x, picks, transform)
    if not antialias and all(
        align or factor is None or math.isclose(factor, m / n, rel_tol=1e-6) for n, m, factor in axes
    ):
        return resize(g, x, sizes, mode, transform, **attributes)
    for axis, (n, m, factor) in enumerate(axes, 2):
        check_table(n, m)
        if n == m and (antialias or mode == "linear"):
            continue  # whatever the scale
        x = mixed(g, x, axis, _shares(n, m, _step(n, m, factor, align=align), mode, antialias))
    return x


def _picks(n: int, m: int, step: float, *, exact: bool) -> Array:
    """Return the source index of each new element, in single precision as in PyTorch."""
    places = sampling.stepped(m, step, 0.5 if exact else 0.0, dtype=np.float32)
    return sampling.rounded(places, n, "floor")


def _shares(n: int, m: int, step: float, mode: str, antialias: bool) -> Array:
    """Return the shares [m, n] of the elements.

    Without antialiasing the border repeats; with it, kernels are as wide as new elements.
    """
    places = sampling.stepped(m, step, 0.5) - 0.5
    if antialias:
        return sampling.shares(places, n, sampling.kernel(_SMOOTH[mode]), stretch=max(step, 1.0), drops=True)
    if mode == "linear":
        return sampling.shares(np.maximum(places, 0), n, sampling.LINEAR)
    return sampling.shares(places, n, sampling.cubic(sampling.CUBIC))


_SMOOTH = {"linear": "triangle", "cubic": "keyscubic", "lanczos": "lanczos3"}
"""Kernels of the antialiasing modes."""
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
    output_size: Sequence[Size] | None,
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
        theta = g("Mul", [theta, np.asarray([*kept, 1.0], theta.dtype.numpy)])
    return g("AffineGrid", [theta, vector(g, size)], align_corners=int(align_corners))


@aten("pixel_shuffle", layout=CHANNEL_LAST)
def _pixel_shuffle(node: AtenNode, g: Operators, self: Value, upscale_factor: int) -> Value:
    made = g("DepthToSpace", [_images(g, self)], blocksize=upscale_factor, mode="CRD")
    return made if self.rank == 4 else reshape(g, made, (*self.shape[:-3], *made.shape[1:]))


def _images(g: Operators, x: Value) -> Value:
    """Return [..., C, H, W] with one batch axis."""
    return x if x.rank == 4 else reshape(g, x, (math.prod(dims(x)[:-3]), *x.shape[-3:]))


@aten("pixel_unshuffle", layout=CHANNEL_LAST)
def _pixel_unshuffle(node: AtenNode, g: Operators, self: Value, downscale_factor: int) -> Value:
    (channels,), block = dims(self, [-3]), downscale_factor
    blocks = g("SpaceToDepth", [_images(g, self)], blocksize=block)
    if block > 1 and channels > 1:  # it is block by block; PyTorch has channel by channel
        check_table(channels, block * block)
        order = np.arange(channels * block * block).reshape(block * block, channels).T
        blocks = g("Gather", [blocks, vector(g, order.reshape(-1))], axis=1)
    return blocks if self.rank == 4 else reshape(g, blocks, (*self.shape[:-3], *blocks.shape[1:]))


@aten("channel_shuffle", "native_channel_shuffle", layout=ANY)
def _channel_shuffle(node: AtenNode, g: Operators, self: Value, groups: int) -> Value:
    return shuffled(g, self, groups, 1)
