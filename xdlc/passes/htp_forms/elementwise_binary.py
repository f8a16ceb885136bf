"""Remainders, comparisons with infinity, powers and broadcast operands."""

from __future__ import annotations

import math

import numpy

from xdlc import ir
from xdlc.ir import Graph, Op, Tensor
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
from xdlc.passes.avoid_faults import MISSING, form


@form("ElementWiseBinary")
def _base_of_power(w: Writer, op: Op, source: Tensor) -> bool:
    """Broadcast the base of a power of fixed point first."""
    shape = op.outputs[0].shape
    if op.param("operation") != POWER or not source.dtype.is_fixed or source.shape == shape:
        return False
    w.graph.set_inputs(op, [w.expand(source, shape), *op.inputs[1:]])
    return True


@form("ElementWiseSelect")
def _select_operands(w: Writer, op: Op, source: Tensor) -> bool:
    """Broadcast operands of a Select of rank 5 or more first.

    A single number stays one beside a condition of full shape.
    """
    shape = op.outputs[0].shape
    if len(shape) < 5:
        return False
    is_whole = source.shape == shape
    inputs = [x if x is None or (is_whole and x.size == 1) else w.expand(x, shape) for x in op.inputs]
    if inputs == list(op.inputs):
        return False
    w.graph.set_inputs(op, inputs)
    return True


@form("Tile")
def _repeated_last_axis(w: Writer, op: Op, source: Tensor) -> bool:
    """Replace a Tile of a last axis of 1 by a multiplication with ones.

    HTP drops such a Tile before a sum or product.
    """
    result = op.outputs[0]
    if not source.rank or source.shape[-1] != 1 or result.shape[-1] == 1:
        return False
    if not (source.dtype.is_float or source.dtype.is_fixed) or not _is_summed(w.graph, result):
        return False
    ones = w.constant(numpy.ones(result.shape[-1], source.dtype.numpy))
    if source.dtype.is_fixed:
        ones.dtype, ones.encoding = source.dtype, ir.ScaleOffset(1.0, 0)
    params: dict[str, ir.Param] = {"multiples": ir.u32s([*op.param("multiples")[:-1], 1])}
    if max(op.param("multiples")[:-1], default=1) > 1:
        source = w.emit("Tile", [source], (*result.shape[:-1], 1), params, source.dtype, source.encoding)
    w.finish(w.binary(MULTIPLY, source, ones, result.dtype, result.encoding))
    return True


def _is_summed(graph: Graph, x: Tensor) -> bool:
    """Return whether a sum or product reads a tensor, maybe after Reshapes."""
    readers = list(graph.consumers(x))
    for reader in readers:
        if reader.type == "Reshape":
            readers += graph.consumers(reader.outputs[0])
    sums = (ADD, MULTIPLY, SUBTRACT)
    return any(op.type == "ElementWiseBinary" and op.param("operation") in sums for op in readers)


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
    """Compute remainders and floor divisions from a quotient, corrected by one."""
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
