"""Figures of what quantization costs."""

from __future__ import annotations

from typing import Any

import numpy as np


def sqnr(exact: Any, rounded: Any) -> float:
    """Return the SQNR in dB of an array, or of a list of arrays as a whole."""
    exact, rounded = (
        np.concatenate([np.ravel(array) for array in arrays]) if isinstance(arrays, list) else arrays
        for arrays in (exact, rounded)
    )
    noise = np.square(np.subtract(exact, rounded, dtype=np.float64)).sum()
    return float(10 * np.log10(np.square(np.float64(exact)).sum() / max(noise, 1e-30)))
