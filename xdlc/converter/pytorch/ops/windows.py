"""Handlers of convolutions, and of windows as columns or tables of positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xdlc.converter.functions.shapes import dims, reshape, vector
from xdlc.converter.functions.sliding import Window
from xdlc.converter.functions.windows import taken
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.pytorch.ops._shapes import batched, spread, unbatched
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import CHANNEL_LAST
from xdlc.converter.values import Value

Numbers = Sequence[int]


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
        view = Window(dims(weight)[2:], steps, gaps, before, after)
        back = extra if transposed else None
        return unbatched(g, _whole_numbers(node, g, x, weight, bias, view, groups, back), input)
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
        x = g("Pad", [x, [0] * (rank + 4) + longer])
    pads = [*before, *after]
    made = g("ConvTranspose", [x, *operands], pads=pads, output_padding=extra, **common)
    return unbatched(g, made, input)


def _whole_numbers(
    node: AtenNode,
    g: Operators,
    x: Value,
    weight: Value,
    bias: Value | None,
    view: Window,
    groups: int,
    back: Numbers | None,
) -> Value:
    """Return the convolution of integers as a matrix product, which is exact.

    Args:
        x: [N, C, spatial...].
        weight: [O, C / groups, kernel...]; of a transposed convolution [C, O / groups, kernel...].
        bias: [O], or None.
        back: Elements that a transposed convolution adds to the end of each axis; None for another.
    """
    batch, channels, *sizes = dims(x)
    first, second, *kernel = dims(weight)
    if groups < 1 or channels % groups or first % groups:
        raise node.invalid(
            f"an input of {channels} channels does not fit weights {list(weight.shape)} in {groups} groups"
        )
    counts = view.counts(sizes) if back is None else view.spread(sizes, back)
    places = view.flat_positions(sizes) if back is None else view.positions_back(sizes, counts)
    count, inner = math.prod(kernel), channels // groups
    read = reshape(g, taken(g, x, places), (batch, groups, inner * count, places.shape[1]))
    apart = reshape(g, weight, (groups, first // groups, second, count))
    apart = g("Transpose", [apart], perm=[0, 2, 1, 3]) if back is not None else apart
    units = apart.shape[1]
    made = g("MatMul", [reshape(g, apart, (groups, units, inner * count)), read])
    made = reshape(g, made, (batch, groups * units, *counts))
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
    places = Window(kernel, steps, gaps, pads, pads).flat_positions(sizes)
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
