"""Scaler."""

from __future__ import annotations

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops.ml._features import floats, numbers
from xdlc.converter.operators.registry import ANY, ML, Node, importer
from xdlc.converter.values import Value
from xdlc.opdefs.elementwise_enums import MULTIPLY, SUBTRACT


@importer("Scaler", domain=ML, layout=ANY, dynamic=True)
def scaler(node: Node, b: Builder) -> Value:
    """Write (x - offset) * scale over the last axis."""
    x = floats(node, b, node.required(0))
    dims = x.dims or (1,)
    offset, scale = numbers(node, "offset", dims[-1]), numbers(node, "scale", dims[-1])
    if len(dims) > 2 and max(offset.size, scale.size) > 1:
        raise node.problem(f"input must be [N, C] or [C], but has rank {len(dims)}")
    if offset.any():
        x = b.binary(SUBTRACT, x, b.const(offset))
    return b.binary(MULTIPLY, x, b.const(scale))
