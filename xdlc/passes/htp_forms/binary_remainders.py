"""Remainders and rounded quotients of floats."""

from __future__ import annotations

from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import BOOL8
from xdlc.opdefs.elementwise_enums import (
    ABS,
    ADD,
    AND,
    DIVIDE,
    FLOOR,
    FLOOR_DIV,
    FMOD,
    GREATER_EQUAL,
    LESS,
    MOD,
    MULTIPLY,
    NEG,
    NOT_EQUAL,
    ROUND,
    SUBTRACT,
    XOR,
)
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import MISSING, form

_SPLIT = 65.0
"""2^6 + 1: the high part of a product by it has 11 - 6 bits."""


@form("ElementWiseBinary", reason=MISSING)
def _remainders(w: Writer, op: Op, source: Tensor) -> bool:
    """Subtract multiples of the divisor; one more or less where the rounded quotient is off."""
    operation, divisor = op.param("operation"), op.inputs[1]
    if operation not in (FLOOR_DIV, FMOD, MOD) or divisor is None or not source.dtype.is_float:
        return False
    zero = w.number(0.0, source.dtype)
    size, part = w.unary(ABS, source), w.unary(ABS, divisor)
    count = w.unary(FLOOR, w.binary(DIVIDE, size, part))
    high = _high_bits(w, part)
    low = w.binary(SUBTRACT, part, high)
    rest = w.binary(SUBTRACT, size, w.binary(MULTIPLY, count, high))
    rest = w.binary(SUBTRACT, rest, w.binary(MULTIPLY, count, low))
    less, more = w.binary(ADD, rest, part), w.binary(SUBTRACT, rest, part)
    rest = w.select(
        w.binary(LESS, rest, zero, BOOL8),
        less,
        w.select(w.binary(GREATER_EQUAL, rest, part, BOOL8), more, rest),
    )
    rest = w.select(w.binary(LESS, source, zero, BOOL8), w.unary(NEG, rest), rest)
    if operation != FMOD:
        signs = [w.binary(LESS, each, zero, BOOL8) for each in (rest, divisor)]
        turned = w.binary(XOR, signs[0], signs[1])
        turned = w.binary(AND, turned, w.binary(NOT_EQUAL, rest, zero, BOOL8))
        rest = w.select(turned, w.binary(ADD, rest, divisor), rest)
    if operation == FLOOR_DIV:
        rest = w.unary(ROUND, w.binary(DIVIDE, w.binary(SUBTRACT, source, rest), divisor))
    w.finish(rest)
    return True


def _high_bits(w: Writer, x: Tensor) -> Tensor:
    """Return floats rounded to 5 of their 11 bits (Veltkamp), so that products by few bits are exact."""
    wide = w.binary(MULTIPLY, x, w.number(_SPLIT, x.dtype))
    return w.binary(SUBTRACT, wide, w.binary(SUBTRACT, wide, x))
