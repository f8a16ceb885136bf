"""Windows of convolutions: their settings, checked, and the image with its margin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from xdlc.runtime.hta.registry import CALL, Step

Array = Any  # numpy.ndarray

_LARGEST_STEP = 1 << 16
"""Largest stride, dilation and margin."""
_BLOCK = 1 << 20
"""Numbers that a block of windows should hold, so that it stays in the caches."""


@dataclass(frozen=True, slots=True)
class ConvWindow:
    """How the window of a convolution slides; pairs are of rows and columns.

    Attributes:
        taps: Extents of the window.
        stride: Steps between windows.
        dilation: Steps between taps.
        before: Rows and columns of the margin before the image.
        after: Those behind it.
    """

    taps: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    before: tuple[int, int]
    after: tuple[int, int]

    @property
    def reach(self) -> tuple[int, int]:
        """Extents from the first tap to the last."""
        rows, columns = (
            dilation * (taps - 1) + 1 for dilation, taps in zip(self.dilation, self.taps, strict=True)
        )
        return rows, columns

    def results(self, extents: tuple[int, int]) -> tuple[int, ...]:
        """Return the numbers of windows in an image."""
        return tuple(
            (extent + before + after - reach) // stride + 1
            for extent, before, after, reach, stride in zip(
                extents, self.before, self.after, self.reach, self.stride, strict=True
            )
        )

    def blocks(
        self, image: Array, rows: int, width: int, zero: int, kind: Any
    ) -> Iterator[tuple[int, Array]]:
        """Give the windows of an image block by block.

        Args:
            image: Rows, columns and channels.
            rows: Number of rows of windows.
            width: Numbers that a row of windows holds once it is taken apart.
            zero: What the margin holds.
            kind: Numpy type of the windows.

        Yields:
            The block's first row, and its windows: rows, columns, channels, and the taps' two axes; a view.
        """
        import numpy as np

        height = max(1, _BLOCK // width)
        for first in range(0, rows, height):
            count = min(height, rows - first)
            part = self._part(image, first, count, zero, kind)
            held = np.lib.stride_tricks.sliding_window_view(part, self.reach, (0, 1))
            held = held[:: self.stride[0], :: self.stride[1]]
            yield first, held[..., :: self.dilation[0], :: self.dilation[1]]

    def _part(self, image: Array, first: int, count: int, zero: int, kind: Any) -> Array:
        """Return the rows that some rows of windows need, with their margin."""
        import numpy as np

        top = first * self.stride[0] - self.before[0]
        needed = (count - 1) * self.stride[0] + self.reach[0]
        height, width, channels = image.shape
        start, stop = min(max(top, 0), height), min(max(top + needed, 0), height)
        if (top, needed) == (start, stop - start) and not (self.before[1] or self.after[1]):
            return image[start:stop].astype(kind)
        part = np.full((needed, width + self.before[1] + self.after[1], channels), zero, kind)
        part[start - top : stop - top, self.before[1] : self.before[1] + width] = image[start:stop]
        return part


def load(step: Step, taps: tuple[int, int], image: tuple[int, ...], results: tuple[int, ...]) -> ConvWindow:
    """Return the window of an instruction.

    Args:
        step: The instruction, with settings ``stride`` and ``dilation`` (rows, columns) and ``pads``
            (before and after the rows, before and after the columns).
        taps: Extents of the window.
        image: Shape of the input, [batch, rows, columns, channels].
        results: Shape of the output, likewise.

    Raises:
        ContainerError: If a setting is missing or out of range, or they do not fit together.
    """
    stride, dilation = (step.numbers(name, 2, 1, _LARGEST_STEP) for name in ("stride", "dilation"))
    top, bottom, left, right = step.numbers("pads", 4, 0, _LARGEST_STEP)
    held = ConvWindow(taps, _pair(stride), _pair(dilation), (top, left), (bottom, right))
    if image[0] != results[0] or held.results((image[1], image[2])) != results[1:3]:
        step.fail(f"does not make {list(results)} of {list(image)} with windows of {list(held.reach)}")
    row = results[2] * taps[0] * taps[1] * image[3]
    needed = held.reach[0] * (image[2] + left + right) * image[3]
    blocks = results[0] * (results[1] // max(1, _BLOCK // row) + 1)
    step.takes(work=blocks * needed + 16 * CALL * results[0], scratch=16 * max(row, needed, _BLOCK))
    return held


def _pair(values: tuple[int, ...]) -> tuple[int, int]:
    return values[0], values[1]
