"""Binarizer."""

from __future__ import annotations

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import compare, number
from xdlc.converter.operators.registry import ANY, ML, Node, importer
from xdlc.converter.values import Value
from xdlc.opdefs.elementwise_enums import GREATER


@importer("Binarizer", domain=ML, layout=ANY, dynamic=True)
def binarizer(node: Node, b: Builder) -> Value:
    """Write 1 where x is above the threshold, else 0."""
    x = node.required(0)
    return b.cast(compare(b, GREATER, x, number(b, x, node.attr("threshold", 0.0))), x.dtype)
