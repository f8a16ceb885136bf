"""Resize and Upsample.

The rules of sampling are those of ONNX's Resize operator, all of them, in single precision as onnxruntime
computes them: which of two elements is nearer to a tie depends on it.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.functions.elementwise import where
from xdlc.converter.functions.resampling import mixed, picked
from xdlc.converter.functions.shapes import number
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.operators.registry import CHANNEL_LAST, Node, importer
from xdlc.converter.values import Value, channel_last, check_table
from xdlc.errors import UnsupportedOp
from xdlc.ir.data import Array
from xdlc.opdefs import sampling
from xdlc.records import record

_FLAGS = ((False, False), (False, True), (True, False))
"""Flags (align_corners, half_pixel_centers) of ResizeNearestNeighbor and ResizeBilinear."""


@record(frozen=True)
class _Axis:
    """One axis of a value that is resized.

    Attributes:
        n: Old size.
        m: New size.
        scale: New elements for each old one.
        region: Start and end of ``tf_crop_and_resize``, in shares of the axis.
    """

    n: int
    m: int
    scale: float = 1.0
    region: tuple[float, float] = (0.0, 1.0)

    @property
    def is_kept(self) -> bool:
        return self.n == self.m and self.scale == 1.0 and self.region == (0.0, 1.0)


@record(frozen=True)
class _Request:
    """What a node asks.

    Attributes:
        mode: ``nearest``, ``linear`` or ``cubic``.
        transform: How positions are mapped (``coordinate_transformation_mode``).
        rounding: How a position is rounded (``nearest_mode``).
        axes: All axes of the value.
        coefficient: That of the cubic kernel.
        drops: Whether shares beyond the ends are dropped instead of given to the last element.
        smooths: Whether kernels are widened where an axis shrinks.
    """

    mode: str
    transform: str
    rounding: str
    axes: tuple[_Axis, ...]
    coefficient: float = sampling.CUBIC
    drops: bool = False
    smooths: bool = False

    @property
    def sizes(self) -> tuple[int, ...]:
        """New sizes."""
        return tuple(axis.m for axis in self.axes)

    def places(self, axis: _Axis) -> Array:
        """Return the positions of new elements of an axis."""
        check_table(axis.m)
        is_ratio = self.transform == "asymmetric"  # of which single precision may miss whole numbers
        places = sampling.positions(
            axis.n,
            axis.m,
            self.transform,
            axis.scale,
            axis.region,
            dtype=np.float64 if is_ratio else np.float32,
        )
        return places.astype(np.float32).astype(np.float64)

    def picks(self, axis: _Axis) -> Array:
        """Return the element that each new element of an axis is."""
        return sampling.rounded(self.places(axis), axis.n, self.rounding)

    def shares(self, axis: _Axis) -> Array:
        """Return the shares [m, n] of old elements in new ones."""
        kernel = sampling.cubic(self.coefficient) if self.mode == "cubic" else sampling.LINEAR
        stretch = max(1 / axis.scale, 1.0) if self.smooths else 1.0
        check_table(axis.m, max(axis.n, math.ceil(kernel.radius * stretch)))
        return sampling.shares(
            self.places(axis), axis.n, kernel, stretch=stretch, drops=self.drops, normalizes=self.smooths
        )


@importer("Resize", since=11, layout=CHANNEL_LAST)
def resize(node: Node, g: Operators, x: Value) -> Value:
    """Map onto an equivalent op, or else write each axis as a matrix product."""
    request = _requested(node, x)
    beyond = node.attr("extrapolation_value", 0.0)
    try:
        if not (request.drops or request.smooths):
            return _resize(node, g.builder, x, request)
    except UnsupportedOp:  # by all rules of ONNX then
        pass
    if request.mode != "nearest" and not x.dtype.is_float:
        raise node.problem(f"{request.mode} interpolation of {x.dtype} values is not supported")
    if x.rank == 1:
        lifted = replace(request, axes=(_Axis(1, 1), *request.axes))
        row = _by_axes(g, g.builder.reshape(x, (1, *x.shape)), lifted, beyond)
        return g.builder.reshape(row, request.sizes)
    return _by_axes(g, x, request, beyond)


def _requested(node: Node, x: Value) -> _Request:
    axes = [node.axis(axis, x.rank) for axis in node.attr("axes") or range(x.rank)]
    scales, sizes = node.static(2, "the scales"), node.static(3, "the sizes")
    policy = node.attr("keep_aspect_ratio_policy", "stretch")
    if node.attr("mode", "nearest") not in sampling.MODES:
        raise node.invalid(f"mode {node.attr('mode')!r:.40} is unknown")
    resized = [_Axis(size, size) for size in x.shape]
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
            resized[axis] = _Axis(x.shape[axis], size, ratio)
    elif scales is not None and scales.size:
        for axis, scale in zip(axes, scales.reshape(-1), strict=True):
            resized[axis] = _scaled(x.shape[axis], float(scale))
    else:
        raise node.invalid("the node has neither scales nor sizes")
    mode, rounding = node.attr("mode", "nearest"), node.attr("nearest_mode", "round_prefer_floor")
    transform = node.attr("coordinate_transformation_mode", "half_pixel")
    if mode == "nearest" and rounding not in sampling.ROUNDINGS:
        raise node.invalid(f"nearest_mode {rounding!r:.40} is unknown")
    if transform == "tf_crop_and_resize":
        for axis, region in zip(axes, _regions(node, len(axes)), strict=True):
            resized[axis] = replace(resized[axis], region=region)
    return _Request(
        mode,
        transform,
        rounding,
        tuple(resized),
        node.attr("cubic_coeff_a", sampling.CUBIC),
        node.flag("exclude_outside"),
        node.flag("antialias"),
    )


def _scaled(n: int, scale: float) -> _Axis:
    return _Axis(n, int(np.floor(np.float32(n) * np.float32(scale))), scale)


def _regions(node: Node, count: int) -> list[tuple[float, float]]:
    """Return the start and the end of the region along each axis."""
    region = node.static(1, "the region")
    if region is None or region.size != 2 * count:
        raise node.invalid("the region (roi) does not fit the axes")
    bounds = [float(bound) for bound in region.reshape(-1)]
    return list(zip(bounds[:count], bounds[count:], strict=True))


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
    factors = [float(scale) for scale in ([] if scales is None else scales.reshape(-1))]
    if len(factors) != x.rank:
        raise node.problem(f"{len(factors)} scales do not fit an input of rank {x.rank}")
    axes = tuple(map(_scaled, x.shape, factors))
    return _resize(node, b, x, _Request(node.attr("mode", "nearest"), "asymmetric", "floor", axes))


def _by_axes(g: Operators, x: Value, request: _Request, beyond: float) -> Value:
    """Resize by axis: a Gather, or a product with the matrix of shares."""
    outside = np.zeros((1,) * x.rank, np.bool_)
    for index, axis in enumerate(request.axes):
        if axis.is_kept:
            continue
        if request.transform == "tf_crop_and_resize":
            places = request.places(axis)
            is_lost = (places < 0) | (places > axis.n - 1)
            outside = outside | is_lost.reshape([-1 if other == index else 1 for other in range(x.rank)])
        if request.mode == "nearest":
            x = picked(g, x, index, request.picks(axis))
        else:
            x = mixed(g, x, index, request.shares(axis))
    return where(g, g.builder.const(outside), number(g, x, beyond), x) if outside.any() else x


# ------------------------------------------------------------------ by operations of QNN


def _resize(node: Node, b: Builder, x: Value, request: _Request) -> Value:
    sizes = request.sizes
    if sizes[:2] != x.shape[:2] or x.rank not in (3, 4, 5):
        raise node.problem(
            f"{list(x.shape)} to {list(sizes)} is not supported; QNN resizes the axes after channels"
        )
    if min(sizes) < 1:
        raise node.problem(f"the result {list(sizes)} is empty")
    if request.mode not in sampling.MODES or request.transform not in sampling.TRANSFORMS:
        raise node.problem(f"mode {request.mode!r} with {request.transform!r} is not supported by QNN")
    if x.rank == 3:
        image = replace(request, axes=(*request.axes[:2], _Axis(1, 1), request.axes[2]))
        lifted = b.reshape(x, (*x.shape[:2], 1, x.shape[2]))
        return b.reshape(_resize(node, b, lifted, image), sizes)
    check_table(max(sizes))
    order = channel_last(x.rank)
    type, params = _native(request) or _general(node, request)
    shape = [sizes[axis] for axis in order]
    return Value(b.emit(type, [b.channel_last(x)], shape, x.dtype, params, encoding=x.tensor.encoding), order)


def _native(request: _Request) -> tuple[str, dict[str, ir.Param]] | None:
    """Return the fixed-mode op with the requested sampling positions, if any."""
    if len(request.axes) != 4 or request.mode == "cubic":
        return None
    for align, half in _FLAGS:
        transform = sampling.transform_of(align, half)
        params: dict[str, ir.Param] = {"align_corners": ir.b8(align), "half_pixel_centers": ir.b8(half)}
        if request.mode == "nearest":
            if all(
                np.array_equal(request.picks(axis), sampling.picks(axis.n, axis.m, transform))
                for axis in request.axes[2:]
            ):
                return "ResizeNearestNeighbor", params
        elif all(
            np.allclose(
                np.clip(request.places(axis), 0, axis.n - 1),
                np.clip(sampling.positions(axis.n, axis.m, transform), 0, axis.n - 1),
                atol=1e-5 * axis.n,
                rtol=0,
            )
            for axis in request.axes[2:]
        ):
            return "ResizeBilinear", {**params, "antialias": ir.b8(False)}
    return None


def _general(node: Node, request: _Request) -> tuple[str, dict[str, ir.Param]]:
    for axis in request.axes[2:]:
        if request.mode == "nearest":
            exact = sampling.picks(axis.n, axis.m, request.transform, request.rounding)
            is_same = np.array_equal(request.picks(axis), exact)
        else:
            fitting = request.places(replace(axis, scale=axis.m / axis.n))
            is_same = np.allclose(request.places(axis), fitting, atol=1e-4, rtol=0)
        if not is_same:
            raise node.problem(
                f"scale {axis.scale:g} is not the ratio of the sizes {axis.m} / {axis.n}",
                "pass sizes, or a scale that fits",
            )
    params: dict[str, ir.Param] = {
        "transformation_mode": ir.u32(sampling.TRANSFORMS.index(request.transform)),
        "interpolation_mode": ir.u32(sampling.MODES.index(request.mode)),
    }
    if request.mode == "nearest":
        params["nearest_mode"] = ir.u32(sampling.ROUNDINGS.index(request.rounding))
    if request.mode == "cubic":
        params["cubic_coeff"] = ir.f32(request.coefficient)
    return "Resize", params
