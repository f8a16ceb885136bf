"""IsInf and IsNaN."""

from __future__ import annotations

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import ANY, Node, importer
from xdlc.converter.values import Value
from xdlc.ir.dtype import BOOL8


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
