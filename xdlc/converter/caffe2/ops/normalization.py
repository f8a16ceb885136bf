"""Handlers of normalizations, softmax and slopes per channel."""

from __future__ import annotations

import math

import numpy as np

from xdlc.converter.caffe2.ops.shapes import flattened
from xdlc.converter.caffe2.registry import (
    flag,
    integer,
    is_channel_last,
    number,
    operator,
    planes,
    stored,
    vectors,
    wants,
)
from xdlc.converter.functions.elementwise import div_no_nan, rsqrt, square
from xdlc.converter.functions.reduce import moments, reduced
from xdlc.converter.functions.shapes import channel_first, channel_last, dims, reshape
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import ANY, CHANNEL_LAST
from xdlc.converter.values import Value


def channels(node: Node, x: Value) -> int:
    """Return the number of channels of a value in the node's storage order.

    Raises:
        ModelError: If it has none.
    """
    if x.rank < 2:
        raise node.invalid(f"an input of shape {list(x.shape)} has no channels")
    (count,) = dims(x, [-1 if is_channel_last(node) else 1])
    return count


@operator("SpatialBN", layout=CHANNEL_LAST, ignores=("momentum", "num_batches"))
def _spatial_bn(
    node: Node, g: Operators, x: Value, scale: Value, bias: Value, mean: Value, variance: Value, *_: Value
) -> Value:
    if not flag(node, "is_test"):
        raise node.problem(
            "is_test is not set, but xdlc does not support batch statistics",
            "export the net for inference, with is_test 1",
        )
    given = vectors(node, channels(node, x), scale=scale, bias=bias, mean=mean, variance=variance)
    epsilon = number(node, "epsilon", 1e-5)
    return stored(node, g, g("BatchNormalization", [planes(node, g, x), *given], epsilon=epsilon))


@operator("LRN", layout=CHANNEL_LAST)
def _lrn(node: Node, g: Operators, x: Value) -> list[Value]:
    """Return x / scale^beta, and scale: bias + alpha / size * sum of squares."""
    size = integer(node, "size", 0)
    if x.rank != 4 or size < 1 or size % 2 == 0:
        raise node.invalid(f"the input needs rank 4 and size must be odd, but they are {x.rank} and {size}")
    alpha, beta, bias = (number(node, *each) for each in (("alpha", 0.0), ("beta", 0.0), ("bias", 1.0)))
    x = planes(node, g, x)
    results = [g("LRN", [x], size=size, alpha=alpha, beta=beta, bias=bias)]
    if wants(node, 1):
        lying = channel_last(g, square(g, x))
        shape = dims(lying)
        flat = reshape(g, lying, (math.prod(shape[:3]), 1, shape[3]))
        mean = g("AveragePool", [flat], kernel_shape=[size], pads=[size // 2] * 2, count_include_pad=1)
        share = g("Mul", [channel_first(g, reshape(g, mean, shape)), alpha])
        results.append(g("Add", [share, bias]))
    return [stored(node, g, value) for value in results]


@operator("Softmax", "LogSoftmax")
def _softmax(node: Node, g: Operators, x: Value) -> Value:
    """Return the softmax over all axes from ``axis`` on together."""
    axis, shape = node.axis(integer(node, "axis", 1), x.rank), dims(x)
    wide = [place for place in range(axis, x.rank) if shape[place] != 1]
    if len(wide) <= 1:
        return g(node.type, [x], axis=wide[0] if wide else axis)
    return reshape(g, g(node.type, [flattened(g, x, axis)], axis=1), shape)


@operator("InstanceNorm", "GroupNorm", layout=CHANNEL_LAST)
def _group_norm(node: Node, g: Operators, x: Value, scale: Value, bias: Value) -> list[Value]:
    """Return x normalized in groups; means and 1 / deviations [N, groups] if read."""
    count, epsilon = channels(node, x), number(node, "epsilon", 1e-5)
    groups = count if node.type == "InstanceNorm" else integer(node, "group", 32, 1)
    if x.rank < 3 or count % groups:
        raise node.invalid(f"the channels of an input {list(x.shape)} cannot form {groups} equal groups")
    x, given = planes(node, g, x), vectors(node, count, scale=scale, bias=bias)
    if groups == count:
        made = g("InstanceNormalization", [x, *given], epsilon=epsilon)
    else:
        made = g("GroupNormalization", [x, *given], num_groups=groups, epsilon=epsilon)
    results = [stored(node, g, made)]
    if wants(node, 1, 2):
        shape = dims(x)
        mean, variance = moments(g, reshape(g, x, (shape[0], groups, math.prod(shape[1:]) // groups)), [2])
        results += [mean, rsqrt(g, g("Add", [variance, epsilon]))]
    return results


@operator("LayerNorm")
def _layer_norm(node: Node, g: Operators) -> list[Value]:
    """Return x normalized from axis on; mean and deviation [..., 1] if read."""
    count = 3 if flag(node, "elementwise_affine") else 1
    x, *weights = node.operands(count, count)
    axis, epsilon, shape = node.axis(integer(node, "axis", 1), x.rank), number(node, "epsilon", 1e-5), dims(x)
    inner = shape[axis:]
    if any(value.shape != inner for value in weights):
        raise node.invalid(
            f"scale and bias {[list(value.shape) for value in weights]} do not fit {list(inner)}"
        )
    if not weights:
        g.builder.check_table(*inner)
        weights = [g.builder.const(np.full(inner, fill, x.dtype.numpy)) for fill in (1, 0)]
    results = [g("LayerNormalization", [x, *weights], axis=axis, epsilon=epsilon)]
    if wants(node, 1, 2):
        mean, variance = moments(g, x, range(axis, x.rank))
        deviation = g("Sqrt", [g("Add", [variance, epsilon])])
        results += [reshape(g, value, (*shape[:axis], 1)) for value in (mean, deviation)]
    return results


@operator("Normalize", "NormalizeL1", layout=ANY)
def _normalize(node: Node, g: Operators, x: Value) -> Value:
    """Return x over its norm along an axis: max(L2, 1e-12), or L1 where that is not 0."""
    axis = node.axis(integer(node, "axis", -1), x.rank)
    if node.type == "NormalizeL1":
        return div_no_nan(g, x, reduced(g, "L1", x, [axis], keep=True))
    norm = reduced(g, "L2", x, [axis], keep=True)
    return g("Div", [x, g("Max", [norm, 1e-12])])


def _along_channels(node: Node, g: Operators, x: Value, **values: Value) -> list[Value]:
    """Return per-channel inputs in a shape that broadcasts with the node's layout."""
    count, inner = channels(node, x), 0 if is_channel_last(node) else x.rank - 2
    return [reshape(g, each, (count, *(1,) * inner)) for each in vectors(node, count, **values)]


@operator("AffineChannel", layout=ANY)
def _affine_channel(node: Node, g: Operators, x: Value, scale: Value, bias: Value) -> Value:
    scale, bias = _along_channels(node, g, x, scale=scale, bias=bias)
    return g("Add", [g("Mul", [x, scale]), bias])


@operator("PRelu", layout=ANY)
def _prelu(node: Node, g: Operators, x: Value, slope: Value) -> Value:
    if slope.size == 1:
        return g("PRelu", [x, reshape(g, slope, (1,) * x.rank)])
    return g("PRelu", [x, *_along_channels(node, g, x, slope=slope)])
