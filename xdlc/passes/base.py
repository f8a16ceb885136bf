"""What a pass is, and how passes run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from xdlc.errors import ModelError
from xdlc.ir import Graph

ROUNDS = 16


class Pass(Protocol):
    """A rewriting of a graph that keeps what it computes."""

    @property
    def name(self) -> str:
        """Name on the command line and in messages."""

    def apply(self, graph: Graph) -> bool:
        """Rewrite ``graph`` and return whether anything changed."""


def run(graph: Graph, passes: Sequence[Pass], *, removed: dict[str, str] | None = None) -> bool:
    """Apply passes in turn until none finds anything, and return whether any did.

    Args:
        graph: The graph.
        passes: The passes.
        removed: Takes, by the name of each source node that no op stands for any more, the name of the
            pass that removed the last one.

    Raises:
        ModelError: If they still find something after many rounds, which is a bug.
    """
    changed = False
    named = _source_nodes(graph) if removed is not None else set()
    for _ in range(ROUNDS):
        found = []
        for entry in passes:
            if entry.apply(graph):
                found.append(entry.name)
                if removed is not None:
                    before, named = named, _source_nodes(graph)
                    removed |= dict.fromkeys(before - named, entry.name)
        if not found:
            return changed
        changed = True
    raise ModelError(
        f"passes {', '.join(entry.name for entry in passes)} do not settle on graph {graph.name!r}",
        fix="please report this model",
    )


def _source_nodes(graph: Graph) -> set[str]:
    return {node for op in graph.ops for node in op.origin.nodes}
