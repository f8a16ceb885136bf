"""Products of matrices, attention, and what follows products in networks."""

from __future__ import annotations

import math

from fuzz.sweep.draft import Draft, family
from fuzz.sweep.families._activations import activation


@family("matmul")
def matmul(d: Draft) -> None:
    """Draw a MatMul of two inputs, or an input and weights, perhaps transposed."""
    rows, inner, columns = d.size(129), d.size(129), d.size(129)
    outer = d.pick((), (), (d.between(1, 4),), (1, d.between(1, 8)))
    x = d.input((*outer, rows, inner), -1, 1)
    if d.flag():
        d.node("MatMul", x, d.weight(inner, columns))
        return
    batch = tuple(size if d.flag(0.8) else 1 for size in outer)
    if d.flag(0.4):
        order = [*range(len(batch)), len(batch) + 1, len(batch)]
        y = d.node("Transpose", d.input((*batch, columns, inner), -1, 1), perm=order)
    else:
        y = d.input((*batch, inner, columns), -1, 1)
    d.node("MatMul", x, y)


@family("gemm")
def gemm(d: Draft) -> None:
    """Draw a Gemm with weights, followed by a neuron in some cases."""
    rows, inner, columns = d.size(129), d.size(257), d.size(257)
    turned = d.pick(0, 1)
    weight = d.weight(*((columns, inner) if turned else (inner, columns)))
    bias = [d.constant(d.floats([columns], -0.5, 0.5))] if d.flag(0.7) else []
    result = d.node("Gemm", d.input((rows, inner), -1, 1), weight, *bias, transB=turned)
    if d.flag(0.4):
        activation(d, result)


@family("attention")
def attention(d: Draft) -> None:
    """Draw attention of some heads, with or without a mask."""
    heads, rows, width = d.between(1, 4), d.size(33), d.size(65)
    query, key, value = (d.input((1, heads, rows, width), -1, 1) for _ in range(3))
    scores = d.node("MatMul", query, d.node("Transpose", key, perm=[0, 1, 3, 2]))
    scores = d.node("Mul", scores, d.constant(1 / math.sqrt(width)))
    if d.flag(0.3):
        scores = d.node("Add", scores, d.input((1, 1, rows, rows), -1, 0))
    d.node("MatMul", d.node("Softmax", scores, axis=-1), value)


@family("block")
def block(d: Draft) -> None:
    """Draw what networks join: residuals, gates, pads and resizes before convolutions."""
    channels = d.size(65)
    x = d.input((1, channels, d.between(3, 9), d.between(3, 9)))
    weight = d.weight(channels, channels, 3, 3)
    kind = d.pick("residual", "gate", "pad", "norm")
    if kind == "gate":
        mean = d.node("GlobalAveragePool", x)
        d.node("Mul", x, d.node("Sigmoid", d.node("Conv", mean, d.weight(channels, channels, 1, 1))))
        return
    if kind == "pad":
        amounts = d.indices(0, 0, 1, 1, 0, 0, 1, 1)
        d.node("Conv", d.node("Pad", x, amounts, mode=d.pick("constant", "reflect", "edge")), weight)
        return
    result = d.node("Conv", x, weight, pads=[1] * 4)
    if kind == "residual":
        d.node("Relu", d.node("Add", result, x))
    else:
        scales = [d.constant(d.floats([channels], 0.5, 1.5)) for _ in range(2)]
        d.node("InstanceNormalization", result, *scales, epsilon=1e-2)


@family("recurrence")
def recurrence(d: Draft) -> None:
    """Draw an LSTM or GRU over a few steps."""
    type = d.pick("LSTM", "GRU")
    gates, hidden, width, steps = {"LSTM": 4, "GRU": 3}[type], d.size(17), d.size(33), d.between(1, 6)
    direction = d.pick("forward", "reverse", "bidirectional")
    ways = 2 if direction == "bidirectional" else 1
    attributes = {"hidden_size": hidden, "direction": direction}
    if type == "GRU":
        attributes["linear_before_reset"] = d.pick(0, 1)
    weights = d.weight(ways, gates * hidden, width), d.weight(ways, gates * hidden, hidden)
    d.several(type, [d.input((steps, 1, width), -1, 1), *weights], 2, **attributes)
