"""Handlers of operators that return their inputs at inference."""

from __future__ import annotations

from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.registry import handler
from xdlc.converter.values import Value


@handler(
    "Identity",
    "StopGradient",
    "PreventGradient",
    "CheckNumerics",
    "CheckNumericsV2",
    "Snapshot",
    "EnsureShape",
    "Print",
    "PlaceholderWithDefault",
    "ReadVariableOp",
    ignores=("message", "shape", "dtype", "first_n", "summarize", "U"),
)
def _first_input(node: Node, _g: Operators) -> Value:
    return node.required(0)


@handler("IdentityN")
def _all_inputs(node: Node, _g: Operators) -> list[Value]:
    return [node.required(index) for index in range(len(node.names))]
