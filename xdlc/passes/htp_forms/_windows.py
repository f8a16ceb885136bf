"""Windows of pools and kernels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy

from xdlc import ir
from xdlc.ir import Tensor
from xdlc.ir.data import Array
from xdlc.passes._writing import Writer

LONGEST = 8
"""The longest kernel that HTP does not divide."""


def pool_max(
    w: Writer, x: Tensor, shape: Sequence[int], kernel: Array, stride: Array, pads: Array, rounding: int = 0
) -> Tensor:
    """Insert a PoolMax2d with the encoding of its input."""
    windows = {"filter_size": kernel, "stride": stride, "pad_amount": pads}
    params: dict[str, ir.Param] = {name: ir.u32s(numbers) for name, numbers in windows.items()}
    params["rounding_mode"] = ir.u32(rounding)
    return w.emit("PoolMax2d", [x], shape, params, x.dtype, x.encoding)


def covered(sizes: Sequence[int], results: Sequence[int], kernel: Array, stride: Array, pads: Array) -> Array:
    """Return the part of each window of a pool that covers no padding."""
    parts = []
    for axis, size in enumerate(sizes):
        start = numpy.arange(results[axis]) * stride[axis] - pads[axis, 0]
        stop = numpy.minimum(start + kernel[axis], size)
        parts.append((stop - numpy.maximum(start, 0)) / kernel[axis])
    return reduce(numpy.multiply.outer, parts)
