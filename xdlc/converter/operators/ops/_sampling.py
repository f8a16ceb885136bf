"""Resizing of an axis as a matrix: shares of input elements in output elements.

The rules are those of ONNX's Resize operator, all of them, in single precision as onnxruntime computes
them: which of two elements is nearer to a tie depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xdlc.converter.values import check_table
from xdlc.ir.data import Array


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
