"""Nodes of a source model and ops of its DLC that have no counterpart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from xdlc.content.inspection import source_nodes
from xdlc.diff.match import GraphMatch
from xdlc.ir import Model, Op

_SHOWN, _LONGEST = 5, 120
"""Names that a line lists, and their characters."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What a source model and its DLC do not share.

    Attributes:
        nodes: Name, operator and reason (or None) of the source nodes without an op in the DLC.
        ops: Graph, name, type and reason (or None) of the ops of the DLC without a source node.
    """

    nodes: Sequence[tuple[str, str, str | None]]
    ops: Sequence[tuple[str, str, str, str | None]]

    def as_dict(self) -> dict[str, Any]:
        """Return the nodes and ops as lists of objects."""
        return {
            "nodes": [dict(zip(("name", "type", "reason"), node, strict=True)) for node in self.nodes],
            "ops": [dict(zip(("graph", "name", "type", "reason"), op, strict=True)) for op in self.ops],
        }

    def lines(self) -> list[str]:
        """Return a line for each reason, with the first nodes or ops that have it."""
        nodes = _by_reason((f"{name} ({kind})", reason) for name, kind, reason in self.nodes)
        ops = _by_reason((f"{name} ({kind})", reason) for _, name, kind, reason in self.ops)
        lines = [f"source nodes without an op: {len(self.nodes)}", *nodes] if nodes else []
        return lines + ([f"ops without a source node: {len(self.ops)}", *ops] if ops else [])


def _by_reason(items: Iterable[tuple[str, str | None]]) -> list[str]:
    names: dict[str, list[str]] = {}
    for name, reason in items:
        names.setdefault(reason or "no reason is known", []).append(name[:_LONGEST])
    return [
        f"  {reason}: {', '.join(listed[:_SHOWN])}"
        + (f", and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else "")
        for reason, listed in names.items()
    ]


def trace(converted: Model, dlc: Model, matches: Sequence[GraphMatch], *, source_first: bool = True) -> Trace:
    """Return the nodes and ops without a counterpart.

    Args:
        converted: The source model, converted.
        dlc: Its DLC.
        matches: Pairs of graphs of the two models.
        source_first: Whether the pairs have the source model first.
    """
    nodes_of: dict[Op, tuple[str, ...]] = {
        op: op.origin.nodes for graph in dlc.graphs.values() for op in graph.ops
    }
    for match in matches:
        for pair in match.ops.items():
            source, op = pair if source_first else pair[::-1]
            nodes_of[op] = nodes_of[op] or source.origin.nodes
    present = {node for nodes in nodes_of.values() for node in nodes}
    reasons = {name: reason for name, _, reason in dlc.metadata.get("nodes") or ()}
    nodes = [
        (node["name"], node["type"], reasons.get(node["name"]) or node.get("reason"))
        for node in source_nodes(converted)
        if node["name"] not in present
    ]
    ops = [
        (graph.name, op.name, op.type, op.origin.reason)
        for graph in dlc.graphs.values()
        for op in graph.ops
        if not nodes_of[op]
    ]
    return Trace(nodes, ops)
