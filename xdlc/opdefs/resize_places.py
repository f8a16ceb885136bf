"""Source positions of ResizeNearestNeighbor and ResizeBilinear."""

from __future__ import annotations

import numpy as np

from xdlc.ir.data import Array


def positions(n: int, m: int, align: bool, half: bool) -> Array:
    """Return where each of ``m`` elements is in ``n``; half a step ahead if ``half``."""
    out = np.arange(m, dtype=np.float64)
    if align:
        return out * ((n - 1) / (m - 1)) if m > 1 else out * 0
    return (out + (0.5 if half else 0.0)) * (n / m)


def picks(n: int, m: int, align: bool, half: bool) -> Array:
    """Return the element of ``n`` that ResizeNearestNeighbor picks for each of ``m``.

    Places are exact, as HTP computes them: 64 * 126 / 128 is element 63, never 62 by a rounded ratio.
    """
    places = np.round(positions(n, m, align, half), 6)  # a ratio is rarely exact
    return np.clip(np.floor(places + 0.5 if align else places), 0, n - 1)
