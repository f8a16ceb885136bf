"""Operators of one input that QNN has as one operation of ElementWiseUnary."""

from __future__ import annotations

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.onnx.registry import ANY, Node, importer
from xdlc.converter.values import Value

_OPERATIONS = {
    "Abs": 0,
    "Asin": 1,
    "Atan": 2,
    "Ceil": 3,
    "Cos": 4,
    "Exp": 5,
    "Floor": 6,
    "Log": 7,
    "Neg": 8,
    "Not": 9,
    "Round": 11,
    "Sign": 13,
    "Sin": 14,
    "Sqrt": 15,
}


@importer(*_OPERATIONS, layout=ANY, dynamic=True)
def unary(node: Node, b: Builder) -> Value:
    """Map onto ElementWiseUnary."""
    return b.unary("ElementWiseUnary", node.required(0), {"operation": ir.u32(_OPERATIONS[node.type])})
