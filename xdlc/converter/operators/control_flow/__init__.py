"""Imports If, Loop and Scan as ``If`` and ``While``, whose graphs are graphs of the model.

What a graph of the source reads of the graphs around it becomes inputs of the op; constants are put
into the graph itself.  Conditions that are known leave only the chosen branch, small known numbers of
iterations leave the iterations one after the other.
"""

from __future__ import annotations

from collections.abc import Callable

from xdlc.converter.operators.control_flow.branches import import_if
from xdlc.converter.operators.control_flow.loop import import_loop
from xdlc.converter.operators.control_flow.scan import import_scan, import_scan_8
from xdlc.converter.operators.control_flow.sub_graph import Importer
from xdlc.converter.session.node import Node
from xdlc.converter.values import AnyValue


def find(type: str, domain: str, opset: int) -> Callable[[Importer, Node], list[AnyValue]] | None:
    """Return the function that imports an operator with graphs of its own, or None."""
    if domain:
        return None
    if type == "Scan":
        return import_scan if opset >= 9 else import_scan_8
    return {"If": import_if, "Loop": import_loop}.get(type)
