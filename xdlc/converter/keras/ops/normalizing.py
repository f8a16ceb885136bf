"""Normalization layers, and preprocessing of numbers and categories."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xdlc.converter.keras.registry import (
    as_float,
    batched,
    const,
    handler,
    moved,
    number_of,
    only_input,
    required_weight,
    weight,
)
from xdlc.converter.nhwc.elementwise import bucketize, one_hot
from xdlc.converter.nhwc.reduce import l2_normalized, reduced
from xdlc.converter.nhwc.shapes import axis_of, cast, permuted, reshape, vector
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value
from xdlc.ir.dtype import INT32, INT64, DType


def _axes(node: Node, x: Value) -> list[int]:
    given = node.attr("axis", -1)
    found = given if isinstance(given, list) else [given]
    if not found or not all(type(axis) is int for axis in found):
        raise node.invalid(f"axis is {given!r:.40}")
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
        raise node.problem(f"axis {axes}: statistics along several axes are not supported")
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
        raise node.problem(f"axes {axes} must be the last ones: Keras scales other axes")
    x, back = moved(g, x, axes, range(first, x.rank))
    shape = x.shape[first:]
    if node.type == "RMSNormalization":
        scales, epsilon = [required_weight(node, "scale")], 1e-6
    else:
        scales, epsilon = [*_scales(node, g, math.prod(shape))], 1e-3
        if node.attr("rms_scaling", False):
            raise node.problem("rms_scaling, which Keras removed, is not supported", "use RMSNormalization")
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
        raise node.invalid(f"{groups} groups of {channels} channels along {axes}")
    given = {"num_groups": groups, "epsilon": float(number_of(node, "epsilon", 1e-3))}
    scales = _scales(node, g, channels)
    if x.rank > 2:
        return _cut(g, permuted(g, g("GroupNormalization", [x, *scales], **given), back), dtype)
    made = g("GroupNormalization", [g("Unsqueeze", [x, vector(g, [2])]), *scales], **given)
    return _cut(g, g("Squeeze", [made, vector(g, [2])]), dtype)


@handler("UnitNormalization")
def unit_normalization(node: Node, g: Operators) -> Value:
    """Divide by the root of the sum of squares along axes."""
    x = as_float(g, only_input(node))
    return l2_normalized(g, x, _axes(node, x), 1e-24)


@handler("Rescaling")
def rescaling(node: Node, g: Operators) -> Value:
    """Apply x * scale + offset; both may be lists."""
    scale, offset = _numbers(node, "scale"), _numbers(node, "offset")
    x = g("Mul", [as_float(g, only_input(node)), const(g, scale)])
    return x if not np.any(offset) else g("Add", [x, const(g, offset)])


def _numbers(node: Node, name: str) -> Any:
    stated = node.attr(name, 0.0)
    if isinstance(stated, dict):  # an array of numpy
        config = stated.get("config")
        stated = config.get("value") if isinstance(config, dict) else None
    try:
        if not isinstance(stated, int | float | list | np.ndarray):
            raise TypeError("not a number")
        return np.asarray(stated, np.float32)
    except (TypeError, ValueError) as error:
        raise node.invalid(f"{name} is {stated!r:.60}, not numbers") from error


@handler("Normalization")
def normalization(node: Node, g: Operators) -> Value:
    """Apply (x - mean) / max(sqrt(variance), 1e-7), or its inverse."""
    x = as_float(g, only_input(node))
    given = node.attr("axis", -1)
    listed = given if isinstance(given, list) else [] if given is None else [given]
    axes = {axis_of(int(axis), x.rank) for axis in listed}
    shape = [x.shape[axis] if axis in axes else 1 for axis in range(x.rank)]

    def numbers(name: str) -> Any:
        held = weight(node, name)
        stored = _numbers(node, name) if held is None else held.numpy()
        return np.broadcast_to(stored.reshape(-1), shape) if stored.size == 1 else stored.reshape(shape)

    mean, spread = numbers("mean"), np.maximum(np.sqrt(numbers("variance")), np.float32(1e-7))
    node.attr("mean"), node.attr("variance")
    if node.attr("invert", False):
        return g("Add", [g("Mul", [x, const(g, spread)]), const(g, mean)])
    return g("Div", [g("Sub", [x, const(g, mean)]), const(g, spread)])


@handler("Discretization", ignores=("num_bins", "epsilon", "sparse"))
def discretization(node: Node, g: Operators) -> Value:
    """Return the number of boundaries at or below each element."""
    boundaries, mode = node.attr("bin_boundaries"), node.attr("output_mode", "int")
    if not isinstance(boundaries, list):
        raise node.invalid("has no bin_boundaries")
    found = bucketize(g, as_float(g, only_input(node)), [float(each) for each in boundaries])
    return cast(g, found, INT64) if mode == "int" else _encoded(node, g, found, len(boundaries) + 1, mode)


@handler("CategoryEncoding", ignores=("sparse",))
def category_encoding(node: Node, g: Operators) -> Value:
    """Return categories as vectors."""
    count, mode = int(number_of(node, "num_tokens")), node.attr("output_mode", "multi_hot")
    return _encoded(node, g, cast(g, only_input(node), INT32), count, mode)


def _encoded(node: Node, g: Operators, x: Value, count: int, mode: Any) -> Value:
    if mode not in ("one_hot", "multi_hot", "count"):
        raise node.problem(f"output_mode {mode!r:.40}")
    if mode == "one_hot" and x.rank > 1 and x.shape[-1] == 1:
        x = batched(g, x, x.shape[1:-1])
    made = one_hot(g, x, count, const(g, 1), const(g, 0), -1)
    if mode == "one_hot":
        return made
    # Keras reduces the second axis of any rank.
    return reduced(g, "Max" if mode == "multi_hot" else "Sum", made, [min(1, x.rank - 1)], keep=False)
