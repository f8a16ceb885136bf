"""Arc sines of floats."""

from __future__ import annotations

import math

from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import BOOL8
from xdlc.opdefs.elementwise_enums import ABS, ADD, ASIN, GREATER, LESS, MULTIPLY, NEG, SQRT, SUBTRACT
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import MISSING, form

_SERIES = (0.16668684, 0.07356909, 0.05898212)
"""Polynomial of x² that times x³ is asin(x) - x, within 6e-6 of asin(x) up to 0.5 (at Chebyshev nodes)."""


@form("ElementWiseUnary", reason=MISSING)
def _asin(w: Writer, op: Op, source: Tensor) -> bool:
    """Add a polynomial, of sqrt((1 - |x|) / 2) in the place of |x| above 0.5, where x itself is too steep."""
    if op.param("operation") != ASIN or not source.dtype.is_float:
        return False

    def number(value: float) -> Tensor:
        return w.number(value, source.dtype)

    size = w.unary(ABS, source)
    is_large = w.binary(GREATER, size, number(0.5), BOOL8)
    halved = w.binary(MULTIPLY, w.binary(SUBTRACT, number(1.0), size), number(0.5))
    root = w.unary(SQRT, halved)
    x, square = w.select(is_large, root, size), w.select(is_large, halved, w.binary(MULTIPLY, size, size))
    total = number(_SERIES[-1])
    for factor in _SERIES[-2::-1]:
        total = w.binary(ADD, w.binary(MULTIPLY, square, total), number(factor))
    arc = w.binary(ADD, x, w.binary(MULTIPLY, w.binary(MULTIPLY, x, square), total))
    far = w.binary(SUBTRACT, number(math.pi / 2), w.binary(ADD, arc, arc))
    arc = w.select(is_large, far, arc)
    w.finish(w.select(w.binary(LESS, source, number(0.0), BOOL8), w.unary(NEG, arc), arc))
    return True
