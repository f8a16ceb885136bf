"""Windows that slide over spatial axes: their number, their elements, and padding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from xdlc.converter.values import check_table
from xdlc.errors import ModelError
from xdlc.ir.data import Array
from xdlc.records import record

Sizes = Sequence[int]


@record(frozen=True)
class Window:
    """A sliding window over the spatial axes, in source order.

    Attributes:
        dilations: Distances between its elements.
        before: Padding before each axis.
        after: Padding after each axis.
        ceil: Whether the number of windows is rounded up.
    """

    kernel: Sizes
    strides: Sizes
    dilations: Sizes
    before: Sizes
    after: Sizes
    ceil: bool = False

    @property
    def rank(self) -> int:
        """Number of spatial axes."""
        return len(self.kernel)

    @property
    def reaches(self) -> list[int]:
        """Elements from the first to the last one of a window, by axis."""
        return [gap * (size - 1) + 1 for gap, size in zip(self.dilations, self.kernel, strict=True)]

    def lifted(self) -> Window:
        """Return the window with a leading axis of size 1, which makes it two-dimensional."""
        return Window(
            (1, *self.kernel),
            (1, *self.strides),
            (1, *self.dilations),
            (0, *self.before),
            (0, *self.after),
            self.ceil,
        )

    def counts(self, sizes: Sizes) -> tuple[int, ...]:
        """Return the number of windows by axis, as ONNX defines it.

        Raises:
            ModelError: If a stride or the window is empty.
        """
        reaches = self.reaches
        if min((*self.strides, *reaches), default=1) < 1:
            raise ModelError(f"a window {list(self.kernel)} with strides {list(self.strides)} is invalid")
        counts = []
        for axis, (size, reach) in enumerate(zip(sizes, reaches, strict=True)):
            room = size + self.before[axis] + self.after[axis] - reach
            steps = -(-room // self.strides[axis]) if self.ceil else room // self.strides[axis]
            if self.ceil and steps * self.strides[axis] >= size + self.before[axis]:
                steps -= 1  # the last window must start inside the data or the padding before them
            counts.append(steps + 1)
        return tuple(counts)

    def spread(self, sizes: Sizes, extra: Sizes) -> tuple[int, ...]:
        """Return the sizes of the result of a transposed convolution."""
        pads = map(sum, zip(self.before, self.after, strict=True))
        columns = zip(sizes, self.strides, self.reaches, extra, pads, strict=True)
        return tuple((size - 1) * step + reach + more - pad for size, step, reach, more, pad in columns)

    def rounded_down(self, sizes: Sizes) -> Window:
        """Return an equivalent window that rounds down: overhang becomes padding."""
        after = []
        for axis, (count, reach) in enumerate(zip(self.counts(sizes), self.reaches, strict=True)):
            end = (count - 1) * self.strides[axis] + reach
            after.append(max(self.after[axis], end - sizes[axis] - self.before[axis]))
        return replace(self, after=tuple(after), ceil=False)

    def positions(self, sizes: Sizes) -> list[Array]:
        """Return positions by axis, [elements, windows]; padding is out of range."""
        return [
            np.arange(self.kernel[axis])[:, None] * self.dilations[axis]
            + np.arange(count) * self.strides[axis]
            - self.before[axis]
            for axis, count in enumerate(self.counts(sizes))
        ]

    def filled(self, sizes: Sizes, *, counts_padding: bool) -> Array:
        """Return the number of elements in each window, without any overhang.

        Args:
            counts_padding: Whether padding counts.

        Returns:
            int64[windows of each axis...].
        """
        whole = np.ones((), np.int64)
        for axis, count in enumerate(self.counts(sizes)):
            start, gap = np.arange(count) * self.strides[axis] - self.before[axis], self.dilations[axis]
            end = sizes[axis] + (self.after[axis] if counts_padding else 0)
            first, last = 0 if counts_padding else -(start // gap), -((start - end) // gap)
            inside = np.clip(last, 0, self.kernel[axis]) - np.clip(first, 0, self.kernel[axis])
            whole = np.multiply.outer(whole, inside)
        return whole

    def flat_positions(self, sizes: Sizes) -> Array:
        """Return flat positions of elements, [elements, windows]; -1 denotes padding.

        Raises:
            ModelError: If there is no window.
            UnsupportedOp: If there are too many.
        """
        counts = self.counts(sizes)
        if min(counts, default=1) < 1:
            raise ModelError(f"a window {list(self.kernel)} is larger than the padded input {list(sizes)}")
        check_table(math.prod(counts), math.prod(self.kernel))
        return flat(self.positions(sizes), sizes)

    def positions_back(self, sizes: Sizes, counts: Sizes) -> Array:
        """Return flat positions of the elements that a transposed convolution adds up.

        Args:
            counts: Sizes of its result.

        Returns:
            [elements of the window, elements of the result]; -1 denotes none.

        Raises:
            ModelError: If the result has no element.
            UnsupportedOp: If there are too many.
        """
        if min((*self.strides, *self.reaches, *counts), default=1) < 1:
            raise ModelError(f"a window {list(self.kernel)} with strides {list(self.strides)} is invalid")
        check_table(math.prod(counts), math.prod(self.kernel))
        axes = []
        for axis, count in enumerate(counts):
            taps = np.arange(self.kernel[axis])[:, None] * self.dilations[axis]
            places = np.arange(count) + self.before[axis] - taps
            axes.append(np.where(places % self.strides[axis], -1, places // self.strides[axis]))
        return flat(axes, sizes)


def flat(axes: Sequence[Array], sizes: Sizes) -> Array:
    """Return flat positions [elements, windows]; -1 denotes padding."""
    rank = len(axes)
    check_table(*(axis.size for axis in axes))
    whole, outside = np.zeros([1] * (2 * rank), np.int64), np.zeros([1] * (2 * rank), np.bool_)
    for index, (axis, size) in enumerate(zip(axes, sizes, strict=True)):
        form = [1] * (2 * rank)
        form[index], form[rank + index] = axis.shape
        whole = whole * size + axis.reshape(form)
        outside = outside | ((axis < 0) | (axis >= size)).reshape(form)
    return np.where(outside, -1, whole).reshape(math.prod(len(axis) for axis in axes), -1)


def same_padding(size: int, stride: int, reach: int) -> tuple[int, int]:
    """Return padding for ceil(size / stride) windows; the larger half is after."""
    total = max(0, (-(-size // stride) - 1) * stride + reach - size)
    return total // 2, total - total // 2


def adaptive(size: int, count: int) -> tuple[Array, Array]:
    """Return starts and ends of ``count`` windows that cover an axis evenly."""
    check_table(size, max(count, 1))
    index = np.arange(count)
    return index * size // count, -(-(index + 1) * size // count)
