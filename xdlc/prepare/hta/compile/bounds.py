"""Bounds between which sums of stored integers are placed.

What the host makes of a sum (division, rounding, clipping) never falls as the sum grows, so it is told whole
by the least sum for each stored integer.  The functions of this module find those by trying the host's own
steps, in single precision where it computes so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdlc.errors import ConstraintError
from xdlc.ir import ScaleOffset, Tensor

Array = Any  # numpy.ndarray
_EXTREME = 1e30
Stored = Callable[[Array], Array]
"""Returns the unclipped stored integers for sums."""


def encoding_of(tensor: Tensor) -> ScaleOffset:
    """Return the encoding of an activation with sums of which the host can be equalled.

    Raises:
        ConstraintError: If it uses some bits only, its zero point is no stored integer, or its scale is near
            the ends of single precision.
    """
    held = tensor.encoding
    bits = tensor.dtype.bits
    if (
        not isinstance(held, ScaleOffset)
        or held.bits not in (None, 0, bits)
        or not -(1 << bits) < held.offset <= 0
        or not 1 / _EXTREME < held.scale < _EXTREME
    ):
        raise ConstraintError(
            f"has the encoding {held}, should have one scale that is no extreme, all bits in use, and "
            f"a zero within them",
            where=f"tensor {tensor.name!r}",
            fix="quantize the model again",
        )
    return held


def bounds(stored: Stored, target: Tensor, low: int, high: int) -> Array:
    """Return for each stored integer but the least the smallest sum that gives it or more, int64.

    Args:
        stored: What the host makes of sums, an array of int64; must not fall.
        target: Tensor that holds the results.
        low: The least sum that occurs.
        high: The largest.
    """
    import numpy as np

    wanted = np.arange(1, target.dtype.limits[1] + 1)
    least = np.full(wanted.shape, low, np.int64)
    most = np.full(wanted.shape, high + 1, np.int64)  # stands for never
    while np.any(least < most):
        middle = least + (most - least) // 2
        enough = stored(middle) >= wanted
        open_ones = least < most
        most = np.where(open_ones & enough, middle, most)
        least = np.where(open_ones & ~enough, middle + 1, least)
    return least


def quantized(target: Tensor) -> Callable[[Array], Array]:
    """Return the host's rounding of float32 numbers to the stored integers of a tensor, not clipped."""
    import numpy as np

    held = encoding_of(target)
    scale = np.float32(held.scale)

    def stored(given: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.rint(given / scale).astype(np.float64) - held.offset

    return stored


def exact(source: Tensor, target: Tensor, count: int) -> Stored:
    """Return the stored integers of the mean of ``count`` stored integers whose zero is taken off."""
    import numpy as np

    ratio = encoding_of(source).scale / (encoding_of(target).scale * count)
    return lambda sums: np.rint(sums * ratio) - encoding_of(target).offset


def single_steps(tensor: Tensor) -> tuple[Array, float]:
    """Return the host's real number for each stored integer as int64, and the unit that these are in.

    The unit is a power of two.  Whole numbers of the unit are exact where the host's numbers of single
    precision are.
    """
    import numpy as np

    unit = float(np.exp2(np.floor(np.log2(np.float64(np.float32(encoding_of(tensor).scale)))) - 23))
    return (real_numbers(tensor).astype(np.float64) / unit).astype(np.int64), unit


def real_numbers(tensor: Tensor) -> Array:
    """Return the host's real number for each stored integer of an activation, float32."""
    import numpy as np

    held = encoding_of(tensor)
    steps = np.arange(tensor.dtype.limits[1] + 1) + held.offset
    return steps.astype(np.float32) * np.float32(held.scale)


def real(sums: Array, unit: float) -> Array:
    """Return sums in steps of a unit as float32 numbers; infinite where they are too large."""
    import numpy as np

    with np.errstate(over="ignore"):
        return (sums * unit).astype(np.float32)
