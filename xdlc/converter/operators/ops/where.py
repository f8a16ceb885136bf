"""Where."""

from __future__ import annotations

from xdlc.converter.builder import Builder
from xdlc.converter.operators.registry import ANY, Node, importer
from xdlc.converter.values import Value


@importer("Where", since=9, layout=ANY)
def where(node: Node, b: Builder) -> Value:
    """Map onto ElementWiseSelect."""
    values = [node.required(index) for index in range(3)]
    return b.elementwise("ElementWiseSelect", values, dtype=values[1].dtype)
