"""Normalization layers."""

from __future__ import annotations

import math

import numpy as np

from xdlc.converter.functions.normalization import l2_normalized
from xdlc.converter.functions.shapes import axis_of, cast, permuted, reshape
from xdlc.converter.keras.registry import (
    as_float,
    const,
    handler,
    moved,
    number_of,
    only_input,
    required_weight,
    weight,
)
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value
from xdlc.ir.dtype import DType


def _axes(node: Node, x: Value) -> list[int]:
    given = node.attr("axis", -1)
    found = given if isinstance(given, list) else [given]
    if not found or not all(type(axis) is int for axis in found):
        raise node.invalid(f"the axis is not valid: {given!r:.40}")
    return sorted(axis_of(axis, x.rank) for axis in found)


def _scales(node: Node, g: Operators, count: int) -> tuple[Value, Value]:
    """Return gamma and beta; missing ones are ones and zeros."""
    node.attr("scale"), node.attr("center")
    gamma, beta = weight(node, "gamma"), weight(node, "beta")
    return gamma or const(g, np.ones(count)), beta or const(g, np.zeros(count))


@handler("BatchNormalization", ignores=("momentum", "renorm", "renorm_clipping", "renorm_momentum", "mask"))
def batch_normalization(node: Node, g: Operators) -> Value:
    """Normalize with stored statistics."""
    x = as_float(g, only_input(node))
    axes = _axes(node, x)
    if len(axes) != 1:
        raise node.problem(f"xdlc does not support statistics along several axes: {axes}")
    mean = required_weight(node, "moving_mean", 1)
    given = [*_scales(node, g, mean.size), mean, required_weight(node, "moving_variance", 1)]
    epsilon = float(number_of(node, "epsilon", 1e-3))
    x, back = moved(g, x, axes, [1])
    return permuted(g, g("BatchNormalization", [x, *given], epsilon=epsilon), back)


@handler("LayerNormalization", "RMSNormalization")
def layer_normalization(node: Node, g: Operators) -> Value:
    """Normalize along axes of each example; integer results are truncated."""
    dtype, x = only_input(node).dtype, as_float(g, only_input(node))
    axes, first = _axes(node, x), x.rank - len(_axes(node, x))
    if node.type == "RMSNormalization" and axes[0] != first:
        raise node.problem(f"axes {axes} must be the last axes of the input")
    x, back = moved(g, x, axes, range(first, x.rank))
    shape = x.shape[first:]
    if node.type == "RMSNormalization":
        scales, epsilon = [required_weight(node, "scale")], 1e-6
    else:
        scales, epsilon = [*_scales(node, g, math.prod(shape))], 1e-3
        if node.attr("rms_scaling", False):
            raise node.problem(
                "xdlc does not support rms_scaling, which Keras removed", "use the layer RMSNormalization"
            )
    operands = [x, *(part if part.shape == shape else reshape(g, part, shape) for part in scales)]
    epsilon = float(number_of(node, "epsilon", epsilon))
    type = "LayerNormalization" if len(scales) == 2 else "SimplifiedLayerNormalization"
    return _cut(g, permuted(g, g(type, operands, axis=first, epsilon=epsilon), back), dtype)


def _cut(g: Operators, normalized: Value, dtype: DType) -> Value:
    return normalized if dtype.is_float else as_float(g, cast(g, normalized, dtype))


@handler("GroupNormalization")
def group_normalization(node: Node, g: Operators) -> Value:
    """Normalize groups of channels of each example."""
    dtype, x = only_input(node).dtype, as_float(g, only_input(node))
    axes = _axes(node, x)
    x, back = moved(g, x, axes, [1])
    channels, groups = x.shape[1], int(number_of(node, "groups", 32))
    groups = channels if groups == -1 else groups
    if len(axes) != 1 or axes == [0] or groups < 1 or channels % groups:
        raise node.invalid(f"{groups} groups do not divide {channels} channels along {axes}")
    given = {"num_groups": groups, "epsilon": float(number_of(node, "epsilon", 1e-3))}
    scales = _scales(node, g, channels)
    if x.rank > 2:
        return _cut(g, permuted(g, g("GroupNormalization", [x, *scales], **given), back), dtype)
    made = g("GroupNormalization", [g("Unsqueeze", [x, [2]]), *scales], **given)
    return _cut(g, g("Squeeze", [made, [2]]), dtype)


@handler("UnitNormalization")
def unit_normalization(node: Node, g: Operators) -> Value:
    """Divide by the root of the sum of squares along axes."""
    x = as_float(g, only_input(node))
    return l2_normalized(g, x, _axes(node, x), 1e-24)
