"""Arc sines, logarithms, functions of large numbers, negatives, signs and Casts."""

from __future__ import annotations

import math

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import BOOL8, INT32, INT64, UFIXED16
from xdlc.opdefs.elementwise_enums import (
    ABS,
    ADD,
    ASIN,
    ATAN,
    EXP,
    GREATER,
    LESS,
    LOG,
    MAXIMUM,
    MINIMUM,
    MULTIPLY,
    NEG,
    SIGN,
    SQRT,
    SUBTRACT,
)
from xdlc.passes._writing import Writer
from xdlc.passes.avoid_faults import MISSING, form

_SERIES = (0.16668684, 0.07356909, 0.05898212)
"""Polynomial of x² that times x³ is asin(x) - x, within 6e-6 of asin(x) up to 0.5 (at Chebyshev nodes)."""
_LIMITS = {ATAN: (-16384.0, 16384.0), EXP: (-80.0, 88.0)}
"""Numbers whose results are in float16 those of all beyond them."""
_LEAST_STEP = 2.0**-14


@form("ElementWiseUnary", reason=MISSING)
def _arc_sine(w: Writer, op: Op, source: Tensor) -> bool:
    """Write an arc sine as a polynomial.

    Above 0.5, where x is too steep, it is one of sqrt((1 - |x|) / 2).
    """
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


@form("ElementWiseUnary")
def _large_numbers(w: Writer, op: Op, source: Tensor) -> bool:
    """Clip numbers from about 32000 on, of exponentials from about 88 on."""
    limits = _LIMITS.get(op.param("operation"))
    if limits is None or not source.dtype.is_float or w.is_clipped(source):
        return False
    w.graph.set_inputs(op, [w.clip(source, *limits)])
    return True


@form("ElementWiseUnary")
def _fine_logarithm(w: Writer, op: Op, source: Tensor) -> bool:
    """Compute a Log in steps of at least 2^-14.

    HTP outputs zeros for smaller steps.
    """
    result = op.outputs[0]
    encoding = result.encoding
    if (
        op.param("operation") != LOG
        or result.dtype is not UFIXED16
        or not isinstance(encoding, ir.ScaleOffset)
    ):
        return False
    if encoding.scale >= _LEAST_STEP:
        return False
    step = 1.01 * _LEAST_STEP
    coarse = ir.ScaleOffset(step, round(encoding.offset * encoding.scale / step))
    log = w.emit("ElementWiseUnary", [source], result.shape, op.params, result.dtype, coarse)
    w.finish(w.convert(log, result.dtype, encoding))
    return True


@form("Cast")
def _cast_to_64_bits(w: Writer, op: Op, source: Tensor) -> bool:
    """Cast to 32 bits first, then add 0.

    HTP merges both Casts into one that rounds without the sum.
    """
    if op.outputs[0].dtype is not INT64 or not _is_from_floats(source):
        return False
    short = w.cast(source, INT32)
    w.finish(w.cast(w.binary(ADD, short, w.number(0, INT32)), INT64))
    return True


def _is_from_floats(x: Tensor) -> bool:
    """Return whether a tensor is computed from floats by Casts and Reshapes."""
    while not x.dtype.is_float:
        before = x.producer
        if before is None or before.type not in ("Cast", "Reshape") or before.inputs[0] is None:
            return False
        x = before.inputs[0]
    return True


@form("ElementWiseUnary", reason=MISSING)
def _negatives_and_signs(w: Writer, op: Op, source: Tensor) -> bool:
    """Subtract from 0, or clip at -1 and 1."""
    operation = op.param("operation")
    if operation not in (NEG, SIGN) or not source.dtype.is_integer:
        return False
    if operation == NEG:
        w.finish(w.binary(SUBTRACT, w.number(0, source.dtype), source))
    else:
        least = w.binary(MINIMUM, source, w.number(1, source.dtype))
        signed = source.dtype.is_signed
        w.finish(w.binary(MAXIMUM, least, w.number(-1, source.dtype)) if signed else least)
    return True
