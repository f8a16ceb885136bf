"""Softmax and normalizations, whole and as exporters write them."""

from __future__ import annotations

import math

from fuzz.sweep.draft import Draft, Unfit, family


@family("softmax")
def softmax(d: Draft) -> None:
    """Draw a Softmax or LogSoftmax over an axis."""
    shape = d.ranked(1, 4)
    d.node(d.pick("Softmax", "LogSoftmax"), d.input(shape, -4, 4), axis=d.between(0, len(shape) - 1))


@family("layer_norm")
def layer_norm(d: Draft) -> None:
    """Draw a LayerNormalization over the last axes, or in parts."""
    shape = d.ranked(1, 4)
    axis = d.pick(len(shape) - 1, len(shape) - 1, d.between(0, len(shape) - 1))
    inner = shape[axis:]
    if math.prod(inner) < 2:
        raise Unfit
    gamma, beta = (d.constant(d.floats(inner, *bounds)) for bounds in ((0.5, 1.5), (-0.5, 0.5)))
    x = d.input(shape, -1, 2)
    if d.flag(0.7):
        d.node("LayerNormalization", x, gamma, beta, axis=axis, epsilon=1e-3)
        return
    axes = d.indices(*range(axis, len(shape)))
    less = d.node("Sub", x, d.node("ReduceMean", x, axes))
    square = d.node("Mul", less, less) if d.flag() else d.node("Pow", less, d.constant(2.0))
    spread = d.node("Sqrt", d.node("Add", d.node("ReduceMean", square, axes), d.constant(1e-3)))
    d.node("Add", d.node("Mul", d.node("Div", less, spread), gamma), beta)


@family("rms_norm")
def rms_norm(d: Draft) -> None:
    """Draw an RMSNormalization, or in parts."""
    shape = d.ranked(2, 4)
    if shape[-1] < 2:
        raise Unfit
    gamma, x = d.constant(d.floats(shape[-1:], 0.5, 1.5)), d.input(shape, -1, 2)
    if d.flag():
        d.opset = 23
        d.node("RMSNormalization", x, gamma, axis=-1, epsilon=1e-3)
        return
    square = d.node("Pow", x, d.constant(2.0)) if d.flag() else d.node("Mul", x, x)
    mean = d.node("ReduceMean", square, d.indices(-1))
    root = d.node("Sqrt", d.node("Add", mean, d.constant(1e-3)))
    scaled = d.node("Div", x, root) if d.flag() else d.node("Mul", x, d.node("Reciprocal", root))
    d.node("Mul", scaled, gamma)


@family("channel_norm")
def channel_norm(d: Draft) -> None:
    """Draw a normalization by channel or group, or across channels."""
    type = d.pick(
        "InstanceNormalization", "BatchNormalization", "GroupNormalization", "LRN", "LpNormalization"
    )
    shape = d.ranked(4 if type == "LRN" else 3, 4)
    channels = shape[1]
    x = d.input(shape, -1, 2)
    gamma, beta = (d.constant(d.floats([channels], *bounds)) for bounds in ((0.5, 1.5), (-0.5, 0.5)))
    if type == "LRN":
        d.node(type, x, size=d.pick(1, 3, 5), alpha=0.1, beta=0.75, bias=1.0)
    elif type == "LpNormalization":
        d.node(type, d.input(shape, 0.2, 2), axis=d.between(1, len(shape) - 1), p=2)
    elif type == "BatchNormalization":
        mean, spread = d.constant(d.floats([channels])), d.constant(d.floats([channels], 0.5, 2))
        d.node(type, x, gamma, beta, mean, spread)
    elif math.prod(shape[2:]) < 2:
        raise Unfit
    elif type == "GroupNormalization":
        d.opset = 21
        groups = d.pick(*[count for count in range(1, channels + 1) if channels % count == 0])
        d.node(type, x, gamma, beta, num_groups=groups, epsilon=1e-2)
    else:
        d.node(type, x, gamma, beta, epsilon=1e-2)
