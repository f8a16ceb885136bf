"""Handlers of operators that work element by element."""

from __future__ import annotations

from xdlc.converter.operators.applying import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.registry import handler
from xdlc.converter.values import Value

_SAME = {"Add": "Add", "AddV2": "Add", "Abs": "Abs", "Mul": "Mul", "Relu": "Relu", "Sub": "Sub"}
"""Canonical operators of those that are the same."""


@handler(*_SAME)
def _same(node: Node, g: Operators) -> Value:
    return g(_SAME[node.type], node.inputs)
