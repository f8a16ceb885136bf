"""Erf, which QNN has only inside Gelu."""

from __future__ import annotations

from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import ANY, Node, importer
from xdlc.converter.values import Value
from xdlc.ir import HOST_PACKAGE


@importer("Erf", since=9, layout=ANY, dynamic=True)
def erf(node: Node, b: Builder) -> Value:
    """Keep as an op of the host; the pass fuse_gelu finds the Gelu around it."""
    return b.unary("Erf", node.required(0), package=HOST_PACKAGE)
