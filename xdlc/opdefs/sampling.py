"""Sampling along an axis: positions, nearest elements, kernels and shares."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from xdlc.ir.data import Array

TRANSFORMS = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
"""Names of the parameter ``transformation_mode`` of Resize, in ONNX's words."""
MODES = ("nearest", "linear", "cubic")
"""Names of its ``interpolation_mode``."""
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
"""Names of its ``nearest_mode``."""
CUBIC = -0.75
"""Coefficient of the cubic kernel that ONNX, PyTorch and OpenCV use."""
KEYS_CUBIC = -0.5
"""Coefficient of the cubic kernel of R. Keys, third order in its error."""
Float = type[np.floating[Any]]


# ------------------------------------------------------------------ positions


def transform_of(align: bool, half: bool) -> str:
    """Return the transform that ``align_corners`` and ``half_pixel_centers`` denote."""
    return "align_corners" if align else "half_pixel" if half else "asymmetric"


def rounding_of(transform: str) -> str:
    """Return how ResizeNearestNeighbor rounds positions of a transform."""
    return "floor" if transform == "asymmetric" else "round_prefer_ceil"


def stepped(m: int, step: float, half: float = 0.0, *, dtype: Float = np.float64) -> Array:
    """Return (i + half) * step for i below ``m``."""
    return (np.arange(m, dtype=dtype) + dtype(half)) * dtype(step)


def positions(
    n: int,
    m: int,
    transform: str,
    scale: float | None = None,
    region: tuple[float, float] = (0.0, 1.0),
    *,
    dtype: Float = np.float64,
) -> Array:
    """Return where each of ``m`` output elements is among ``n`` input elements.

    ``length_resized`` of ONNX's formulas is ``m``, also where the scale makes a fraction: so PyTorch and
    onnxruntime have it, while the reference implementation of ONNX takes the fraction.

    Args:
        n: Input elements.
        m: Output elements.
        transform: ``coordinate_transformation_mode`` of ONNX.
        scale: Output elements for each input element; default: m / n.
        region: Start and end of ``tf_crop_and_resize``, in shares of the input.
        dtype: Precision of the computation.

    Returns:
        float64[m].
    """
    scale = m / n if scale is None else scale
    unit, half, length, size, factor = (dtype(number) for number in (1, 0.5, n, m, scale))
    out: Array = np.arange(m, dtype=dtype)
    places: Array
    if transform == "asymmetric":
        places = out / factor
    elif transform == "align_corners":
        places = out * (length - unit) / (size - unit) if m > 1 else out * 0
    elif transform == "tf_crop_and_resize":
        start, end = np.asarray(region, dtype)
        if m > 1:
            places = start * (length - unit) + out * (end - start) * (length - unit) / (size - unit)
        else:
            places = out * 0 + half * (start + end) * (length - unit)
    elif transform == "pytorch_half_pixel" and m <= 1:
        places = out * 0
    else:
        symmetric = transform == "half_pixel_symmetric"
        offset = length / 2 * (unit - size / (factor * length)) if symmetric else dtype(0)
        places = offset + (out + half) / factor - half
    return places.astype(np.float64)


# ------------------------------------------------------------------ nearest elements


def rounded(places: Array, n: int, rounding: str) -> Array:
    """Return the element of ``n`` nearest to each position, int64."""
    floor, ceil = np.floor(places), np.ceil(places)
    ratio = places - floor
    nearest = {
        "floor": floor,
        "ceil": ceil,
        "round_prefer_floor": np.where(ratio <= 0.5, floor, ceil),
        "round_prefer_ceil": np.where(ratio < 0.5, floor, ceil),
    }[rounding]
    return np.clip(nearest, 0, n - 1).astype(np.int64)


def picks(n: int, m: int, transform: str, rounding: str | None = None) -> Array:
    """Return the element of ``n`` that a QNN operation picks for each of ``m``, int64.

    Places are exact, as HTP computes them: 64 * 126 / 128 is element 63, never 62 by a rounded ratio.

    Args:
        rounding: ``nearest_mode`` of Resize; default: as ResizeNearestNeighbor rounds.
    """
    places = np.round(positions(n, m, transform), 6)  # a ratio is rarely exact
    return rounded(places, n, rounding or rounding_of(transform))


# ------------------------------------------------------------------ shares of elements


class Kernel(NamedTuple):
    """Share of an element at a distance from 0 to the radius; beyond, it is 0."""

    radius: float
    share: Callable[[Array], Array]

    def __call__(self, distance: Array) -> Array:
        """Return the shares at distances, which may be negative."""
        x = np.abs(distance)
        return np.where(x <= self.radius, self.share(np.minimum(x, self.radius)), 0.0)


def cubic(a: float) -> Kernel:
    """Return the kernel of cubic convolution with a coefficient.

    R. Keys, Cubic convolution interpolation for digital image processing, IEEE ASSP 29, 1981.
    """

    def share(x: Array) -> Array:
        inner = ((a + 2) * x - (a + 3)) * x * x + 1
        outer = ((x - 5) * x + 8) * x * a - 4 * a
        return np.where(x <= 1, inner, outer)

    return Kernel(2.0, share)


def _lanczos(radius: float) -> Kernel:
    return Kernel(radius, lambda x: np.sinc(x) * np.sinc(x / radius))


def _mitchell_cubic(x: Array) -> Array:
    outer = ((-7 / 18 * x + 2) * x - 10 / 3) * x + 16 / 9
    return np.where(x >= 1, outer, (7 / 6 * x - 2) * x * x + 8 / 9)


def kernel(name: str) -> Kernel:
    """Return a kernel of TensorFlow's ScaleAndTranslate by its name.

    Raises:
        KeyError: If there is none of this name.
    """
    return cubic(KEYS_CUBIC) if name == "keyscubic" else _KERNELS[name]


LINEAR = Kernel(1.0, lambda x: 1 - x)
_KERNELS = {
    "lanczos1": _lanczos(1.0),
    "lanczos3": _lanczos(3.0),
    "lanczos5": _lanczos(5.0),
    "gaussian": Kernel(1.5, lambda x: np.exp(-(x**2) / 0.5)),
    "box": Kernel(1.0, lambda x: np.where(x < 0.5, 1.0, np.where(x == 0.5, 0.5, 0.0))),
    "triangle": LINEAR,
    "mitchellcubic": Kernel(2.0, _mitchell_cubic),
}
KERNELS = (*_KERNELS, "keyscubic")
"""Names that ``kernel`` knows."""


def shares(
    places: Array,
    n: int,
    kernel: Kernel,
    *,
    stretch: float = 1.0,
    drops: bool = False,
    normalizes: bool = False,
) -> Array:
    """Return the shares [m, n] of input elements in elements at ``places``.

    Args:
        places: [m].
        n: Input elements.
        stretch: Factor of the width of the kernel.
        drops: Whether the others replace shares beyond the ends, instead of the last element.
        normalizes: Whether shares are divided by their sum; those with dropped ones always are.
    """
    if drops:
        near = np.arange(n)[None, :]
    else:
        reach = math.ceil(kernel.radius * stretch)
        near = np.floor(places).astype(np.int64)[:, None] + np.arange(-reach, reach + 1)
    parts = kernel((near - places[:, None]) / stretch)
    if drops or normalizes:
        total = parts.sum(axis=1, keepdims=True)
        is_any = np.abs(total) > 1000 * np.finfo(np.float32).tiny
        parts = np.where(is_any, parts / np.where(is_any, total, 1), 0.0)
    if drops:
        return parts
    table = np.zeros((len(places), n))
    np.add.at(table, (np.arange(len(places))[:, None], np.clip(near, 0, n - 1)), parts)
    return table


def areas(n: int, m: int, ratio: float) -> Array:
    """Return shares [m, n] of the areas that new elements cover of the old ones.

    Args:
        ratio: Old elements that a new one covers.
    """
    edge = stepped(m, ratio, dtype=np.float32).astype(np.float64)[:, None]
    old = np.arange(math.ceil(edge[-1, 0] + ratio) + 1)
    covered = np.clip(np.minimum(edge + ratio, old + 1) - np.maximum(edge, old), 0, None)
    table = np.zeros((m, n))
    for place, column in zip(np.clip(old, 0, n - 1), covered.T, strict=True):
        table[:, place] += column
    return table / table.sum(1, keepdims=True)
