"""Means over windows and axes, with the roundings of the host's kernels.

For 8-bit activations the host has two kernels: sums of whole numbers, times one factor, where the mean is
over whole images; else sums of real numbers in single precision, row by row.  Wider activations are summed
in single precision in an order that depends on the shape; their means are exact here, at most one step off.
"""

from __future__ import annotations

from typing import Any

from xdlc.ir import Op, Tensor
from xdlc.prepare.hta.compile.bounds import bounds, encoding_of, exact, quantized, real, single_steps
from xdlc.prepare.hta.compile.builder import PlanBuilder
from xdlc.prepare.hta.compile.windows import Windows

Array = Any  # numpy.ndarray


def emit_whole_image(builder: PlanBuilder, op: Op, source: Tensor, target: Tensor) -> None:
    """Emit the mean of each channel of images."""
    import numpy as np

    count = source.shape[1] * source.shape[2]
    held, result = encoding_of(source), encoding_of(target)
    top = source.dtype.limits[1]
    if is_narrow(source, target):
        factor = np.float32(held.scale) / (np.float32(result.scale) * np.float32(count))

        def stored(sums: Array) -> Array:
            steps = (sums + count * held.offset).astype(np.float32)
            return np.rint(steps * factor).astype(np.float64) - result.offset
    else:
        plain = exact(source, target, count)

        def stored(sums: Array) -> Array:
            return plain(sums + count * held.offset)

    limits = bounds(stored, target, 0, count * top)
    builder.emit("total", op, [source], [target], {"bounds": limits}, axes=(1, 2))


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
    values, unit = summands(source, target)
    reach = int(np.abs(values).max()) * area
    limits = [bounds(mean_of(source, target, int(count), unit), target, -reach, reach) for count in different]
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


def summands(source: Tensor, target: Tensor) -> tuple[Array, float]:
    """Return a whole number for each stored integer, and their unit; 0 for none, where sums are exact."""
    import numpy as np

    if is_narrow(source, target):
        return single_steps(source)
    return np.arange(source.dtype.limits[1] + 1, dtype=np.int64) + encoding_of(source).offset, 0.0


def mean_of(source: Tensor, target: Tensor, count: int, unit: float) -> Any:
    """Return what the host's 8-bit average pool stores for sums of ``count`` summands."""
    import numpy as np

    if not unit:
        return exact(source, target, count)
    result = encoding_of(target)
    scale, zero = np.float32(result.scale), np.float32(-result.offset)
    return lambda sums: np.rint(real(sums, unit) / np.float32(count) / scale + zero).astype(np.float64)


def rounded_mean(target: Tensor, count: int, unit: float) -> Any:
    """Return what the host's mean over axes stores for sums of ``count`` summands."""
    import numpy as np

    place = quantized(target)
    return lambda sums: place(real(sums, unit) / np.float32(count))


def _elements(source: Tensor, target: Tensor, windows: Windows, axis: int) -> Array:
    """Return how many elements along an axis of images each window holds."""
    import numpy as np

    first = np.arange(target.shape[1 + axis]) * windows.stride[axis] - windows.pads[axis]
    last = np.minimum(first + windows.size[axis], source.shape[1 + axis])
    return last - np.maximum(first, 0)
