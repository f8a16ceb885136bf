"""Normalizer."""

from __future__ import annotations

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import compare, number, reduced, select, unary
from xdlc.converter.operators.ops.ml._features import floats
from xdlc.converter.operators.registry import ANY, ML, Node, importer
from xdlc.converter.values import Value
from xdlc.opdefs.elementwise_enums import ABS, DIVIDE, EQUAL, MULTIPLY, SQRT


@importer("Normalizer", domain=ML, layout=ANY)
def normalizer(node: Node, b: Builder) -> Value:
    """Divide rows by their maximum, L1 or L2 norm; rows of norm 0 stay."""
    x = floats(node, b, node.required(0))
    norm, axes = node.attr("norm", "MAX"), [x.rank - 1]
    if norm not in ("MAX", "L1", "L2") or x.rank not in (1, 2):
        raise node.invalid(f"norm {norm!r} of {list(x.shape)}")
    if norm == "MAX":
        return b.binary(DIVIDE, x, _not_zero(b, reduced(b, "ReduceMax", x, axes)))
    if norm == "L1":
        return b.binary(DIVIDE, x, _not_zero(b, reduced(b, "ReduceSum", unary(b, ABS, x), axes)))
    # of magnitude 1 first: float16 holds no square of 256
    near = b.binary(DIVIDE, x, _not_zero(b, reduced(b, "ReduceMax", unary(b, ABS, x), axes)))
    size = unary(b, SQRT, reduced(b, "ReduceSum", b.binary(MULTIPLY, near, near), axes))
    return b.binary(DIVIDE, near, _not_zero(b, size))


def _not_zero(b: Builder, x: Value) -> Value:
    """Return ``x``, 1 where it is 0."""
    return select(b, compare(b, EQUAL, x, number(b, x, 0.0)), number(b, x, 1.0), x)
