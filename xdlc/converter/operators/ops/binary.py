"""Operators of two or more inputs that are one ElementWiseBinary in QNN."""

from __future__ import annotations

import math
from collections import Counter

from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import ANY, Node, importer
from xdlc.converter.values import Value
from xdlc.ir.dtype import BOOL8
from xdlc.opdefs.elementwise_enums import (
    ADD,
    AND,
    DIVIDE,
    EQUAL,
    FMOD,
    GREATER,
    GREATER_EQUAL,
    LESS,
    LESS_EQUAL,
    MAXIMUM,
    MINIMUM,
    MOD,
    MULTIPLY,
    OR,
    POWER,
    SUBTRACT,
    XOR,
)

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
def arithmetic(node: Node, b: Builder) -> Value:
    """Map arithmetic with broadcasting from the right (opset 7 on)."""
    x, y = node.required(0), node.required(1)
    if not node.is_applied and x.dtype.is_float != y.dtype.is_float:
        node.check_types(x, y)
    return b.binary(_ARITHMETIC[node.type], x, y)


@importer("Pow", since=7, layout=ANY, dynamic=True)
def power(node: Node, b: Builder) -> Value:
    """Map x to the power of y; the exponent is cast to the base's type."""
    base = node.required(0)
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
    """Map an operator of any number of inputs as a chain of pairs."""
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
    """Return whether a constant changes neither the other operand nor its shape."""
    if operation not in _NEUTRAL or not constant.is_static or not constant.dtype.is_float:
        return False
    if constant.rank > (operand.rank if operand.ranked else 0):
        return False
    own = operand.shape[operand.rank - constant.rank :]
    pairs = zip(constant.shape, own, strict=True)
    if any(size != 1 and (size != fit or operand.is_dynamic) for size, fit in pairs):
        return False
    return bool((constant.numpy() == _NEUTRAL[operation]).all())
