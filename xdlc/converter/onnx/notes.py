"""Notes what became of each node of the source."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from xdlc.converter.onnx.nodes import full_type, inner_nodes, name_of
from xdlc.converter.session.context import State
from xdlc.converter.session.diagnostics import INNER, KNOWN, LISTED, REFUSED, UNUSED, SourceNode
from xdlc.converter.values import Value


def note_nodes(state: State, out_names: Collection[str], nodes: Sequence[Any]) -> None:
    """Put what is known of each node into the findings.

    Args:
        state: The import, after the last node.
        out_names: Names of the outputs.
        nodes: The nodes that they need.
    """
    needed, ends, findings = {id(node) for node in nodes}, set(out_names), state.findings
    for node in state.file.proto.graph.node:
        name, outputs = name_of(node), [output for output in node.output if output]
        findings.makers.update((output, name) for output in outputs if output in ends)
        reason = _reason(state, outputs) if id(node) in needed else UNUSED
        findings.nodes.append(SourceNode(name, full_type(node), reason))
        findings.nodes += (SourceNode(name_of(each), full_type(each), INNER) for each in inner_nodes(node))


def _reason(state: State, outputs: Sequence[str]) -> str | None:
    """Return why no op stands for a node, if that is known already."""
    if state.poisoned.issuperset(outputs):
        return REFUSED
    values = [state.values.get(name) for name in outputs]
    if all(value is not None and value.is_static for value in values):
        return KNOWN
    return None if any(isinstance(value, Value) for value in values) else LISTED
