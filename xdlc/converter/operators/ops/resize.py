"""Resize and Upsample.

The rules of sampling are those of ONNX's Resize operator, all of them, in single precision as onnxruntime
computes them: which of two elements is nearer to a tie depends on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import number, picked, product, select
from xdlc.converter.operators.registry import CHANNEL_LAST, Node, importer
from xdlc.converter.values import Value, channel_last, check_table, inverse
from xdlc.errors import UnsupportedOp
from xdlc.ir.data import Array
from xdlc.opdefs.shapes import images

_MODES = {"nearest": 0, "linear": 1, "cubic": 2}
_TRANSFORMS = {"half_pixel": 0, "pytorch_half_pixel": 1, "align_corners": 2, "asymmetric": 3}
_NEAREST = {"round_prefer_floor": 0, "round_prefer_ceil": 1, "floor": 2, "ceil": 3}
# (align_corners, half_pixel_centers) of ResizeNearestNeighbor and ResizeBilinear
_FLAGS = ((False, False), (False, True), (True, False))


@dataclass(frozen=True, slots=True)
class _Request:
    mode: str
    transform: str
    nearest: str
    sizes: tuple[int, ...]
    scales: tuple[float, ...]


@importer("Resize", since=11, layout=CHANNEL_LAST)
def resize(node: Node, b: Builder, x: Value) -> Value:
    """Map onto an equivalent op, or else write each axis as a matrix product."""
    request = _requested(node, x)
    sampling = Sampling(
        request.mode,
        request.transform,
        request.nearest,
        node.attr("cubic_coeff_a", -0.75),
        node.flag("exclude_outside"),
        node.flag("antialias"),
    )
    beyond = node.attr("extrapolation_value", 0.0)
    try:
        if not (sampling.exclude_outside or sampling.antialias):
            return _resize(node, b, x, request)
    except UnsupportedOp:  # by all rules of ONNX then
        pass
    return _by_axes(node, b, x, request, sampling, beyond)


def _requested(node: Node, x: Value) -> _Request:
    axes = [node.axis(axis, x.rank) for axis in node.attr("axes") or range(x.rank)]
    scales = node.static(2, "the scales")
    sizes = node.static(3, "the sizes")
    policy = node.attr("keep_aspect_ratio_policy", "stretch")
    if node.attr("mode", "nearest") not in _MODES:
        raise node.invalid(f"mode {node.attr('mode')!r:.40} is unknown")
    full_scales, full_sizes = [1.0] * x.rank, list(x.shape)
    if sizes is not None and sizes.size:
        stated = [int(size) for size in sizes.reshape(-1)]
        if any(size < (x.shape[axis] > 0) for axis, size in zip(axes, stated, strict=True)):
            raise node.invalid(f"sizes {stated} do not fit an input {list(x.shape)}")
        ratios = [size / (x.shape[axis] or 1) for axis, size in zip(axes, stated, strict=True)]
        if policy != "stretch":
            common = min(ratios) if policy == "not_larger" else max(ratios)
            ratios = [common] * len(axes)
            stated = [math.floor(x.shape[axis] * common + 0.5) for axis in axes]
        for axis, size, ratio in zip(axes, stated, ratios, strict=True):
            full_sizes[axis], full_scales[axis] = size, ratio
    elif scales is not None and scales.size:
        for axis, scale in zip(axes, scales.reshape(-1), strict=True):
            full_scales[axis] = float(scale)
            full_sizes[axis] = int(np.floor(np.float32(x.shape[axis]) * np.float32(scale)))
    else:
        raise node.invalid("the node has neither scales nor sizes")
    return _Request(
        node.attr("mode", "nearest"),
        node.attr("coordinate_transformation_mode", "half_pixel"),
        node.attr("nearest_mode", "round_prefer_floor"),
        tuple(full_sizes),
        tuple(full_scales),
    )


def _by_axes(node: Node, b: Builder, x: Value, request: _Request, sampling: Sampling, beyond: float) -> Value:
    """Resize by axis: a Gather, or a product with the matrix of shares."""
    if sampling.mode != "nearest" and not x.dtype.is_float:
        raise node.problem(f"{sampling.mode} interpolation of {x.dtype} values is not supported")
    if x.rank == 1:
        if sampling.transform == "tf_crop_and_resize":
            raise node.problem("a region of one axis is not supported")
        lifted = replace(request, sizes=(1, *request.sizes), scales=(1.0, *request.scales))
        return b.reshape(
            _by_axes(node, b, b.reshape(x, (1, *x.shape)), lifted, sampling, beyond), request.sizes
        )
    regions = _regions(node, x) if sampling.transform == "tf_crop_and_resize" else [(0.0, 1.0)] * x.rank
    outside = np.zeros((1,) * x.rank, np.bool_)
    for axis, (n, m, scale) in enumerate(zip(x.shape, request.sizes, request.scales, strict=True)):
        if n == m and scale == 1.0 and regions[axis] == (0.0, 1.0):
            continue
        places = sampling.positions(n, m, scale, regions[axis])
        if sampling.transform == "tf_crop_and_resize":
            lost = (places < 0) | (places > n - 1)
            outside = outside | lost.reshape([-1 if held == axis else 1 for held in range(x.rank)])
        if sampling.mode == "nearest":
            x = picked(b, x, axis, sampling.picks(places, n))
            continue
        shares = sampling.matrix(places, n, scale).astype(x.dtype.numpy)
        x = _mixed(b, x, axis, shares, f"{b.stem}_shares{axis}")
    if outside.any():
        x = select(b, b.const(outside, f"{b.stem}_outside"), number(b, x, beyond), x)
    return x


def _mixed(b: Builder, x: Value, axis: int, shares: Array, name: str) -> Value:
    """Return ``x`` with an axis replaced by ``shares`` [m, n] of its elements."""
    if axis == x.rank - 2:
        return product(b, b.const(shares, name), x)
    last = [held for held in range(x.rank) if held != axis] + [axis]
    made = product(b, b.transpose(x, last), b.const(np.ascontiguousarray(shares.T), name))
    return b.transpose(made, inverse(last))


def _regions(node: Node, x: Value) -> list[tuple[float, float]]:
    given = node.static(1, "the region")
    axes = [node.axis(axis, x.rank) for axis in node.attr("axes") or range(x.rank)]
    if given is None or given.size != 2 * len(axes):
        raise node.invalid("the region (roi) does not fit the axes")
    flat = [float(bound) for bound in given.reshape(-1)]
    regions = [(0.0, 1.0)] * x.rank
    for index, axis in enumerate(axes):
        regions[axis] = flat[index], flat[index + len(axes)]
    return regions


@importer("Resize", since=10, layout=CHANNEL_LAST)
@importer("Upsample", since=9, layout=CHANNEL_LAST)
def resize_10(node: Node, b: Builder) -> Value:
    """Map opset 10: scales are input 1, positions are ``out / scale`` rounded down."""
    return _by_scales(node, b, node.static(1, "the scales"))


@importer("Upsample", since=7, layout=CHANNEL_LAST)
def upsample_7(node: Node, b: Builder) -> Value:
    """Map the oldest form: scales are an attribute."""
    return _by_scales(node, b, np.asarray(node.attr("scales", ()), np.float32))


def _by_scales(node: Node, b: Builder, scales: Array | None) -> Value:
    x = node.required(0)
    factors = tuple(float(scale) for scale in ([] if scales is None else scales.reshape(-1)))
    if len(factors) != x.rank:
        raise node.problem(f"{len(factors)} scales do not fit an input of rank {x.rank}")
    sizes = tuple(
        int(np.floor(np.float32(dim) * np.float32(scale)))
        for dim, scale in zip(x.shape, factors, strict=True)
    )
    return _resize(node, b, x, _Request(node.attr("mode", "nearest"), "asymmetric", "floor", sizes, factors))


def _resize(node: Node, b: Builder, x: Value, request: _Request) -> Value:
    if request.sizes[:2] != x.shape[:2] or x.rank not in (3, 4, 5):
        raise node.problem(
            f"{list(x.shape)} to {list(request.sizes)} is not supported; QNN resizes the axes after channels"
        )
    if any(size < 1 for size in request.sizes):
        raise node.problem(f"the result {list(request.sizes)} is empty")
    if request.mode not in _MODES or request.transform not in _TRANSFORMS:
        raise node.problem(f"mode {request.mode!r} with {request.transform!r} is not supported by QNN")
    if x.rank == 3:
        lifted = b.reshape(x, (*x.shape[:2], 1, x.shape[2]))
        wide = _Request(
            request.mode,
            request.transform,
            request.nearest,
            (*x.shape[:2], 1, request.sizes[2]),
            (1.0, 1.0, 1.0, request.scales[2]),
        )
        return b.reshape(_resize(node, b, lifted, wide), request.sizes)
    order = channel_last(x.rank)
    shape = tuple(request.sizes[axis] for axis in order)
    type, params = _native(x, request) or _general(node, x, request)
    return Value(b.emit(type, [b.channel_last(x)], shape, x.dtype, params, encoding=x.tensor.encoding), order)


def _native(x: Value, request: _Request) -> tuple[str, dict[str, ir.Param]] | None:
    """Return the fixed-mode op with the requested sampling positions, if any."""
    if x.rank != 4 or request.mode == "cubic":
        return None
    check_table(max(request.sizes))
    spatial = list(zip(x.shape[2:], request.sizes[2:], request.scales[2:], strict=True))
    for align, half in _FLAGS:
        fits = all(
            np.array_equal(
                _picked(n, m, s, request),
                images.picks(n, m, align, half),
            )
            if request.mode == "nearest"
            else np.allclose(
                np.clip(_positions(n, m, s, request), 0, n - 1),
                np.clip(images.positions(n, m, align, half) - (0.5 if half else 0.0), 0, n - 1),
                atol=1e-5 * n,
                rtol=0,
            )
            for n, m, s in spatial
        )
        if fits:
            name = "ResizeNearestNeighbor" if request.mode == "nearest" else "ResizeBilinear"
            params: dict[str, ir.Param] = {
                "align_corners": ir.b8(align),
                "half_pixel_centers": ir.b8(half),
            }
            if name == "ResizeBilinear":
                params["antialias"] = ir.b8(False)
            return name, params
    return None


def _general(node: Node, x: Value, request: _Request) -> tuple[str, dict[str, ir.Param]]:
    check_table(max(request.sizes))
    for n, m, s in zip(x.shape[2:], request.sizes[2:], request.scales[2:], strict=True):
        if request.mode == "nearest":
            same = np.array_equal(_picked(n, m, s, request), _op_picks(n, m, request))
        else:
            fitting = _positions(n, m, m / n, request)
            same = np.allclose(_positions(n, m, s, request), fitting, atol=1e-4, rtol=0)
        if not same:
            raise node.problem(
                f"scale {s:g} is not the ratio of the sizes {m} / {n}", "pass sizes, or a scale that fits"
            )
    params: dict[str, ir.Param] = {
        "transformation_mode": ir.u32(_TRANSFORMS[request.transform]),
        "interpolation_mode": ir.u32(_MODES[request.mode]),
    }
    if request.mode == "nearest":
        if request.nearest not in _NEAREST:
            raise node.problem(f"nearest_mode {request.nearest!r} is unknown")
        params["nearest_mode"] = ir.u32(_NEAREST[request.nearest])
    if request.mode == "cubic":
        params["cubic_coeff"] = ir.f32(node.attr("cubic_coeff_a", -0.75))
    return "Resize", params


def _positions(n: int, m: int, scale: float, request: _Request) -> Array:
    """Return where each output element is in the input."""
    return Sampling(request.mode, request.transform).positions(n, m, scale)


def _picked(n: int, m: int, scale: float, request: _Request) -> Array:
    """Return the element that each output element is."""
    sampling = Sampling(request.mode, request.transform, request.nearest)
    return sampling.picks(sampling.positions(n, m, scale), n)


def _op_picks(n: int, m: int, request: _Request) -> Array:
    """Return the element that QNN's Resize picks for each output element."""
    sampling = Sampling(request.mode, request.transform, request.nearest)
    exact = np.round(sampling.positions(n, m, m / n, dtype=np.float64), 6)
    return sampling.picks(exact, n)


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the axes of a value are resized.

    Attributes:
        mode: ``nearest``, ``linear`` or ``cubic``.
        transform: How positions are mapped (``coordinate_transformation_mode``).
        nearest: How a position is rounded (``nearest_mode``).
        cubic: Coefficient of the cubic kernel.
        exclude_outside: Whether shares beyond the ends are dropped instead of given to the last element.
        antialias: Whether kernels are widened where an axis shrinks.
    """

    mode: str
    transform: str
    nearest: str = "round_prefer_floor"
    cubic: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False

    def positions(
        self,
        n: int,
        m: int,
        scale: float,
        region: tuple[float, float] = (0.0, 1.0),
        dtype: type[np.floating[Any]] = np.float32,
    ) -> Array:
        """Return where each of ``m`` output elements is among ``n`` input elements.

        ``length_resized`` of ONNX's formulas is ``m``, also where the scale makes a fraction: so PyTorch and
        onnxruntime have it, while the reference implementation of ONNX takes the fraction.

        Args:
            n: Input elements.
            m: Output elements.
            scale: Output elements for each input element.
            region: Start and end of ``tf_crop_and_resize``, in shares of the input.
            dtype: Precision.

        Returns:
            float64[m].
        """
        check_table(m)
        unit, half, length, size, factor = (dtype(number) for number in (1, 0.5, n, m, scale))
        out = np.arange(m, dtype=dtype)
        if self.transform == "asymmetric":
            sampled = (np.arange(m) / scale).astype(dtype)
        elif self.transform == "align_corners":
            sampled = out * (length - unit) / (size - unit) if m > 1 else out * 0
        elif self.transform == "tf_crop_and_resize":
            start, end = np.asarray(region, dtype)
            if m > 1:
                sampled = start * (length - unit) + out * (end - start) * (length - unit) / (size - unit)
            else:
                sampled = out * 0 + half * (start + end) * (length - unit)
        elif self.transform == "pytorch_half_pixel" and m <= 1:
            sampled = out * 0
        else:
            symmetric = self.transform == "half_pixel_symmetric"
            offset = length / 2 * (unit - size / (factor * length)) if symmetric else dtype(0)
            sampled = offset + (out + half) / factor - half
        return sampled.astype(np.float64)

    def picks(self, positions: Array, n: int) -> Array:
        """Return the nearest element of each position."""
        floor, ceil = np.floor(positions), np.ceil(positions)
        ratio = positions - floor
        rounded = {
            "floor": floor,
            "ceil": ceil,
            "round_prefer_floor": np.where(ratio <= 0.5, floor, ceil),
            "round_prefer_ceil": np.where(ratio < 0.5, floor, ceil),
        }[self.nearest]
        return np.clip(rounded, 0, n - 1).astype(np.int64)

    def matrix(self, positions: Array, n: int, scale: float) -> Array:
        """Return the shares [m, n] of input elements in output elements at ``positions``."""
        shrink = min(scale, 1.0) if self.antialias else 1.0
        reach = int(np.ceil((2 if self.mode == "cubic" else 1) / shrink))
        check_table(len(positions), max(n, reach))
        near = np.floor(positions).astype(np.int64)[:, None] + np.arange(-reach, reach + 1)
        shares = self._kernel((near - positions[:, None]) * shrink)
        if self.exclude_outside:
            shares = np.where((near >= 0) & (near < n), shares, 0.0)
        if self.exclude_outside or self.antialias:
            shares = shares / shares.sum(axis=1, keepdims=True)
        made = np.zeros((len(positions), n))
        np.add.at(made, (np.arange(len(positions))[:, None], np.clip(near, 0, n - 1)), shares)
        return made

    def _kernel(self, distance: Array) -> Array:
        x, a = np.abs(distance), self.cubic
        if self.mode == "linear":
            return np.clip(1 - x, 0, 1)
        inner = ((a + 2) * x - (a + 3)) * x * x + 1
        outer = ((x - 5) * x + 8) * x * a - 4 * a
        return np.where(x <= 1, inner, np.where(x < 2, outer, 0.0))
