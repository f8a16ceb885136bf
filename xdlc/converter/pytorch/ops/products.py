"""Handlers of matrix products."""

from __future__ import annotations

from xdlc.converter.nhwc.products import dense
from xdlc.converter.operators.applying import Operators
from xdlc.converter.pytorch.registry import AtenNode, aten
from xdlc.converter.values import Value


@aten("linear")
def _linear(node: AtenNode, g: Operators, input: Value, weight: Value, bias: Value | None) -> Value:
    return dense(g, input, g("Transpose", [weight], perm=[1, 0]), bias)
