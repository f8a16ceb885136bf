"""Convolutions, transposed ones, and the columns of their windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xdlc.converter.caffe.params import MANY, Params, bottoms, misfit, params, weights
from xdlc.converter.caffe.registry import layer
from xdlc.converter.nhwc.shapes import reshape
from xdlc.converter.operators.applying import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import CHANNEL_LAST
from xdlc.converter.values import Value, check_table
from xdlc.ir.data import Array

_DEPTHWISE = ("DepthwiseConvolution", "ConvolutionDepthwise")


@layer("Convolution", "Deconvolution", *_DEPTHWISE, layout=CHANNEL_LAST)
def convolution(node: Node, g: Operators) -> list[Value]:
    """Convolve every bottom with the same weights, over up to three axes after the channels.

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
    """Return what each element of the window meets, as channels: element k of channel c is c * size + k."""
    images, axis, kernel, window = _operands(node, params(node, "convolution_param"))
    channels, size = images[0].shape[axis], math.prod(kernel)
    check_table(channels, size, size)
    table = np.tile(np.eye(size, dtype=np.float32), (channels, 1)).reshape(-1, 1, *kernel)
    weight = g.builder.const(table)
    return _mapped(g, images, axis, lambda x: g("Conv", [x, weight], group=channels, **window))


def _operands(
    node: Node, p: Params, *, is_transposed: bool = False
) -> tuple[list[Value], int, list[int], dict[str, list[int]]]:
    """Return the bottoms, the axis of their channels, the kernel, and the other attributes of the window.

    A window that is larger than the padded data by less than the stride is at one place, where zeros follow
    the data, as Caffe divides integers (conv_layer.cpp).

    Raises:
        ModelError: If they do not fit; without spatial axes there is a window of one axis of size 1.
    """
    images = bottoms(node, 1, MANY)
    shape = images[0].shape
    for image in images:
        if image.shape != shape:
            raise misfit(f"bottoms of shapes {list(shape)} and {list(image.shape)}, which have to be one")
    if len(node.outputs) != len(images):
        raise misfit(f"has {len(images)} bottoms and {len(node.outputs)} tops")
    axis = node.axis(p.integer("axis", 1), len(shape))
    spatial = shape[axis + 1 :] or (1,)
    kernel = p.sizes("kernel_size", len(spatial), 0, least=1, h_and_w="kernel")
    strides, dilations = (p.sizes(name, len(spatial), 1, least=1) for name in ("stride", "dilation"))
    pads = p.sizes("pad", len(spatial), 0)
    if 0 in kernel:
        raise misfit("states no kernel_size")
    ends = list(pads)
    for place, (size, stride, pad) in enumerate(zip(spatial, strides, pads, strict=True)):
        reach = dilations[place] * (kernel[place] - 1) + 1
        room = size + 2 * pad - reach
        if room <= -stride if not is_transposed else stride * (size - 1) + reach <= 2 * pad:
            window = f"the window {kernel} (padding {pads}, dilation {dilations})"
            raise misfit(f"{window} does not fit the size {list(spatial)}")
        if not is_transposed:
            ends[place] += max(0, -room)
    return images, axis, kernel, {"strides": strides, "dilations": dilations, "pads": [*pads, *ends]}


def _mapped(
    g: Operators, images: Sequence[Value], axis: int, function: Callable[[Value], Value]
) -> list[Value]:
    """Return the results of a function on [N, C, spatial...] for values with channels at any axis."""
    made = []
    for image in images:
        before, (channels, *spatial) = image.shape[:axis], image.shape[axis:]
        found = function(reshape(g, image, (math.prod(before), channels, *(spatial or [1]))))
        made.append(reshape(g, found, (*before, *found.shape[1 : len(spatial) + 2])))
    return made


def _weights(node: Node, g: Operators, p: Params, shapes: Sequence[Sequence[int]]) -> list[Value]:
    """Return the stored weights; where there are none, those of a bilinear filler, with a notice."""
    if node.message.blobs or p.text("weight_filler.type", "") != "bilinear":
        return weights(node, g, *shapes)
    shape = shapes[0]
    if len(shape) != 4 or shape[2] != shape[3]:
        raise misfit(f"a bilinear filler of weights {list(shape)}, which are no squares")
    if p.text("bias_filler.type", "constant") != "constant":
        return weights(node, g, *shapes)
    check_table(*shape)
    g.context.diagnostics.notices.append(
        f"{g.context.place(node)}: no weights are stored; those of its bilinear filler are used"
    )
    bias = np.float32(p.number("bias_filler.value", 0.0))
    arrays = [_bilinear(shape), *(np.full(each, bias) for each in shapes[1:])]
    return [g.builder.const(array) for array in arrays]


def _bilinear(shape: Sequence[int]) -> Array:
    """Return the weights that interpolate linearly, as the last version of Caffe's filler.hpp computes them.

    Earlier ones have the center (size - 1) / (2 factor), which differs where factor is odd or size is.
    """
    size = shape[-1]
    factor = -(-size // 2)
    line = 1 - np.abs(np.arange(size) / factor - (2 * factor - 1 - factor % 2) / (2 * factor))
    return np.broadcast_to(np.outer(line, line), shape).astype(np.float32)
