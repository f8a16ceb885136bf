"""Functions of angles that QNN does not have, written with those that it has."""

from __future__ import annotations

import math

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import number, unary
from xdlc.converter.operators.registry import ANY, Node, importer
from xdlc.converter.values import Value
from xdlc.opdefs.elementwise_enums import ADD, ASIN, COS, DIVIDE, EXP, NEG, SIN, SUBTRACT


@importer("Tan", since=7, layout=ANY, dynamic=True)
def tan(node: Node, b: Builder) -> Value:
    """Write sin(x) / cos(x)."""
    x = node.required(0)
    return b.binary(DIVIDE, unary(b, SIN, x), unary(b, COS, x))


@importer("Acos", since=7, layout=ANY, dynamic=True)
def acos(node: Node, b: Builder) -> Value:
    """Write pi / 2 - asin(x)."""
    x = node.required(0)
    return b.binary(SUBTRACT, number(b, x, math.pi / 2), unary(b, ASIN, x))


@importer("Cosh", since=9, layout=ANY, dynamic=True)
def cosh(node: Node, b: Builder) -> Value:
    """Write exp(x - log 2) + exp(-x - log 2), which overflows with the result only."""
    x = node.required(0)
    half = number(b, x, math.log(2))
    rising = unary(b, EXP, b.binary(SUBTRACT, x, half))
    falling = unary(b, EXP, b.binary(SUBTRACT, unary(b, NEG, x), half))
    return b.binary(ADD, rising, falling)
