"""Handlers of convolutions, and of windows as columns or tables of positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xdlc.converter.nhwc.shapes import dims, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops._shapes import batched, spread, unbatched
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import CHANNEL_LAST
from xdlc.converter.values import Value, check_table
from xdlc.errors import ModelError
from xdlc.ir.data import Array

Numbers = Sequence[int]


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows over spatial axes.

    Attributes:
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
                raise ModelError(f"a window {list(self.kernel)} with strides {list(self.strides)} is invalid")
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


_FORWARD = """
    conv1d conv2d conv3d convolution convolution_overrideable _convolution _convolution_mode thnn_conv2d
    slow_conv3d slow_conv_dilated2d slow_conv_dilated3d _conv_depthwise2d conv_depthwise3d
"""
_TRANSPOSED = "conv_transpose1d conv_transpose2d conv_transpose3d slow_conv_transpose2d slow_conv_transpose3d"


@aten(
    *f"{_FORWARD} {_TRANSPOSED}".split(),
    layout=CHANNEL_LAST,
    ignores=("benchmark", "deterministic", "cudnn_enabled", "allow_tf32", "kernel_size"),
    names={"self": "input"},
)
def _convolution(
    node: AtenNode,
    g: Operators,
    input: Value,
    weight: Value,
    bias: Value | None,
    stride: Numbers,
    padding: Numbers | str,
    dilation: Numbers = (1,),
    groups: int = 1,
    transposed: bool = False,
    output_padding: Numbers = (0,),
) -> Value:
    rank, transposed = weight.rank - 2, transposed or "transpose" in node.type
    steps, gaps, extra = (spread(each, rank) for each in (stride, dilation, output_padding))
    if padding == "same":
        reach = [gap * (width - 1) for gap, width in zip(gaps, dims(weight)[2:], strict=True)]
        before, after = [size // 2 for size in reach], [size - size // 2 for size in reach]
    elif isinstance(padding, str) and padding != "valid":
        raise node.invalid(f"padding {padding!r} is unknown")
    else:
        before = after = spread(0 if isinstance(padding, str) else padding, rank)
    x = batched(g, input, weight.rank)
    if "depthwise" in node.type:
        groups = dims(x)[1]
    if not x.dtype.is_float:
        windows = Windows(dims(weight)[2:], steps, before, after, gaps, backward=transposed, extra=extra)
        return unbatched(g, _whole_numbers(node, g, x, weight, bias, windows, groups), input)
    operands = [weight, bias] if bias is not None else [weight]
    common: dict[str, Any] = {"strides": steps, "dilations": gaps, "group": groups}
    if not transposed:
        return unbatched(g, g("Conv", [x, *operands], pads=[*before, *after], **common), input)
    after, longer = list(after), [0] * rank
    for axis, (more, step) in enumerate(zip(extra, steps, strict=True)):
        if more >= step:  # possible with dilations: less is cut off, of a longer input if needed
            longer[axis] = max(0, -(-(more - after[axis]) // step))
            extra[axis], after[axis] = 0, after[axis] - more + longer[axis] * step
    if any(longer):
        x = g("Pad", [x, vector(g, [0] * (rank + 4) + longer)])
    pads = [*before, *after]
    made = g("ConvTranspose", [x, *operands], pads=pads, output_padding=extra, **common)
    return unbatched(g, made, input)


def _whole_numbers(
    node: AtenNode, g: Operators, x: Value, weight: Value, bias: Value | None, windows: Windows, groups: int
) -> Value:
    """Return the convolution of integers as a matrix product, which is exact.

    Args:
        x: [N, C, spatial...].
        weight: [O, C / groups, kernel...]; of a transposed convolution [C, O / groups, kernel...].
        bias: [O], or None.
    """
    batch, channels, *sizes = dims(x)
    first, second, *kernel = dims(weight)
    if groups < 1 or channels % groups or first % groups:
        raise node.invalid(
            f"an input of {channels} channels does not fit weights {list(weight.shape)} in {groups} groups"
        )
    places, count, inner = windows.places(sizes), math.prod(kernel), channels // groups
    read = reshape(g, taken(g, x, places), (batch, groups, inner * count, places.shape[1]))
    apart = reshape(g, weight, (groups, first // groups, second, count))
    apart = g("Transpose", [apart], perm=[0, 2, 1, 3]) if windows.backward else apart
    units = apart.shape[1]
    made = g("MatMul", [reshape(g, apart, (groups, units, inner * count)), read])
    made = reshape(g, made, (batch, groups * units, *windows.counts(sizes)))
    if bias is None:
        return made
    return g("Add", [made, reshape(g, bias, (groups * units, *[1] * len(kernel)))])


@aten("conv_tbc")
def _conv_tbc(node: AtenNode, g: Operators, self: Value, weight: Value, bias: Value, pad: int) -> Value:
    x = g("Transpose", [self], perm=[1, 2, 0])
    made = g("Conv", [x, g("Transpose", [weight], perm=[2, 1, 0]), bias], pads=[pad, pad])
    return g("Transpose", [made], perm=[2, 0, 1])


@aten("im2col")
def _im2col(
    node: AtenNode,
    g: Operators,
    self: Value,
    kernel_size: Numbers,
    dilation: Numbers,
    padding: Numbers,
    stride: Numbers,
) -> Value:
    kernel, gaps, pads, steps = (spread(each, 2) for each in (kernel_size, dilation, padding, stride))
    x = batched(g, self, 4)
    batch, channels, *sizes = dims(x)
    places = Windows(kernel, steps, pads, pads, gaps).places(sizes)
    shape = (batch, channels * len(places), places.shape[1])
    return unbatched(g, reshape(g, taken(g, x, places), shape), self, 3)


@aten("col2im")
def _col2im(
    node: AtenNode,
    g: Operators,
    self: Value,
    output_size: Numbers,
    kernel_size: Numbers,
    dilation: Numbers,
    padding: Numbers,
    stride: Numbers,
) -> Value:
    steps, gaps, pads = (spread(each, 2) for each in (stride, dilation, padding))
    sizes = vector(g, output_size), vector(g, spread(kernel_size, 2))
    made = g("Col2Im", [batched(g, self, 3), *sizes], strides=steps, dilations=gaps, pads=pads * 2)
    return unbatched(g, made, self, 2)
