"""Means over windows and axes, with the roundings of the host's kernels.

The host (onnxruntime 1.31 on x86-64, to which the tests hold this) adds real numbers in single precision,
row by row, over whole images in four partial sums.  Of whole images of 8 bits, it multiplies the sum of the
stored integers with one factor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xdlc.ir import Op, Tensor
from xdlc.prepare.hta.compile.bounds import Stored, bounds, encoding_of, quantized, real, single_steps
from xdlc.prepare.hta.compile.builder import PlanBuilder
from xdlc.prepare.hta.compile.windows import Windows

Array = Any  # numpy.ndarray
LANES = 4


def emit_whole_image(builder: PlanBuilder, op: Op, source: Tensor, target: Tensor) -> None:
    """Emit the mean of each channel of images."""
    count = source.shape[1] * source.shape[2]
    if not is_narrow(source, target):
        emit_sums(builder, op, source, target, (1, 2), lanes=LANES)
        return
    limits = bounds(_factored(source, target, count), target, 0, count * source.dtype.limits[1])
    builder.emit("total", op, [source], [target], {"bounds": limits}, axes=(1, 2))


def emit_sums(
    builder: PlanBuilder, op: Op, source: Tensor, target: Tensor, axes: Sequence[int], *, lanes: int = 1
) -> None:
    """Emit the mean along axes, of sums in single precision.

    Args:
        builder: Collects the plan.
        op: The op.
        source: What is summed.
        target: The means.
        axes: Axes of ``source``.
        lanes: Partial sums that the host adds up in the end.
    """
    import numpy as np

    count = math.prod(source.shape[axis] for axis in axes)
    values, unit = single_steps(source)
    reach = int(np.abs(values).max()) * count
    constants = {"values": values, "bounds": bounds(_rounded(target, count, unit), target, -reach, reach)}
    builder.emit("total", op, [source], [target], constants, axes=axes, lanes=lanes)


def emit_windows(
    builder: PlanBuilder, op: Op, source: Tensor, target: Tensor, windows: Windows, *, counts_padding: bool
) -> None:
    """Emit the mean of each window.

    Args:
        builder: Collects the plan.
        op: The op.
        source: Images.
        target: Means.
        windows: Where the windows lie.
        counts_padding: Whether the divisor is the window's size, whatever of it is padding.
    """
    import numpy as np

    area = windows.size[0] * windows.size[1]
    counts = np.multiply.outer(*(_elements(source, target, windows, axis) for axis in (0, 1)))
    if counts_padding:
        counts = np.full(counts.shape, area)
    different, choice = np.unique(counts, return_inverse=True)
    values, unit = single_steps(source)
    reach = int(np.abs(values).max()) * area
    mean = _placed if is_narrow(source, target) else _rounded
    limits = [bounds(mean(target, int(count), unit), target, -reach, reach) for count in different]
    constants = {
        "values": values,
        "bounds": np.stack(limits),
        "choice": choice.reshape(counts.shape).astype(np.int32),
    }
    zero = -encoding_of(source).offset
    builder.emit("pool_average", op, [source], [target], constants, **windows.settings, zero=zero)


def is_narrow(source: Tensor, target: Tensor) -> bool:
    """Return whether the host takes means of such activations with its 8-bit kernels."""
    return source.dtype.bits == target.dtype.bits == 8


def _factored(source: Tensor, target: Tensor, count: int) -> Stored:
    """Return what the host stores for sums of stored integers over whole images."""
    import numpy as np

    held, result = encoding_of(source), encoding_of(target)
    factor = np.float32(held.scale) / (np.float32(result.scale) * np.float32(count))

    def stored(sums: Array) -> Array:
        steps = (sums + count * held.offset).astype(np.float32)
        return np.rint(steps * factor).astype(np.float64) - result.offset

    return stored


def _placed(target: Tensor, count: int, unit: float) -> Stored:
    """Return what the host's 8-bit average pool stores for sums of ``count`` summands."""
    import numpy as np

    result = encoding_of(target)
    scale, zero = np.float32(result.scale), np.float32(-result.offset)

    def stored(sums: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.rint(real(sums, unit) / np.float32(count) / scale + zero).astype(np.float64)

    return stored


def _rounded(target: Tensor, count: int, unit: float) -> Stored:
    """Return what the host stores for sums of ``count`` summands that it divides and then rounds."""
    import numpy as np

    place = quantized(target)
    return lambda sums: place(real(sums, unit) / np.float32(count))


def _elements(source: Tensor, target: Tensor, windows: Windows, axis: int) -> Array:
    """Return how many elements along an axis of images each window holds."""
    import numpy as np

    first = np.arange(target.shape[1 + axis]) * windows.stride[axis] - windows.pads[axis]
    last = np.minimum(first + windows.size[axis], source.shape[1 + axis])
    return last - np.maximum(first, 0)
