"""Handlers of convolutions and pools."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xdlc.converter.caffe.registry import MANY, Params, bottoms, layer, misfit, params, weights
from xdlc.converter.functions.shapes import cast, reshape
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import CHANNEL_LAST
from xdlc.converter.values import Value
from xdlc.ir.data import Array
from xdlc.ir.dtype import FLOAT32, INT32

_DEPTHWISE = ("DepthwiseConvolution", "ConvolutionDepthwise")
_METHODS = {"MAX": 0, "AVE": 1, "STOCHASTIC": 2}


@layer("Convolution", "Deconvolution", *_DEPTHWISE, layout=CHANNEL_LAST)
def convolution(node: Node, g: Operators) -> list[Value]:
    """Convolve all bottoms with the same weights over up to three axes.

    Weights are [outputs, channels / group, kernel...], those of Deconvolution [channels, outputs / group,
    kernel...].  The layers of forks for depthwise convolutions have a group per channel.
    """
    p, is_transposed = params(node, "convolution_param"), node.type == "Deconvolution"
    outputs, bias_term = p.integer("num_output", least=1), p.flag("bias_term", True)
    images, axis, kernel, window = _operands(node, p, is_transposed=is_transposed)
    channels = images[0].shape[axis]
    group = p.integer("group", channels if node.type in _DEPTHWISE else 1, least=1)
    if channels % group or outputs % group or (node.type in _DEPTHWISE and group != channels):
        raise misfit(f"group {group} does not fit {channels} channels and num_output {outputs}")
    rows, columns = (channels, outputs) if is_transposed else (outputs, channels)
    shapes = [[rows, columns // group, *kernel], *([[outputs]] if bias_term else [])]
    operands, type = _weights(node, g, p, shapes), "ConvTranspose" if is_transposed else "Conv"
    return _mapped(g, images, axis, lambda x: g(type, [x, *operands], group=group, **window))


@layer("Im2col", layout=CHANNEL_LAST)
def im2col(node: Node, g: Operators) -> list[Value]:
    """Return window elements as channels: element k of channel c is c * size + k."""
    images, axis, kernel, window = _operands(node, params(node, "convolution_param"))
    channels, size = images[0].shape[axis], math.prod(kernel)
    g.builder.check_table(channels, size, size)
    table = np.tile(np.eye(size, dtype=np.float32), (channels, 1)).reshape(-1, 1, *kernel)
    weight = g.builder.const(table)
    return _mapped(g, images, axis, lambda x: g("Conv", [x, weight], group=channels, **window))


def _operands(
    node: Node, p: Params, *, is_transposed: bool = False
) -> tuple[list[Value], int, list[int], dict[str, list[int]]]:
    """Return bottoms, channel axis, kernel and the other attributes of a window.

    A window that is larger than the padded data by less than the stride is at one place, where zeros follow
    the data, as Caffe divides integers (conv_layer.cpp).

    Raises:
        ModelError: If they do not fit; without spatial axes there is a window of one axis of size 1.
    """
    images = bottoms(node, 1, MANY)
    shape = images[0].shape
    for image in images:
        if image.shape != shape:
            raise misfit(f"the bottoms must have one shape, but have {list(shape)} and {list(image.shape)}")
    if len(node.outputs) != len(images):
        raise misfit(
            f"the layer needs a top per bottom, but has {len(images)} bottoms and {len(node.outputs)} tops"
        )
    axis = node.axis(p.integer("axis", 1), len(shape))
    spatial = shape[axis + 1 :] or (1,)
    kernel = p.sizes("kernel_size", len(spatial), 0, least=1, h_and_w="kernel")
    strides, dilations = (p.sizes(name, len(spatial), 1, least=1) for name in ("stride", "dilation"))
    pads = p.sizes("pad", len(spatial), 0)
    if 0 in kernel:
        raise p.lacks("kernel_size")
    ends = list(pads)
    for place, (size, stride, pad) in enumerate(zip(spatial, strides, pads, strict=True)):
        reach = dilations[place] * (kernel[place] - 1) + 1
        room = size + 2 * pad - reach
        if room <= -stride if not is_transposed else stride * (size - 1) + reach <= 2 * pad:
            window = f"the window {kernel} (padding {pads}, dilation {dilations})"
            raise misfit(f"{window} does not fit the padded image of size {list(spatial)}")
        if not is_transposed:
            ends[place] += max(0, -room)
    return images, axis, kernel, {"strides": strides, "dilations": dilations, "pads": [*pads, *ends]}


def _mapped(
    g: Operators, images: Sequence[Value], axis: int, function: Callable[[Value], Value]
) -> list[Value]:
    """Apply a function of [N, C, spatial...] to values with channels at any axis."""
    results = []
    for image in images:
        before, (channels, *spatial) = image.shape[:axis], image.shape[axis:]
        result = function(reshape(g, image, (math.prod(before), channels, *(spatial or [1]))))
        results.append(reshape(g, result, (*before, *result.shape[1 : len(spatial) + 2])))
    return results


def _weights(node: Node, g: Operators, p: Params, shapes: Sequence[Sequence[int]]) -> list[Value]:
    """Return stored weights, else weights of a bilinear filler, with a notice."""
    if node.message.blobs or p.text("weight_filler.type", "") != "bilinear":
        return weights(node, g, *shapes)
    shape = shapes[0]
    if len(shape) != 4 or shape[2] != shape[3]:
        raise misfit(f"a bilinear filler requires square kernels, but the weights are {list(shape)}")
    if p.text("bias_filler.type", "constant") != "constant":
        return weights(node, g, *shapes)
    g.builder.check_table(*shape)
    g.context.diagnostics.notices.append(
        f"{g.context.place(node)}: the net has no weights, so xdlc uses its bilinear filler"
    )
    bias = np.float32(p.number("bias_filler.value", 0.0))
    arrays = [_bilinear(shape), *(np.full(each, bias) for each in shapes[1:])]
    return [g.builder.const(array) for array in arrays]


def _bilinear(shape: Sequence[int]) -> Array:
    """Return bilinear weights, as the last version of Caffe's filler.hpp.

    Earlier ones have the center (size - 1) / (2 factor), which differs where factor is odd or size is.
    """
    size = shape[-1]
    factor = -(-size // 2)
    line = 1 - np.abs(np.arange(size) / factor - (2 * factor - 1 - factor % 2) / (2 * factor))
    return np.broadcast_to(np.outer(line, line), shape).astype(np.float32)


# ------------------------------------------------------------------ pools


@layer("Pooling", layout=CHANNEL_LAST)
def pooling(node: Node, g: Operators) -> list[Value]:
    """Pool planes; a second top of MAX is the float index y * W + x of each maximum."""
    (x,), p = bottoms(node, 1, rank=4), params(node, "pooling_param")
    method = p.word("pool", _METHODS, "MAX")
    kernel = p.sizes("kernel_size", 2, 0, least=1, h_and_w="kernel")
    strides, pads = p.sizes("stride", 2, 1, least=1, both=True), p.sizes("pad", 2, 0, both=True)
    if p.has("ceil_mode") and p.has("round_mode"):
        raise misfit("the layer has round_mode and ceil_mode: remove one")
    rounds_up = p.word("round_mode", {"CEIL": 0, "FLOOR": 1}, "CEIL") == "CEIL" and p.flag("ceil_mode", True)
    if p.flag("global_pooling", False):
        if any(kernel) or strides != [1, 1] or pads != [0, 0]:
            raise misfit("the layer has global_pooling, so it may not have a kernel, a stride or padding")
        kernel = list(x.shape[2:])
    elif not all(kernel):
        raise p.lacks("kernel_size")
    count = len(node.outputs)
    if count > (2 if method == "MAX" else 1):
        raise misfit(f"pool {method} does not support {count} tops")
    return _pooled(g, x, method, [kernel, strides, pads], rounds_up=rounds_up, tops=count)


@layer("SPP", layout=CHANNEL_LAST)
def spatial_pyramid(node: Node, g: Operators) -> Value:
    """Pool planes into 1, 4, 16 ... bins; several levels are flattened and joined.

    Bins are ceil(size / bins) wide, with the padding as Caffe's spp_layer.cpp spreads it.
    """
    (x,), p = bottoms(node, 1, rank=4), params(node, "spp_param")
    method, height = p.word("pool", _METHODS, "MAX"), p.integer("pyramid_height", least=1)
    levels: list[Value] = []
    for level in range(height):
        kernel = [-(-size // 2**level) for size in x.shape[2:]]
        pads = [(wide * 2**level - size + 1) // 2 for wide, size in zip(kernel, x.shape[2:], strict=True)]
        levels += _pooled(g, x, method, [kernel, kernel, pads])
    if height == 1:
        return levels[0]
    return g("Concat", [g("Flatten", [each], axis=1) for each in levels], axis=1)


def _pooled(
    g: Operators, x: Value, method: str, window: Sequence[list[int]], *, rounds_up: bool = True, tops: int = 1
) -> list[Value]:
    """Return a pool as in Caffe's pooling_layer.cpp, and indices if requested.

    Padding counts in a mean, what hangs over the padding does not; it is never a maximum.

    Raises:
        ModelError: If a window is nowhere over the data.
    """
    kernel, strides, pads = window
    if any(pad >= wide for pad, wide in zip(pads, kernel, strict=True)):
        raise misfit(f"pad {pads} must be below the kernel size {kernel}")
    if method == "STOCHASTIC" and any(pads):
        raise misfit("pool STOCHASTIC does not support padding")
    for size, wide, stride, pad in zip(x.shape[2:], kernel, strides, pads, strict=True):
        room = size + 2 * pad - wide
        last = (-(-room // stride) if rounds_up else room // stride) * stride
        if last < 0 or (last >= size and not any(pads)):
            why = (
                "rounding up puts a window outside the data"
                if last > 0
                else "the window is larger than the image"
            )
            raise misfit(f"kernel {wide} and stride {stride} do not fit an image of size {size}: {why}")
    options = {"kernel_shape": kernel, "strides": strides, "pads": pads * 2, "ceil_mode": int(rounds_up)}
    if method == "AVE":
        return [g("AveragePool", [x], count_include_pad=1, **options)]
    if method == "STOCHASTIC":  # at inference the mean, weighted by the elements themselves
        total, squares = (g("AveragePool", [value], **options) for value in (x, g("Mul", [x, x])))
        empty = g("Equal", [total, 0])  # after a ReLU; HTP has no number small enough to add
        return [g("Div", [squares, g("Where", [empty, 1, total])])]
    if tops == 1:
        return [g("MaxPool", [x], **options)]
    most, where = g.apply("MaxPool", [x], options, 2)
    count, channels, height, width = x.shape
    g.builder.check_table(count, channels)
    planes = np.arange(count * channels, dtype=np.int32) * (height * width)
    first = g.builder.const(planes.reshape(count, channels, 1, 1))
    return [most, cast(g, g("Sub", [cast(g, where, INT32), first]), FLOAT32)]
