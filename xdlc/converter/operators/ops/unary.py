"""Operators of one input that QNN has as one operation of ElementWiseUnary."""

from __future__ import annotations

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops import _compose
from xdlc.converter.operators.registry import ANY, Node, importer
from xdlc.converter.values import Value
from xdlc.opdefs import operations

_OPERATIONS = {
    "Abs": operations.ABS,
    "Asin": operations.ASIN,
    "Atan": operations.ATAN,
    "Ceil": operations.CEIL,
    "Cos": operations.COS,
    "Exp": operations.EXP,
    "Floor": operations.FLOOR,
    "Log": operations.LOG,
    "Neg": operations.NEG,
    "Not": operations.NOT,
    "Round": operations.ROUND,
    "Sign": operations.SIGN,
    "Sin": operations.SIN,
    "Sqrt": operations.SQRT,
}


@importer(*_OPERATIONS, layout=ANY, dynamic=True)
def unary(node: Node, b: Builder) -> Value:
    """Map onto ElementWiseUnary."""
    return _compose.unary(b, _OPERATIONS[node.type], node.required(0))
