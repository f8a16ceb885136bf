"""Windows as tables of positions, for integers and for columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xdlc.converter.nhwc.shapes import dims, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.values import Value, check_table
from xdlc.errors import ModelError
from xdlc.ir.data import Array

Numbers = Sequence[int]


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows over spatial axes.

    Attributes:
        kernel: Dimensions of a window.
        before: Padding before each axis.
        after: Padding after each axis.
        gaps: Distances between elements of a window.
        ceil: Whether the number of windows is rounded up.
        backward: Whether elements are spread into windows, as a transposed convolution does.
        extra: Elements that are added to the end of each axis then.
    """

    kernel: Numbers
    strides: Numbers
    before: Numbers
    after: Numbers
    gaps: Numbers
    ceil: bool = False
    backward: bool = False
    extra: Numbers = ()

    @property
    def attributes(self) -> dict[str, Any]:
        """The windows as ONNX's pools have them, without dilations."""
        pads = [*self.before, *self.after]
        given = {"kernel_shape": self.kernel, "strides": self.strides, "pads": pads}
        return {**given, "ceil_mode": int(self.ceil)}

    def counts(self, sizes: Numbers) -> list[int]:
        """Return the size of each axis of the result.

        Raises:
            ModelError: If there is no window.
        """
        counts = []
        for axis, size in enumerate(sizes):
            reach, step = self.gaps[axis] * (self.kernel[axis] - 1) + 1, self.strides[axis]
            if step < 1 or reach < 1:
                raise ModelError(f"a window {list(self.kernel)} with strides {list(self.strides)}")
            pads = self.before[axis] + self.after[axis]
            if self.backward:
                counts.append((size - 1) * step + reach - pads + self.extra[axis])
            else:
                room = size + pads - reach
                count = -(-room // step) if self.ceil else room // step
                if self.ceil and count * step >= size + self.before[axis]:
                    count -= 1  # the last window starts inside
                counts.append(count + 1)
        if min(counts, default=1) < 1:
            raise ModelError(f"a window {list(self.kernel)} is larger than the padded input {list(sizes)}")
        return counts

    def reach(self, sizes: Numbers) -> list[int]:
        """Return the padding after each axis that the last window needs."""
        ends = [
            (count - 1) * step + width
            for count, step, width in zip(self.counts(sizes), self.strides, self.kernel, strict=True)
        ]
        return [
            max(after, end - size - before)
            for after, end, size, before in zip(self.after, ends, sizes, self.before, strict=True)
        ]

    def places(self, sizes: Numbers) -> Array:
        """Return the flat positions of windows, [elements, windows]; -1 denotes padding."""
        counts = self.counts(sizes)
        check_table(math.prod(counts), math.prod(self.kernel))
        axes = []
        for axis, (size, count) in enumerate(zip(sizes, counts, strict=True)):
            taps = np.arange(self.kernel[axis])[:, None] * self.gaps[axis]
            out, step = np.arange(count), self.strides[axis]
            place = out * step + taps - self.before[axis]
            if self.backward:
                place = out + self.before[axis] - taps
                place = np.where(place % step, -1, place // step)
            axes.append(np.where(place < size, place, -1))
        return flat_places(axes, sizes)


def flat_places(axes: Sequence[Array], sizes: Numbers) -> Array:
    """Return flat positions [elements, windows] of positions by axis; < 0 is padding."""
    rank = len(axes)
    check_table(*(axis.size for axis in axes))
    flat, outside = np.zeros([1] * (2 * rank), np.int64), np.zeros([1] * (2 * rank), np.bool_)
    for index, (axis, size) in enumerate(zip(axes, sizes, strict=True)):
        form = [1] * (2 * rank)
        form[index], form[rank + index] = axis.shape
        flat, outside = flat * size + axis.reshape(form), outside | (axis < 0).reshape(form)
    return np.where(outside, -1, flat).reshape(math.prod(len(axis) for axis in axes), -1)


def taken(g: Operators, x: Value, places: Array, fill: float = 0) -> Value:
    """Return the elements of windows of [N, C, spatial...]: [N, C, elements, windows]."""
    batch, channels, *sizes = dims(x)
    count = math.prod(sizes)
    flat = reshape(g, x, (batch, channels, count))
    if (places < 0).any():
        edge = np.full((batch, channels, 1), fill, x.dtype.numpy)
        flat = g("Concat", [flat, g.builder.const(edge)], axis=2)
        places = np.where(places < 0, count, places)
    made = g("Gather", [flat, vector(g, places.reshape(-1))], axis=2)
    return reshape(g, made, (batch, channels, *places.shape))
