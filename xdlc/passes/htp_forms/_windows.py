"""Windows of pools and kernels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy

from xdlc.ir.data import Array

LONGEST = 8
"""The longest kernel that HTP does not divide."""


def covered(sizes: Sequence[int], results: Sequence[int], kernel: Array, stride: Array, pads: Array) -> Array:
    """Return the part of each window of a pool that covers no padding."""
    parts = []
    for axis, size in enumerate(sizes):
        start = numpy.arange(results[axis]) * stride[axis] - pads[axis, 0]
        stop = numpy.minimum(start + kernel[axis], size)
        parts.append((stop - numpy.maximum(start, 0)) / kernel[axis])
    return reduce(numpy.multiply.outer, parts)
