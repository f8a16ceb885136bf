"""Soft signs, Softplus, Swish and sines, after ops have their ranks."""

from __future__ import annotations

import math

import numpy

from xdlc import ir
from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import BOOL8, INT32, UFIXED16
from xdlc.opdefs.elementwise_enums import (
    ABS,
    ADD,
    COS,
    DIVIDE,
    EXP,
    GREATER,
    MAXIMUM,
    MOD,
    MULTIPLY,
    RELU,
    SIGMOID,
    SIN,
    SOFTPLUS,
    SUBTRACT,
)
from xdlc.passes._match import binary, match, neuron, unary
from xdlc.passes._writing import Writer
from xdlc.passes.avoid_faults import form

_LARGEST = 16000.0
"""Limit of numbers: reciprocals of larger ones are denormal float16, 0 on HTP."""
_FAR = 10.0
"""Softplus of larger numbers is the number in float16."""
_SERIES = (2.0, 0.66667764, 0.39823071, 0.3269395)
"""Factors of s, s^3, s^5, s^7 in log((1 + s) / (1 - s)), within 7e-7 up to 1/3 (at Chebyshev nodes)."""
_ROWS = 8
_SOFT_SIGN = binary(DIVIDE, "x", binary(ADD, unary(ABS, "x"), "one"))
_SWISH = binary(MULTIPLY, neuron(SIGMOID, "x", name="gate"), "x")


@form("ElementWiseBinary")
def _soft_sign(w: Writer, op: Op, source: Tensor) -> bool:
    """Clip x in ``x / (|x| + 1)``."""
    named = match(w.graph, _SOFT_SIGN, op.outputs[0])
    if named is None or not source.dtype.is_float or w.is_clipped(source):
        return False
    one = named["one"]
    if one.data is None or (one.numpy() != 1).any():
        return False
    x = w.clip(source, -_LARGEST, _LARGEST)
    w.graph.set_inputs(op, [x, w.binary(ADD, w.unary(ABS, x), one)])
    return True


@form("ElementWiseNeuron")
def _softplus(w: Writer, op: Op, source: Tensor) -> bool:
    """Write Softplus as max(x, 0) + log(1 + e) with e = exp(-|x|).

    The logarithm is a polynomial of e / (2 + e).

    HTP is up to 0.013 off, and outputs anything below -30.
    """
    beta, threshold = op.param("beta", 1.0), op.param("threshold", 20.0)
    if op.param("operation") != SOFTPLUS or not source.dtype.is_float or not beta > 0:
        return False

    def number(value: float) -> Tensor:
        return w.number(value, source.dtype)

    size = w.unary(ABS, source)
    e = w.unary(EXP, w.binary(MULTIPLY, size, number(-beta)))
    s = w.binary(DIVIDE, e, w.binary(ADD, e, number(2.0)))
    square = w.binary(MULTIPLY, s, s)
    factor = number(_SERIES[-1] / beta)
    for term in _SERIES[-2::-1]:
        factor = w.binary(ADD, w.binary(MULTIPLY, square, factor), number(term / beta))
    bent = w.binary(ADD, w.binary(MAXIMUM, source, number(0.0)), w.binary(MULTIPLY, s, factor))
    if threshold < _FAR:
        bent = w.select(w.binary(GREATER, source, number(threshold / beta), BOOL8), source, bent)
    w.finish(bent)
    return True


@form("ElementWiseBinary")
def _fused_swish(w: Writer, op: Op, source: Tensor) -> bool:
    """Separate a 16-bit Sigmoid from the product by a Relu.

    HTP's kernel of both repeats 8 rows.
    """
    named = match(w.graph, _SWISH, op.outputs[0])
    if named is None or source.dtype is not UFIXED16 or source.rank < 3 or named["gate"].shape[-3] <= _ROWS:
        return False
    gate = named["gate"]
    params = {"operation": ir.u32(RELU)}
    apart = w.emit("ElementWiseNeuron", [gate], gate.shape, params, gate.dtype, gate.encoding)
    w.graph.replace(gate, apart, [op])
    return True


_TURNS = 710
"""113 turns to 6e-5."""


@form("ElementWiseUnary")
def _reduced(w: Writer, op: Op, source: Tensor) -> bool:
    """Reduce large angles by a table.

    The fraction of an angle is added to the least angle equal to its whole part.
    """
    kind = source.dtype
    if op.param("operation") not in (SIN, COS) or not kind.is_float or w.made(source):
        return False
    whole = w.cast(source, INT32)
    part = w.binary(SUBTRACT, source, w.cast(whole, kind))
    place = w.reshape(w.binary(MOD, whole, w.number(_TURNS, INT32)), (source.size,))
    angles = (*range(_TURNS // 2), *range(-_TURNS // 2, 0))  # exact for these, negative ones as their places
    table = w.constant(numpy.array([math.remainder(n, math.tau) for n in angles], kind.numpy))
    params: dict[str, ir.Param] = {"axis": ir.i32(0)}
    angle = w.reshape(w.emit("Gather", [table, place], place.shape, params, kind), source.shape)
    w.graph.set_inputs(op, [w.binary(ADD, angle, part)])
    return True
