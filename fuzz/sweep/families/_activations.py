"""Activations as networks write them, whole or in parts."""

from __future__ import annotations

import math

from fuzz.sweep.draft import Draft

_WHOLE = (
    "Relu",
    "Sigmoid",
    "Tanh",
    "HardSwish",
    "LeakyRelu",
    "Elu",
    "Gelu",
    "Mish",
    "Softplus",
    "Softsign",
    "Exp",
)


def activation(d: Draft, x: str) -> None:
    """Add an activation of a tensor."""
    d.opset = 20
    kind = d.pick(*_WHOLE, "Clip", "swish", "swish", "mish", "gelu", "hard swish", "square", "prelu")
    if kind in _WHOLE:
        d.node(kind, x)
    elif kind == "Clip":
        d.node(kind, x, d.constant(0), d.constant(6))
    elif kind == "swish":
        d.node("Mul", x, d.node("Sigmoid", x))
    elif kind == "mish":
        d.node("Mul", x, d.node("Tanh", d.node("Softplus", x)))
    elif kind == "gelu":
        part = d.node("Add", d.node("Erf", d.node("Div", x, d.constant(math.sqrt(2)))), d.constant(1))
        d.node("Mul", d.node("Mul", x, part), d.constant(0.5))
    elif kind == "hard swish":
        part = d.node("Clip", d.node("Add", x, d.constant(3)), d.constant(0), d.constant(6))
        d.node("Div", d.node("Mul", x, part), d.constant(6))
    elif kind == "square":
        d.node("Mul", x, x)
    else:
        d.node("PRelu", x, d.constant(0.25))
