"""Operators of one input that QNN has as one operation of ElementWiseUnary."""

from __future__ import annotations

from xdlc.converter.builder import Builder
from xdlc.converter.onnx.ops import _compose
from xdlc.converter.onnx.registry import ANY, Node, importer
from xdlc.converter.values import Value

_OPERATIONS = {
    "Abs": _compose.ABS,
    "Asin": _compose.ASIN,
    "Atan": _compose.ATAN,
    "Ceil": _compose.CEIL,
    "Cos": _compose.COS,
    "Exp": _compose.EXP,
    "Floor": _compose.FLOOR,
    "Log": _compose.LOG,
    "Neg": _compose.NEG,
    "Not": _compose.NOT,
    "Round": _compose.ROUND,
    "Sign": _compose.SIGN,
    "Sin": _compose.SIN,
    "Sqrt": _compose.SQRT,
}


@importer(*_OPERATIONS, layout=ANY, dynamic=True)
def unary(node: Node, b: Builder) -> Value:
    """Map onto ElementWiseUnary."""
    return _compose.unary(b, _OPERATIONS[node.type], node.required(0))
