"""Elementwise operators of TFLite that are one canonical operator."""

from __future__ import annotations

from xdlc.converter.operators.applying import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.tflite.registry import handler
from xdlc.converter.values import Value

_SAME = {
    "ABS": "Abs",
    "ADD": "Add",
    "CEIL": "Ceil",
    "COS": "Cos",
    "DIV": "Div",
    "EXP": "Exp",
    "FLOOR": "Floor",
    "LOG": "Log",
    "LOGISTIC": "Sigmoid",
    "MUL": "Mul",
    "NEG": "Neg",
    "RELU": "Relu",
    "SIN": "Sin",
    "SQRT": "Sqrt",
    "SUB": "Sub",
    "TANH": "Tanh",
}
"""Canonical operators by operator."""


@handler(*_SAME, ignores=("pot_scale_int16",))
def same(node: Node, g: Operators) -> Value:
    """Apply the canonical operator."""
    return g(_SAME[node.type], node.inputs)


@handler("QUANTIZE", "DEQUANTIZE")
def recode(node: Node, g: Operators) -> Value:
    """Return the values: encodings are treated around the handler."""
    value = node.required(0)
    return value if value.dtype.is_float and value.dtype.bits == 32 else g("Cast", [value], to=1)
