"""What keeps branches and loops off a backend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdlc.ir import Graph, Op
from xdlc.opdefs.control_flow import Graphs, called, is_control_flow, reachable


@dataclass(frozen=True, slots=True)
class Blocker:
    """An op that keeps a branch or a loop off a backend.

    Attributes:
        caller: The ``If`` or ``While``.
        graph: The graph that has the op; run by the caller, directly or not.
        op: The op that the backend does not have.
        reason: Why not.
    """

    caller: Op
    graph: Graph
    op: Op
    reason: str

    def __str__(self) -> str:
        return f"graph {self.graph.name!r} has op {self.op.name!r} ({self.op.type}): {self.reason}"


def blockers(graph: Graph, graphs: Graphs, refusal: Callable[[Graph, Op], str | None]) -> list[Blocker]:
    """Return the ops that keep branches and loops of a graph off a backend.

    A backend gets an ``If`` or ``While`` only if it has every op of all graphs that one runs.

    Args:
        graph: The graph whose ``If`` and ``While`` ops are looked at.
        graphs: All graphs by name.
        refusal: Why the backend does not have an op of a graph; None if it does.
    """
    reasons: dict[str, list[tuple[Graph, Op, str]]] = {}
    found = []
    for op in graph.ops:
        if not is_control_flow(op):
            continue
        for name in called(op):
            for inner in reachable(graphs[name], graphs) if name in graphs else ():
                if inner.name not in reasons:
                    reasons[inner.name] = [
                        (inner, held, reason)
                        for held in inner.ops
                        if (reason := refusal(inner, held)) is not None
                    ]
                found += [Blocker(op, *entry) for entry in reasons[inner.name]]
    return found
