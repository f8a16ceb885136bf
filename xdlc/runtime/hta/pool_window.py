"""Windows of pools."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from xdlc.runtime.hta.registry import CALL, Step

Array = Any  # numpy.ndarray
_MOST = 1 << 16
MOST_TAPS = 1 << 14
"""Most elements of a window."""


@dataclass(frozen=True, slots=True)
class PoolWindow:
    """How the window of a pool slides; pairs are of rows and columns.

    Attributes:
        size: Extents of the window.
        stride: Steps from one result to the next.
        start: Padding before the first row and column.
        padded: Rows and columns with all padding that windows reach.
        reach: Rows and columns of results.
    """

    size: tuple[int, int]
    stride: tuple[int, int]
    start: tuple[int, int]
    padded: tuple[int, int]
    reach: tuple[int, int]

    def buffer(self, source: Array, fill: int, dtype: Any) -> tuple[Array, Array]:
        """Return an array for the padded input, full of ``fill``, and the part of it for the input itself."""
        import numpy as np

        images, rows, columns, channels = source.shape
        held = np.full((images, *self.padded, channels), fill, dtype)
        top, left = self.start
        return held, held[:, top : top + rows, left : left + columns]

    def parts(self, held: Array) -> Iterator[Array]:
        """Give for each place in the window what lies there, for all results; row by row."""
        (down, right), (rows, columns) = self.stride, self.reach
        for top in range(self.size[0]):
            for left in range(self.size[1]):
                yield held[
                    :,
                    top : top + down * (rows - 1) + 1 : down,
                    left : left + right * (columns - 1) + 1 : right,
                ]


def window_of(step: Step) -> PoolWindow:
    """Return the window that settings ``size``, ``stride`` and ``start`` give.

    Raises:
        ContainerError: If they are missing or out of range, a window lies wholly in the padding, or the
            buffers are no images of as many channels.
    """
    step.ports(1)
    (source,), (target,) = step.inputs, step.outputs
    if source.ndim != 4 or target.ndim != 4 or source.shape[::3] != target.shape[::3]:
        step.fail(f"pools {list(source.shape)} to {list(target.shape)}")
    size, stride = (step.numbers(name, 2, 1, _MOST) for name in ("size", "stride"))
    start = step.numbers("start", 2, 0, _MOST)
    if size[0] * size[1] > MOST_TAPS:
        step.fail(f"has windows of {size[0]} x {size[1]}, the most are {MOST_TAPS} elements")
    padded = []
    for axis in range(2):
        extent, results = source.shape[1 + axis], target.shape[1 + axis]
        last = (results - 1) * stride[axis]
        if start[axis] >= size[axis] or last >= extent + start[axis] or not results:
            step.fail(f"has windows along axis {1 + axis} that hold nothing of the input")
        padded.append(max(last + size[axis], start[axis] + extent))
    places = size[0] * size[1]
    around = source.shape[0] * padded[0] * padded[1] * source.shape[3]
    step.takes(work=around + places * (target.size + CALL), scratch=8 * around)
    return PoolWindow(
        (size[0], size[1]),
        (stride[0], stride[1]),
        (start[0], start[1]),
        (padded[0], padded[1]),
        (target.shape[1], target.shape[2]),
    )
