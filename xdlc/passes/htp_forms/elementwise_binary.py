"""Remainders, comparisons with infinity and powers."""

from __future__ import annotations

import math

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import BOOL8, FLOAT16, UFIXED16
from xdlc.opdefs.elementwise_enums import (
    ABS,
    ADD,
    AND,
    DIVIDE,
    EQUAL,
    FLOOR,
    FLOOR_DIV,
    FMOD,
    GREATER,
    GREATER_EQUAL,
    LESS,
    LESS_EQUAL,
    MOD,
    MULTIPLY,
    NEG,
    NOT_EQUAL,
    POWER,
    ROUND,
    SUBTRACT,
    XOR,
)
from xdlc.passes._match import constant_number
from xdlc.passes._writing import Writer
from xdlc.passes.htp_forms.registry import MISSING, form

_SPLIT = 65.0
"""2^6 + 1: the high part of a product by it has 11 - 6 bits."""
_BY_LARGEST = {
    (EQUAL, math.inf): GREATER_EQUAL,
    (EQUAL, -math.inf): LESS_EQUAL,
    (GREATER, -math.inf): GREATER,
    (GREATER_EQUAL, math.inf): GREATER_EQUAL,
    (LESS, math.inf): LESS,
    (LESS_EQUAL, -math.inf): LESS_EQUAL,
    (NOT_EQUAL, math.inf): LESS,
    (NOT_EQUAL, -math.inf): GREATER,
}
_MIRRORED = {
    EQUAL: EQUAL,
    GREATER: LESS,
    GREATER_EQUAL: LESS_EQUAL,
    LESS: GREATER,
    LESS_EQUAL: GREATER_EQUAL,
    NOT_EQUAL: NOT_EQUAL,
}
_NEAR = 1e-4
"""By how much a quantized exponent may miss its integer."""


@form("ElementWiseBinary", reason=MISSING)
def _remainders(w: Writer, op: Op, source: Tensor) -> bool:
    """Subtract multiples of the divisor; correct the rounded quotient by one."""
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
    """Return floats rounded to 5 of their 11 bits (Veltkamp).

    Products of these by few bits are exact.
    """
    wide = w.binary(MULTIPLY, x, w.number(_SPLIT, x.dtype))
    return w.binary(SUBTRACT, wide, w.binary(SUBTRACT, wide, x))


@form("ElementWiseBinary")
def _infinite_limit(w: Writer, op: Op, source: Tensor) -> bool:
    """Compare with the largest float16, at which HTP saturates.

    A limit on the left moves to the right.
    """
    operation, limit = int(op.param("operation")), constant_number(op.inputs[1])
    if operation in _MIRRORED and source.data is not None and op.inputs[1] is not None:
        operation, limit, source = _MIRRORED[operation], constant_number(source), op.inputs[1]
    saturated = _BY_LARGEST.get((operation, 0.0 if limit is None else limit))
    if saturated is None or limit is None or not source.dtype.is_float:
        return False
    w.graph.set_inputs(op, [source, w.number(math.copysign(FLOAT16.largest, limit), source.dtype)])
    op.params["operation"] = ir.u32(saturated)
    return True


@form("ElementWiseBinary")
def _power_of_zero(w: Writer, op: Op, source: Tensor) -> bool:
    """Select 1 where the exponent is 0: HTP computes 0 of a base of 0."""
    exponent = op.inputs[1]
    if op.param("operation") != POWER or exponent is None or not source.dtype.is_float:
        return False
    result = op.outputs[0]
    if w.made(result) or (exponent.data is not None and exponent.numpy().all()):
        return False
    power = w.emit("ElementWiseBinary", [source, exponent], result.shape, op.params, result.dtype)
    is_zero = w.binary(EQUAL, exponent, w.number(0.0, exponent.dtype), BOOL8)
    w.finish(w.select(is_zero, w.number(1.0, result.dtype), power))
    return True


@form("ElementWiseBinary")
def _odd_power(w: Writer, op: Op, source: Tensor) -> bool:
    """Multiply 16 bits by their even power.

    HTP cuts values off that reach further below 0 than above.
    """
    exponent, result, encoding = op.inputs[1], op.outputs[0], source.encoding
    if op.param("operation") != POWER or {source.dtype, result.dtype} != {UFIXED16} or exponent is None:
        return False
    steps = exponent.encoding
    if exponent.data is None or exponent.size != 1 or not isinstance(steps, ir.ScaleOffset):
        return False
    stated = float((int(exponent.numpy().item()) + steps.offset) * steps.scale)
    even, most = round(stated) - 1, UFIXED16.limits[1]
    if abs(stated - even - 1) > _NEAR or even % 2 or even < 2 or not isinstance(encoding, ir.ScaleOffset):
        return False
    if most + 2 * encoding.offset >= 0 or result.shape != source.shape:
        return False
    name = w.graph.unique_name(f"{op.name}_even")
    code = numpy.full(exponent.shape, most, UFIXED16.numpy)
    by = w.graph.add_tensor(ir.static(name, code, UFIXED16, ir.ScaleOffset(even / most, 0)))
    whole = ir.ScaleOffset((-encoding.offset * encoding.scale) ** even / most, 0)
    power = w.emit(op.type, [source, by], source.shape, op.params, UFIXED16, whole)
    w.finish(w.binary(MULTIPLY, source, power, encoding=result.encoding))
    return True
