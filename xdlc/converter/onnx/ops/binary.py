"""Operators of two or more inputs that QNN has as one operation of ElementWiseBinary."""

from __future__ import annotations

from xdlc.converter.builder import Builder
from xdlc.converter.onnx.registry import ANY, Node, importer
from xdlc.converter.values import Value
from xdlc.ir.dtype import BOOL8
from xdlc.opdefs.operations import (
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


@importer(*_ARITHMETIC, since=7, layout=ANY, dynamic=True)
def arithmetic(node: Node, b: Builder) -> Value:
    """Map arithmetic with broadcasting from the right (opset 7 on)."""
    return b.binary(_ARITHMETIC[node.type], node.required(0), node.required(1))


@importer("Pow", since=7, layout=ANY, dynamic=True)
def power(node: Node, b: Builder) -> Value:
    """Map x to the power of y; the exponent takes the type of the base."""
    base = node.required(0)
    return b.binary(POWER, base, b.cast(node.required(1), base.dtype))


@importer("Mod", since=10, layout=ANY, dynamic=True)
def modulo(node: Node, b: Builder) -> Value:
    """Map the remainder: sign of the dividend with fmod, of the divisor without."""
    return b.binary(FMOD if node.attr("fmod", 0) else MOD, node.required(0), node.required(1))


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
    """Combine all inputs of a node pair by pair."""
    result = node.required(0)
    for index in range(1, len(node.inputs)):
        result = b.binary(operation, result, node.required(index))
    return result
