"""Numbers of single precision as whole ones with shifts, see ``xdlc.runtime.hta.single``."""

from __future__ import annotations

from typing import Any

from xdlc.runtime.hta.single import BITS

Array = Any  # numpy.ndarray
REACH = 1 << 61
"""Sums of such numbers are no further from 0."""


def singles(given: Array, room: int) -> tuple[Array, Array, float]:
    """Return float32 numbers as whole ones, their shifts, of at most ``room``, and the unit of shift 0.

    A number far below the largest keeps fewer bits.
    """
    import numpy as np

    exponents = np.frexp(np.abs(given).astype(np.float64))[1].astype(np.int64) - BITS
    top = int(exponents[given != 0].max()) if given.any() else 0
    exponents = np.where(given == 0, top, np.maximum(exponents, top - room))
    least = int(exponents.min())
    whole = np.rint(given.astype(np.float64) * np.exp2(-exponents.astype(np.float64)))
    return whole.astype(np.int32), (exponents - least).astype(np.int8), 2.0**least
