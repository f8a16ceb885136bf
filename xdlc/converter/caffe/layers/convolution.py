"""Convolutions, transposed ones, and the columns of their windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from xdlc.converter.caffe.params import MANY, Params, bottoms, misfit, params, weights
from xdlc.converter.caffe.registry import layer
from xdlc.converter.nhwc.shapes import dims, reshape
from xdlc.converter.operators.applying import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import CHANNEL_LAST
from xdlc.converter.values import Value, check_table
from xdlc.ir.data import Array

_DEPTHWISE = ("DepthwiseConvolution", "ConvolutionDepthwise")


class _Window(NamedTuple):
    """The window of a convolution, one number for each spatial axis."""

    kernel: list[int]
    strides: list[int]
    pads: list[int]
    dilations: list[int]

    def attributes(self, spatial: Sequence[int] = ()) -> dict[str, list[int]]:
        """Return the attributes of canonical operators, without the kernel.

        A window that is larger than the padded data by less than the stride is at one place, where zeros
        follow the data, as Caffe divides integers; only convolutions have such, for which ``spatial`` is
        given.
        """
        ends = list(self.pads)
        for axis, size in enumerate(spatial):
            over = self._reach(axis) - size - 2 * self.pads[axis]
            ends[axis] += over if 0 < over < self.strides[axis] else 0
        return {"strides": self.strides, "dilations": self.dilations, "pads": [*self.pads, *ends]}

    def sizes(self, spatial: Sequence[int], *, is_transposed: bool) -> list[int]:
        """Return the output sizes, as Caffe's conv_layer.cpp and deconv_layer.cpp compute them."""
        found = []
        for axis, (size, stride, pad) in enumerate(zip(spatial, self.strides, self.pads, strict=True)):
            if is_transposed:
                found.append(stride * (size - 1) + self._reach(axis) - 2 * pad)
            else:
                found.append(int((size + 2 * pad - self._reach(axis)) / stride) + 1)
        return found

    def _reach(self, axis: int) -> int:
        return self.dilations[axis] * (self.kernel[axis] - 1) + 1


@layer("Convolution", "Deconvolution", *_DEPTHWISE, layout=CHANNEL_LAST)
def convolution(node: Node, g: Operators) -> list[Value]:
    """Convolve every bottom with the same weights, over up to three axes after the channels.

    Weights are [outputs, channels / group, kernel...], those of Deconvolution [channels, outputs / group,
    kernel...].  The layers of forks for depthwise convolutions have a group per channel.
    """
    p, is_transposed = params(node, "convolution_param"), node.type == "Deconvolution"
    outputs, bias_term = p.integer("num_output", least=1), p.flag("bias_term", True)
    images, axis, window = _operands(node, p, is_transposed=is_transposed)
    channels = images[0].shape[axis]
    group = p.integer("group", channels if node.type in _DEPTHWISE else 1, least=1)
    if channels % group or outputs % group or (node.type in _DEPTHWISE and group != channels):
        problem = f"group {group} does not fit {channels} channels and num_output {outputs}"
        raise misfit(problem)
    rows, columns = (channels, outputs) if is_transposed else (outputs, channels)
    shapes = [[rows, columns // group, *window.kernel], *([[outputs]] if bias_term else [])]
    operands = _weights(node, g, p, shapes)
    type, given = "ConvTranspose", window.attributes()
    if not is_transposed:
        type, given = "Conv", window.attributes(images[0].shape[axis + 1 :])
    return _mapped(g, images, axis, lambda x: g(type, [x, *operands], group=group, **given))


@layer("Im2col", layout=CHANNEL_LAST)
def im2col(node: Node, g: Operators) -> list[Value]:
    """Return what each element of the window meets, as channels: element k of channel c is c * size + k."""
    images, axis, window = _operands(node, params(node, "convolution_param"))
    channels, size = images[0].shape[axis], math.prod(window.kernel)
    check_table(channels, size, size)
    table = np.tile(np.eye(size, dtype=np.float32), (channels, 1)).reshape(-1, 1, *window.kernel)
    weight, given = g.builder.const(table), window.attributes(images[0].shape[axis + 1 :])
    return _mapped(g, images, axis, lambda x: g("Conv", [x, weight], group=channels, **given))


def _operands(node: Node, p: Params, *, is_transposed: bool = False) -> tuple[list[Value], int, _Window]:
    """Return the bottoms, the axis of their channels, and the window over the axes after it.

    Raises:
        ModelError: If they do not fit; without spatial axes there is a window of one axis of size 1.
    """
    images = bottoms(node, 1, MANY)
    shape = dims(images[0])
    for image in images:
        if image.shape != shape:
            problem = f"bottoms of shapes {list(shape)} and {list(image.shape)}, which have to be one"
            raise misfit(problem)
    if len(node.outputs) != len(images):
        raise misfit(f"has {len(images)} bottoms and {len(node.outputs)} tops")
    axis = node.axis(p.integer("axis", 1), len(shape))
    spatial = list(shape[axis + 1 :]) or [1]
    window = _Window(
        p.sizes("kernel_size", len(spatial), 0, least=1, h_and_w="kernel"),
        p.sizes("stride", len(spatial), 1, least=1),
        p.sizes("pad", len(spatial), 0),
        p.sizes("dilation", len(spatial), 1, least=1),
    )
    if 0 in window.kernel:
        raise misfit("states no kernel_size")
    if min(window.sizes(spatial, is_transposed=is_transposed)) < 1:
        problem = f"the window {window.kernel} (padding {window.pads}, dilation {window.dilations})"
        raise misfit(f"{problem} does not fit the size {spatial}")
    return images, axis, window


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
