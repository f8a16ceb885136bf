"""Integer products with float results: DynamicQuantizeMatMul and the like."""

from __future__ import annotations

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops import _quantized
from xdlc.converter.operators.ops._compose import compare, number, reduced, select, unary
from xdlc.converter.operators.ops._formulas import plus
from xdlc.converter.operators.ops.matmul import multiply
from xdlc.converter.operators.registry import MICROSOFT, Node, importer
from xdlc.converter.values import Value
from xdlc.opdefs.elementwise_enums import ADD, DIVIDE, EQUAL, MAXIMUM, MINIMUM, MULTIPLY, ROUND, SUBTRACT

_STEPS = 255.0


@importer("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(node: Node, b: Builder) -> Value:
    """Round the input to 256 steps between its extremes and 0, then multiply floats."""
    weight = node.required(1)
    real = _quantized.real(node, b, weight, _quantized.encoding(node, 2, 3, weight, axis=-1))
    return plus(b, multiply(node, b, _rounded(b, node.required(0)), real), node.input(4))


def _rounded(b: Builder, x: Value) -> Value:
    """Return ``x`` after DynamicQuantizeLinear and DequantizeLinear."""
    axes = list(range(x.rank))
    zero, one, most = (number(b, x, value) for value in (0.0, 1.0, _STEPS))
    low = b.binary(MINIMUM, reduced(b, "ReduceMin", x, axes), zero)
    high = b.binary(MAXIMUM, reduced(b, "ReduceMax", x, axes), zero)
    step = b.binary(DIVIDE, b.binary(SUBTRACT, high, low), most)
    step = select(b, compare(b, EQUAL, step, zero), one, step)
    start = unary(b, ROUND, _clamped(b, b.binary(DIVIDE, b.binary(SUBTRACT, zero, low), step), zero, most))
    steps = b.binary(ADD, unary(b, ROUND, b.binary(DIVIDE, x, step)), start)
    return b.binary(MULTIPLY, b.binary(SUBTRACT, _clamped(b, steps, zero, most), start), step)


def _clamped(b: Builder, x: Value, low: Value, high: Value) -> Value:
    return b.binary(MINIMUM, b.binary(MAXIMUM, x, low), high)


@importer("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_integer_to_float(node: Node, b: Builder) -> Value:
    """Multiply the floats that the integers denote; the first input may be computed."""
    x, weight, step, start = node.required(0), node.required(1), node.required(2), node.input(4)
    if step.size != 1 or (start is not None and start.size != 1):
        raise node.problem(f"{step.size} scales of input 0 are not supported", "use one scale")
    real = b.cast(x, step.dtype)
    if start is not None:
        real = b.binary(SUBTRACT, real, b.reshape(b.cast(start, step.dtype), (1,)))
    real = b.binary(MULTIPLY, real, b.reshape(step, (1,)))
    columns = _quantized.real(node, b, weight, _quantized.encoding(node, 3, 5, weight, axis=-1))
    return plus(b, multiply(node, b, real, columns), node.input(6))
