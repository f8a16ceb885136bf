"""Handlers of element-wise operators, with PyTorch's promotion of types."""

from __future__ import annotations

import numpy as np

from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.ops._forms import operand
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value

_UNARY = {
    "abs": "Abs",
    "ceil": "Ceil",
    "clone": "Identity",
    "contiguous": "Identity",
    "alias": "Identity",
    "detach": "Identity",
    "lift_fresh_copy": "Identity",
    "neg": "Neg",
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
}
"""Operators of one tensor, by name of ATen, with the canonical operator."""


@aten(*_UNARY, layout=ANY)
def _unary(node: AtenNode, g: Operators, self: Value) -> Value:
    return g(_UNARY[node.type], [self])


@aten("add", "sub", layout=ANY)
def _sum(node: AtenNode, g: Operators, self: Value, other: Value | float, alpha: float) -> Value:
    first, second = operand(node, g, self), operand(node, g, other)
    if alpha != 1:
        second = g("Mul", [second, g.builder.const(np.asarray(alpha, node.dtype.numpy))])
    return g("Add" if node.type.startswith("add") else "Sub", [first, second])


@aten("mul", layout=ANY)
def _product(node: AtenNode, g: Operators, self: Value, other: Value | float) -> Value:
    return g("Mul", [operand(node, g, self), operand(node, g, other)])
