"""Element-wise operators of numbers, bits and conditions."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators import protobuf
from xdlc.converter.operators.registry import ANY, Node, importer
from xdlc.converter.ops import _compose
from xdlc.converter.ops._compose import compare, number, select
from xdlc.converter.values import Value, identity
from xdlc.ir import HOST_PACKAGE
from xdlc.ir.data import Array
from xdlc.ir.dtype import BOOL8, INT32, INT64, UINT8, UINT64
from xdlc.opdefs import elementwise_enums
from xdlc.opdefs.elementwise_enums import (
    ADD,
    AND,
    ASIN,
    COS,
    DIVIDE,
    EQUAL,
    EXP,
    FLOOR_DIV,
    FMOD,
    GREATER,
    GREATER_EQUAL,
    LESS,
    LESS_EQUAL,
    MAXIMUM,
    MINIMUM,
    MOD,
    MULTIPLY,
    NEG,
    OR,
    POWER,
    SIN,
    SUBTRACT,
    XOR,
)

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


_ARITHMETIC = {"Add": ADD, "Sub": SUBTRACT, "Mul": MULTIPLY, "Div": DIVIDE}
_COMPARISONS = {"Equal": EQUAL, "Greater": GREATER, "Less": LESS}
_COMPARISONS_12 = {"GreaterOrEqual": GREATER_EQUAL, "LessOrEqual": LESS_EQUAL}
_LOGICAL = {"And": AND, "Or": OR, "Xor": XOR}
_CHAINS = {"Sum": ADD, "Max": MAXIMUM, "Min": MINIMUM}
_LONG = 64
"""Most inputs of a sum that stays a chain whatever they are."""
_NEUTRAL = {MAXIMUM: -math.inf, MINIMUM: math.inf}
"""The constant that changes no operand, NaN included; no encoding holds it, it would keep the op float."""


@importer(*_ARITHMETIC, since=7, layout=ANY, dynamic=True)
def arithmetic(node: Node, b: Builder, x: Value, y: Value) -> Value:
    """Map arithmetic with broadcasting from the right (opset 7 on)."""
    if not node.is_applied and x.dtype.is_float != y.dtype.is_float:
        node.check_types(x, y)
    return b.binary(_ARITHMETIC[node.type], x, y)


@importer("Pow", since=7, layout=ANY, dynamic=True)
def power(node: Node, b: Builder, base: Value) -> Value:
    """Map x to the power of y; the exponent is cast to the base's type."""
    return b.binary(POWER, base, b.cast(node.required(1), base.dtype))


@importer("Mod", since=10, layout=ANY, dynamic=True)
def modulo(node: Node, b: Builder) -> Value:
    """Map the remainder: sign of the dividend with fmod, of the divisor without."""
    return b.binary(FMOD if node.flag("fmod") else MOD, node.required(0), node.required(1))


@importer(*_COMPARISONS, since=7, layout=ANY, dynamic=True)
@importer(*_COMPARISONS_12, since=12, layout=ANY, dynamic=True)
def comparison(node: Node, b: Builder) -> Value:
    """Map a comparison, whose result is boolean."""
    operation = {**_COMPARISONS, **_COMPARISONS_12}[node.type]
    return b.binary(operation, node.required(0), node.required(1), dtype=BOOL8)


@importer(*_LOGICAL, since=7, layout=ANY, dynamic=True)
def logical(node: Node, b: Builder) -> Value:
    """Map a logical operator."""
    return b.binary(_LOGICAL[node.type], node.required(0), node.required(1), dtype=BOOL8)


@importer(*_CHAINS, since=6, layout=ANY, dynamic=True)
def chain(node: Node, b: Builder) -> Value:
    """Map an operator with any number of inputs as a chain of binary ops."""
    return chain_of(node, b, _CHAINS[node.type])


@importer("Mean", since=8, layout=ANY, dynamic=True)
def mean(node: Node, b: Builder) -> Value:
    """Map the mean of the inputs as their sum times 1 / n."""
    import numpy

    total = chain_of(node, b, ADD)
    share = numpy.asarray(1.0 / len(node.inputs), total.dtype.numpy)
    return b.binary(MULTIPLY, total, b.const(share))


def chain_of(node: Node, b: Builder, operation: int) -> Value:
    """Combine all inputs of a node pairwise, without neutral constants.

    Inputs that repeat count once in an extreme, and in a long sum as a product.
    """
    values = [node.required(index) for index in range(len(node.inputs))]
    if operation in _NEUTRAL or len(values) > _LONG:
        times = Counter((value.tensor, value.order) for value in values)
        distinct = {(value.tensor, value.order): value for value in values}
        values = [
            value if operation in _NEUTRAL or times[key] == 1 else _times(b, value, times[key])
            for key, value in distinct.items()
        ]
    result = values[0]
    for other in values[1:]:
        if _is_neutral(result, other, operation):
            result = other
        elif not _is_neutral(other, result, operation):
            result = b.binary(operation, result, other)
    return result


def _times(b: Builder, value: Value, count: int) -> Value:
    return b.binary(MULTIPLY, value, b.const(value.dtype.numpy.type(count)))


def _is_neutral(constant: Value, operand: Value, operation: int) -> bool:
    """Return whether a constant changes neither values nor shape of the other operand."""
    if operation not in _NEUTRAL or not constant.is_static or not constant.dtype.is_float:
        return False
    if constant.rank > (operand.rank if operand.ranked else 0):
        return False
    own = operand.shape[operand.rank - constant.rank :]
    pairs = zip(constant.shape, own, strict=True)
    if any(size != 1 and (size != fit or operand.is_dynamic) for size, fit in pairs):
        return False
    return bool((constant.numpy() == _NEUTRAL[operation]).all())


_LONGEST_SHIFT = 62  # most bits by which one division by a positive 64-bit number shifts


@importer("BitShift", since=11)
def bit_shift(node: Node, b: Builder, x: Value, amounts: Value) -> Value:
    """Write products with powers of two, and divisions by them, rounded down.

    Shifting by as many bits as there are, or by more, leaves what fills up only.
    """
    direction = node.attr("direction")
    if direction not in ("LEFT", "RIGHT"):
        raise node.invalid(f"direction {direction!r} is unknown; use LEFT or RIGHT")
    if direction == "RIGHT" and x.dtype is UINT64:
        raise node.problem("xdlc does not support right shifts of unsigned 64-bit integers")
    bits = x.dtype.bits
    count = b.cast(amounts, INT64)
    if amounts.dtype.is_signed:
        count = select(b, compare(b, LESS, count, number(b, count, 0)), number(b, count, bits), count)
    count = b.cast(b.binary(MINIMUM, count, number(b, count, bits)), INT32)
    wide = b.cast(x, INT64)
    steps = np.arange(bits + 1)
    if direction == "LEFT":
        powers = np.where(steps < bits, np.uint64(1) << steps.astype(np.uint64) % 64, 0).astype(np.int64)
        return b.cast(b.binary(MULTIPLY, wide, _looked_up(b, powers, count)), x.dtype)
    for part in (np.minimum(steps, _LONGEST_SHIFT), np.maximum(steps - _LONGEST_SHIFT, 0)):
        if part.any():
            wide = b.binary(FLOOR_DIV, wide, _looked_up(b, np.int64(1) << part, count))
    return b.cast(wide, x.dtype)


def _looked_up(b: Builder, table: Array, index: Value) -> Value:
    """Return the table entry at each index."""
    if index.is_static:
        return b.const(table[index.numpy()])
    source = b.source_order(b.const(table, f"{b.stem}_powers"))
    places = b.source_order(index)
    out = b.emit("Gather", [source, places], places.shape, INT64, {"axis": ir.i32(0)})
    return Value(out, identity(out.rank)) if index.rank else b.reshape(Value(out, (0,)), ())


@importer("BitCast", since=26)
def bit_cast(node: Node, b: Builder, x: Value) -> Value:
    """Map integers of one width onto Cast, which wraps around."""
    dtype = ir.dtype.from_numpy(protobuf.numpy_dtype(node.attr("to")))
    same = x.dtype.is_integer and dtype.is_integer and x.dtype.bits == dtype.bits
    if not same and (x.dtype, dtype) != (BOOL8, UINT8):
        raise node.problem(f"xdlc cannot read the bits of {x.dtype} as {dtype}")
    return b.cast(x, dtype)


@importer("Tan", since=7, layout=ANY, dynamic=True)
def tan(node: Node, b: Builder, x: Value) -> Value:
    """Write sin(x) / cos(x)."""
    return b.binary(DIVIDE, _compose.unary(b, SIN, x), _compose.unary(b, COS, x))


@importer("Acos", since=7, layout=ANY, dynamic=True)
def acos(node: Node, b: Builder, x: Value) -> Value:
    """Write pi / 2 - asin(x)."""
    return b.binary(SUBTRACT, number(b, x, math.pi / 2), _compose.unary(b, ASIN, x))


@importer("Cosh", since=9, layout=ANY, dynamic=True)
def cosh(node: Node, b: Builder, x: Value) -> Value:
    """Write exp(x - log 2) + exp(-x - log 2), which overflows with the result only."""
    half = number(b, x, math.log(2))
    rising = _compose.unary(b, EXP, b.binary(SUBTRACT, x, half))
    falling = _compose.unary(b, EXP, b.binary(SUBTRACT, _compose.unary(b, NEG, x), half))
    return b.binary(ADD, rising, falling)


@importer("Erf", since=9, layout=ANY, dynamic=True)
def erf(node: Node, b: Builder) -> Value:
    """Keep Erf as an op of the host; the pass fuse_gelu finds the Gelu around it."""
    return b.unary("Erf", node.required(0), package=HOST_PACKAGE)


@importer("Reciprocal", since=6, layout=ANY)
def reciprocal(node: Node, b: Builder, x: Value) -> Value:
    """Divide one by the value: HTP refuses the unary operation RECIPROCAL."""
    return b.binary(DIVIDE, b.const(np.ones((), x.dtype.numpy), f"{b.stem}_one"), x)


@importer("IsInf", since=10, layout=ANY, dynamic=True)
def is_inf(node: Node, b: Builder) -> Value:
    """Map onto IsInf, which distinguishes the signs as well."""
    params: dict[str, ir.Param] = {
        name: ir.b8(bool(node.attr(name, 1))) for name in ("detect_negative", "detect_positive")
    }
    return b.unary("IsInf", node.required(0), params, dtype=BOOL8)


@importer("IsNaN", since=9, layout=ANY, dynamic=True)
def is_nan(node: Node, b: Builder) -> Value:
    """Map onto IsNan."""
    return b.unary("IsNan", node.required(0), dtype=BOOL8)


@importer("Where", since=9, layout=ANY)
def where(node: Node, b: Builder) -> Value:
    """Map onto ElementWiseSelect."""
    values = [node.required(index) for index in range(3)]
    return b.elementwise("ElementWiseSelect", values, dtype=values[1].dtype)


@importer("Cast", since=6, layout=ANY, dynamic=True)
def cast(node: Node, b: Builder) -> Value:
    """Convert to another data type."""
    _check_rounding(node)
    target = node.attr("to")
    try:
        dtype = ir.dtype.from_numpy(protobuf.numpy_dtype(target))
    except (KeyError, TypeError):
        raise node.problem(f"QNN does not support the ONNX data type {target}") from None
    return b.cast(node.required(0), dtype)


def _check_rounding(node: Node) -> None:
    """Refuse invalid values of attributes that concern only 8-bit floats."""
    node.flag("saturate", 1)
    if node.attr("round_mode", "up") not in ("up", "down", "nearest"):
        raise node.invalid(f"round_mode {node.attr('round_mode')!r:.40} is unknown; use up, down or nearest")


@importer("CastLike", since=15, layout=ANY, dynamic=True)
def cast_like(node: Node, b: Builder) -> Value:
    """Convert to the data type of the second input."""
    _check_rounding(node)
    return b.cast(node.required(0), node.required(1).dtype)
