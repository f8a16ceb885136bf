"""CDist."""

from __future__ import annotations

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import number, reduced, unary
from xdlc.converter.operators.ops._formulas import times
from xdlc.converter.operators.ops.products import multiply
from xdlc.converter.operators.registry import MICROSOFT, Node, importer
from xdlc.converter.values import Value
from xdlc.opdefs.elementwise_enums import (
    ADD,
    MAXIMUM,
    MULTIPLY,
    SQRT,
)


@importer("CDist", domain=MICROSOFT)
def cdist(node: Node, b: Builder, x: Value, y: Value) -> Value:
    """Write |x|^2 - 2 * x * y^T + |y|^2, at least 0; its root if Euclidean."""
    metric = node.attr("metric", "sqeuclidean")
    if metric not in ("euclidean", "sqeuclidean"):
        raise node.problem(f"xdlc does not support the metric {metric!r}")
    crossed = times(b, multiply(node, b, x, b.transpose(y, (1, 0))), -2.0)
    lengths = b.binary(ADD, _lengths(b, x), b.transpose(_lengths(b, y), (1, 0)))
    squares = b.binary(MAXIMUM, b.binary(ADD, crossed, lengths), number(b, x, 0.0))
    if metric == "sqeuclidean":
        return squares
    return unary(b, SQRT, squares)


def _lengths(b: Builder, x: Value) -> Value:
    """Return the sum of squares of each row of [rows, width] as [rows, 1]."""
    return reduced(b, "ReduceSum", b.binary(MULTIPLY, x, x), [1])
