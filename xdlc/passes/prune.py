"""Removal of ops whose results nobody reads."""

from __future__ import annotations

from dataclasses import dataclass

from xdlc.ir import Graph
from xdlc.passes.base import graph_pass


@graph_pass(stage="converter")
@dataclass(frozen=True, slots=True)
class Prune:
    """Remove ops whose results nobody reads, and tensors that no op touches."""

    name: str = "prune"

    def apply(self, graph: Graph) -> bool:
        return graph.prune()
