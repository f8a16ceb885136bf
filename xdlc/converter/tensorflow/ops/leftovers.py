"""Handlers of operators without effect at inference: their first input passes."""

from __future__ import annotations

from xdlc.converter.operators.applying import Operators
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


@handler("Const")
def _string(node: Node, _g: Operators) -> Value:
    raise node.problem(
        "holds strings, resources or other things that a DLC cannot",
        "begin the graph at tensors of numbers: --input_dim NODE DIMS",
    )
