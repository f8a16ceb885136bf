"""CumSum."""

from __future__ import annotations

from xdlc import ir
from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import ANY, Node, importer
from xdlc.converter.values import Value


@importer("CumSum", since=11, layout=ANY)
def cumulative_sum(node: Node, b: Builder) -> Value:
    """Map onto CumulativeSum."""
    x = node.required(0)
    axis = node.static(1, "the axis")
    if axis is None:
        raise node.problem("the axis (input 1) is missing")
    params = {
        "axis": ir.u32(x.axis(node.axis(int(axis.reshape(-1)[0]), x.rank))),
        "exclusive": ir.b8(node.flag("exclusive")),
        "reverse": ir.b8(node.flag("reverse")),
    }
    return b.unary("CumulativeSum", x, params)
