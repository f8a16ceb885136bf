"""What is compiled for a SoC: the whole graphs of a model, or the parts that its HTP takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from xdlc.container.cache_provenance import GraphFacts
from xdlc.ir import Model
from xdlc.ir.fingerprint import fingerprint


@dataclass(frozen=True, slots=True)
class Selection:
    """The graphs that a cache is to hold.

    Attributes:
        model: A model with these graphs, or the path of a DLC with them.
        graphs: What each of them is of, by its name.
    """

    model: Model | Path
    graphs: Mapping[str, GraphFacts]


def whole(model: Model, path: Path) -> Selection:
    """Return the selection of all graphs of a model, whose DLC is at ``path``."""
    facts = {name: GraphFacts(fingerprint(graph), name) for name, graph in model.graphs.items()}
    return Selection(path, facts)
