"""Operators of one input that QNN has as one operation of ElementWiseUnary."""

from __future__ import annotations

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops import _compose
from xdlc.converter.operators.registry import ANY, Node, importer
from xdlc.converter.values import Value
from xdlc.opdefs import elementwise_enums

_OPERATIONS = {
    "Abs": elementwise_enums.ABS,
    "Asin": elementwise_enums.ASIN,
    "Atan": elementwise_enums.ATAN,
    "Ceil": elementwise_enums.CEIL,
    "Cos": elementwise_enums.COS,
    "Exp": elementwise_enums.EXP,
    "Floor": elementwise_enums.FLOOR,
    "Log": elementwise_enums.LOG,
    "Neg": elementwise_enums.NEG,
    "Not": elementwise_enums.NOT,
    "Round": elementwise_enums.ROUND,
    "Sign": elementwise_enums.SIGN,
    "Sin": elementwise_enums.SIN,
    "Sqrt": elementwise_enums.SQRT,
}


@importer(*_OPERATIONS, layout=ANY, dynamic=True)
def unary(node: Node, b: Builder) -> Value:
    """Map onto ElementWiseUnary."""
    return _compose.unary(b, _OPERATIONS[node.type], node.required(0))
