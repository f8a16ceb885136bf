"""Handlers of normalizations and softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xdlc.converter.caffe.registry import bottoms, layer, misfit, params, weights
from xdlc.converter.functions.reduce import reduced
from xdlc.converter.functions.shapes import number, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import CHANNEL_LAST
from xdlc.converter.values import Value

_NEGLIGIBLE = 1e-8  # next to deviations and norms of data of float32


@layer("BatchNorm", layout=CHANNEL_LAST, ignores=("batch_norm_param.moving_average_fraction",))
def batch_norm(node: Node, g: Operators) -> Value:
    """Normalize channels by stored sums and their weight, or by batch statistics.

    The weight 0 makes both 0 (Caffe's batch_norm_layer.cpp).
    """
    (x,), p = bottoms(node, 1), params(node, "batch_norm_param")
    epsilon, shape = p.number("eps", 1e-5), x.shape
    images = x if len(shape) > 1 else reshape(g, x, (x.size, 1))
    if not p.flag("use_global_stats", True):
        return reshape(g, _normalized(g, images, epsilon), shape)
    channels = images.shape[1]
    *sums, weight = weights(node, g, [channels], [channels], [1])
    total = float(weight.numpy().reshape(-1)[0])
    share = np.float32(1 / total if total else 0)
    statistics = [g.builder.const(value.numpy() * share) for value in sums]
    operands = [images, *_plain(g, channels), *statistics]
    return reshape(g, g("BatchNormalization", operands, epsilon=epsilon), shape)


@layer("BN", layout=CHANNEL_LAST, ignores=("bn_param.momentum", "bn_param.frozen"))
def bn(node: Node, g: Operators) -> Value:
    """Apply forks' batch normalization: factors, terms and optional statistics.

    The two alone are SegNet's, whose ``bn_mode`` LEARN takes the statistics of the batch at inference too.
    """
    (x,), p = bottoms(node, 1), params(node, "bn_param")
    mode = p.word("bn_mode", {"LEARN": 0, "INFERENCE": 1}, "INFERENCE")
    if x.rank < 2:
        raise misfit(f"the layer needs channels (axis 1), but its bottom has {x.rank} axes")
    channels, count = x.shape[1], 2 if p.has("bn_mode") or node.message.blobs == 2 else 4
    factor, term, *statistics = weights(node, g, *[[channels]] * count)
    if statistics:
        return g("BatchNormalization", [x, factor, term, *statistics], epsilon=p.number("eps", 1e-5))
    x = x if mode == "INFERENCE" else _normalized(g, x, 1e-9)
    factor, term = (reshape(g, each, (channels, *[1] * (x.rank - 2))) for each in (factor, term))
    return g("Add", [g("Mul", [x, factor]), term])


def _plain(g: Operators, channels: int) -> list[Value]:
    """Return neutral factors and terms."""
    g.builder.check_table(2, channels)
    return [g.builder.const(np.full(channels, value, np.float32)) for value in (1, 0)]


def _normalized(g: Operators, x: Value, epsilon: float) -> Value:
    """Return ``x`` with mean 0 and variance 1 in each channel of the batch."""
    centred, variance = _centred(g, x, [axis for axis in range(x.rank) if axis != 1])
    return g("Div", [centred, g("Sqrt", [g("Add", [variance, epsilon])])])


def _centred(g: Operators, x: Value, axes: Sequence[int]) -> tuple[Value, Value]:
    """Return ``x`` less its mean along axes, and its variance."""
    centred = g("Sub", [x, reduced(g, "Mean", x, axes, keep=True)])
    return centred, reduced(g, "Mean", g("Mul", [centred, centred]), axes, keep=True)


@layer("LRN", layout=CHANNEL_LAST)
def lrn(node: Node, g: Operators) -> Value:
    """Divide by powers of sums of squares, of channels or of windows of planes.

    Within channels ``k`` is 1, and the window's mean counts the padding (Caffe's lrn_layer.cpp).
    """
    (x,), p = bottoms(node, 1, rank=4), params(node, "lrn_param")
    size, alpha, beta = p.integer("local_size", 5, least=1), p.number("alpha", 1.0), p.number("beta", 0.75)
    k = p.number("k", 1.0)
    if not size % 2:
        raise misfit(f"local_size must be odd, but is {size}")
    region = p.word("norm_region", {"ACROSS_CHANNELS": 0, "WITHIN_CHANNEL": 1}, "ACROSS_CHANNELS")
    if region == "ACROSS_CHANNELS":
        return g("LRN", [x], size=size, alpha=alpha, beta=beta, bias=k)
    given = {"kernel_shape": [size] * 2, "pads": [size // 2] * 4, "count_include_pad": 1}
    mean = g("AveragePool", [g("Mul", [x, x])], **given)
    base = g("Add", [g("Mul", [mean, alpha]), 1])
    return g("Mul", [x, g("Pow", [base, -beta])])


@layer("MVN", layout=CHANNEL_LAST)
def mean_variance(node: Node, g: Operators) -> Value:
    """Subtract means of planes or images; divide by deviations plus ``eps``.

    Fewer than four dimensions become four (Caffe's mvn_layer.cpp).
    """
    (x,), p = bottoms(node, 1), params(node, "mvn_param")
    x = reshape(g, x, (*x.shape, *[1] * (4 - x.rank)))
    epsilon, across = p.number("eps", 1e-9), p.flag("across_channels", False)
    divides, channels = p.flag("normalize_variance", True), x.shape[1]
    if divides and not across and 0 < epsilon <= _NEGLIGIBLE:
        return g("InstanceNormalization", [x, *_plain(g, channels)], epsilon=epsilon**2)
    centred, variance = _centred(g, x, range(1 if across else 2, x.rank))
    return g("Div", [centred, g("Add", [g("Sqrt", [variance]), epsilon])]) if divides else centred


@layer("Normalize", layout=CHANNEL_LAST)
def normalize(node: Node, g: Operators) -> Value:
    """Divide by the norm of a pixel's channels or an image; apply factors (SSD)."""
    (x,), p = bottoms(node, 1), params(node, "norm_param")
    across, is_shared = p.flag("across_spatial", True), p.flag("channel_shared", True)
    epsilon, shape = p.number("eps", 1e-10), x.shape
    if len(shape) < 2:
        raise misfit(f"the layer needs channels (axis 1), but its bottom has {len(shape)} axes")
    (factor,) = weights(node, g, [1] if is_shared else [shape[1]])
    if not across and epsilon > 0:  # added by a channel of its root, as sums of squares overflow half floats
        rest = [0] * (len(shape) - 2)
        wide = g("Pad", [x, [0, 0, *rest, 0, 1, *rest], number(g, x, math.sqrt(epsilon))])
        ends = (vector(g, [each]) for each in (0, shape[1], 1))
        x = g("Slice", [g("LpNormalization", [wide], axis=1, p=2), *ends])
    else:
        total = reduced(g, "Sum", g("Mul", [x, x]), range(1, len(shape)) if across else [1], keep=True)
        x = g("Div", [x, g("Sqrt", [g("Add", [total, epsilon])])])
    return g("Mul", [x, reshape(g, factor, (factor.size, *[1] * (len(shape) - 2)))])


@layer("Softmax")
def softmax(node: Node, g: Operators) -> Value:
    """Apply a softmax along one axis."""
    (x,) = bottoms(node, 1)
    return g("Softmax", [x], axis=node.axis(params(node, "softmax_param").integer("axis", 1), x.rank))
