"""Handlers of convolutions, and of windows as columns."""

from __future__ import annotations

import math

from xdlc.converter.nhwc.shapes import dims, reshape, vector
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._forms import batched, spread, unbatched
from xdlc.converter.pytorch.ops._windows import Numbers, Windows, taken
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import CHANNEL_LAST
from xdlc.converter.values import Value


def _conv(
    node: AtenNode,
    g: Operators,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Numbers,
    padding: Numbers | str,
    dilation: Numbers,
    groups: int,
) -> Value:
    rank = weight.rank - 2
    gaps = spread(dilation, rank)
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise node.invalid(f"padding {padding!r} is unknown")
        reach = [gap * (width - 1) for gap, width in zip(gaps, dims(weight)[2:], strict=True)]
        total = reach if padding == "same" else [0] * rank
        pads = [*(size // 2 for size in total), *(size - size // 2 for size in total)]
    else:
        pads = spread(padding, rank) * 2
    planes = batched(g, x, weight.rank)
    if not x.dtype.is_float:
        kernel, (before, after) = dims(weight)[2:], (pads[:rank], pads[rank:])
        windows = Windows(kernel, spread(stride, rank), before, after, gaps)
        return unbatched(g, _whole_numbers(node, g, planes, weight, bias, windows, groups), x)
    operands = [planes, weight, bias] if bias is not None else [planes, weight]
    made = g("Conv", operands, strides=spread(stride, rank), pads=pads, dilations=gaps, group=groups)
    return unbatched(g, made, x)


def _whole_numbers(
    node: AtenNode,
    g: Operators,
    x: Value,
    weight: Value,
    bias: Value | None,
    windows: Windows,
    groups: int,
) -> Value:
    """Return the convolution of integers as a product, which is exact.

    Args:
        node: The node.
        g: The canonical operators.
        x: [N, C, spatial...].
        weight: [O, C / groups, kernel...]; of a transposed convolution [C, O / groups, kernel...].
        bias: [O], or None.
        windows: The windows.
        groups: Number of groups.
    """
    batch, channels, *sizes = dims(x)
    first, second, *kernel = dims(weight)
    if groups < 1 or channels % groups or first % groups:
        raise node.invalid(f"{channels} channels and weights {list(weight.shape)} in {groups} groups")
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


def _conv_transpose(
    node: AtenNode,
    g: Operators,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Numbers,
    padding: Numbers,
    output_padding: Numbers,
    groups: int,
    dilation: Numbers,
) -> Value:
    rank = weight.rank - 2
    planes = batched(g, x, weight.rank)
    steps, extra, before = spread(stride, rank), spread(output_padding, rank), spread(padding, rank)
    if not x.dtype.is_float:
        gaps, kernel = spread(dilation, rank), dims(weight)[2:]
        windows = Windows(kernel, steps, before, before, gaps, backward=True, extra=extra)
        return unbatched(g, _whole_numbers(node, g, planes, weight, bias, windows, groups), x)
    after, longer = list(before), [0] * rank
    for axis, (more, step) in enumerate(zip(extra, steps, strict=True)):
        if (
            more >= step
        ):  # possible with dilations: less is cut off, of a longer input where that is not enough
            longer[axis] = max(0, -(-(more - after[axis]) // step))
            extra[axis], after[axis] = 0, after[axis] - more + longer[axis] * step
    if any(longer):
        planes = g("Pad", [planes, vector(g, [0] * (rank + 4) + longer)])
    made = g(
        "ConvTranspose",
        [planes, weight, bias] if bias is not None else [planes, weight],
        strides=steps,
        pads=[*before, *after],
        output_padding=extra,
        dilations=spread(dilation, rank),
        group=groups,
    )
    return unbatched(g, made, x)


@aten("conv1d", "conv2d", "conv3d", "_convolution_mode", layout=CHANNEL_LAST)
def _conv_forward(
    node: AtenNode,
    g: Operators,
    input: Value,
    weight: Value,
    bias: Value | None,
    stride: Numbers,
    padding: Numbers | str,
    dilation: Numbers,
    groups: int,
) -> Value:
    return _conv(node, g, input, weight, bias, stride, padding, dilation, groups)


@aten("conv_transpose1d", "conv_transpose2d", "conv_transpose3d", layout=CHANNEL_LAST)
def _conv_backward(
    node: AtenNode,
    g: Operators,
    input: Value,
    weight: Value,
    bias: Value | None,
    stride: Numbers,
    padding: Numbers,
    output_padding: Numbers,
    groups: int,
    dilation: Numbers,
) -> Value:
    return _conv_transpose(node, g, input, weight, bias, stride, padding, output_padding, groups, dilation)


@aten(
    "convolution",
    "_convolution",
    "convolution_overrideable",
    layout=CHANNEL_LAST,
    ignores=("benchmark", "deterministic", "cudnn_enabled", "allow_tf32"),
)
def _convolution(
    node: AtenNode,
    g: Operators,
    input: Value,
    weight: Value,
    bias: Value | None,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers,
    transposed: bool,
    output_padding: Numbers,
    groups: int,
) -> Value:
    if transposed:
        return _conv_transpose(
            node, g, input, weight, bias, stride, padding, output_padding, groups, dilation
        )
    return _conv(node, g, input, weight, bias, stride, padding, dilation, groups)


@aten(
    "thnn_conv2d",
    "slow_conv3d",
    "slow_conv_dilated2d",
    "slow_conv_dilated3d",
    "_conv_depthwise2d",
    "conv_depthwise3d",
    layout=CHANNEL_LAST,
    ignores=("kernel_size",),
)
def _kernel_conv(
    node: AtenNode,
    g: Operators,
    self: Value,
    weight: Value,
    bias: Value | None,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers = (1,),
) -> Value:
    groups = self.shape[-weight.rank + 1] if "depthwise" in node.type else 1
    return _conv(node, g, self, weight, bias, stride, padding, dilation, groups)


@aten("slow_conv_transpose2d", "slow_conv_transpose3d", layout=CHANNEL_LAST, ignores=("kernel_size",))
def _kernel_conv_transpose(
    node: AtenNode,
    g: Operators,
    self: Value,
    weight: Value,
    bias: Value | None,
    stride: Numbers,
    padding: Numbers,
    output_padding: Numbers,
    dilation: Numbers,
) -> Value:
    return _conv_transpose(node, g, self, weight, bias, stride, padding, output_padding, 1, dilation)


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
    made = g(
        "Col2Im",
        [batched(g, self, 3), vector(g, output_size), vector(g, spread(kernel_size, 2))],
        strides=spread(stride, 2),
        dilations=spread(dilation, 2),
        pads=spread(padding, 2) * 2,
    )
    return unbatched(g, made, self, 2)
