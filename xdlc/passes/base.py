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


def run(graph: Graph, passes: Sequence[Pass]) -> bool:
    """Apply passes in turn until none finds anything, and return whether any did.

    Raises:
        ModelError: If they still find something after many rounds, which is a bug.
    """
    changed = False
    for _ in range(ROUNDS):
        found = [entry.name for entry in passes if entry.apply(graph)]
        if not found:
            return changed
        changed = True
    raise ModelError(
        f"passes {', '.join(entry.name for entry in passes)} do not settle on graph {graph.name!r}",
        fix="please report this model",
    )
