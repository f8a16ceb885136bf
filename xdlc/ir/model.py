"""Models: the content of a container."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from xdlc.errors import ModelError, UsageError, nearest_names
from xdlc.ir.data import TensorData
from xdlc.ir.graph import Graph
from xdlc.json_fields import fits
from xdlc.options import spell
from xdlc.records import record

NOTE = str | None
_FORMS: Mapping[str, Any] = {
    "version": str,
    "properties": {"*": str},
    "history": [{"tool": str, "converterVersion": str, "command": str}],
    "cacheList": [dict],
    "relations": [{"parentRecordName": str, "childRecordNames": [str]}],
    "layouts": {"*": str},
    "preprocessing": {"*": str},
    "symbols": {"*": [NOTE]},
    "states": {"*": {"output": str}},
    "nodes": [(str, str, NOTE)],
    "modules": {"*": str},
    "tensors": {"*": {"*": [str]}},
    "weight_factors": {"*": {"*": [str]}},
    "layers": {"*": int},
}
"""Form of the values of ``Model.metadata`` by key."""


@record(eq=False, repr=False)
class Model:
    """A network: its graphs, and the other content of a DLC.

    Attributes:
        graphs: Graphs by name.
        metadata: Facts about the DLC and its history, as JSON values.
        records: Other entries of the DLC by name: caches, AIP records and ``xdlc.*`` records.
        files: Files that ``save`` writes next to the DLC, by path relative to the DLC's folder.
    """

    graphs: dict[str, Graph] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    records: dict[str, TensorData] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)

    @property
    def main(self) -> Graph:
        """The graph that callers run: the first graph.

        Raises:
            ModelError: If the model has no graph, but only caches.
        """
        for graph in self.graphs.values():
            return graph
        raise ModelError(
            "the model holds no graph, only records",
            fix="use the DLC from which xdlc prepared the caches, or run a cache: "
            f"{spell('run.runtime', 'htp')}; xdlc info lists the records",
        )

    def graph_named(self, name: str | None) -> Graph:
        """Return the graph with this name; None returns the main graph.

        Raises:
            UsageError: If no graph has this name; the error lists all names.
        """
        if name is None:
            return self.main
        if name not in self.graphs:
            hint = nearest_names(name, self.graphs)
            listed = f"graphs: {', '.join(self.graphs) or 'none'}"
            raise UsageError(f"there is no graph {name!r}", fix="; ".join(filter(None, (hint, listed))))
        return self.graphs[name]

    def with_main(self, name: str | None) -> Model:
        """Return a model whose main graph has this name; None returns this model.

        Raises:
            UsageError: If no graph has this name.
        """
        if name is None:
            return self
        graphs = {name: self.graph_named(name), **self.graphs}
        return Model(graphs, self.metadata, self.records, self.files)

    def add_graph(self, graph: Graph) -> Graph:
        """Add a graph, and return the graph.

        Raises:
            ModelError: If the model already has a graph of this name.
        """
        if self.graphs.setdefault(graph.name, graph) is not graph:
            raise ModelError(f"two graphs are named {graph.name!r}")
        return graph

    def __repr__(self) -> str:
        graphs = ", ".join(f"{graph.name!r} ({len(graph)} ops)" for graph in self.graphs.values())
        return f"<Model: {graphs or 'no graph'}; {len(self.records)} records>"

    def clone(self) -> Model:
        """Return a copy with its own graphs, which shares weights and records."""
        return Model(
            {name: graph.clone() for name, graph in self.graphs.items()},
            copy.deepcopy(self.metadata),
            dict(self.records),
            dict(self.files),
        )

    def save(self, path: str | os.PathLike[str], *, version: str = "4.1", crc: bool = True) -> None:
        """Write the model as a DLC, and its other files next to the DLC.

        xdlc replaces an existing file in one step.

        Args:
            path: Path of the DLC.
            version: Format of the DLC: ``4.1``, or ``4.0``, which more viewers read (up to 2 GiB).
            crc: Store a CRC-32 of each entry. Writing then needs about a third more time.

        Raises:
            UsageError: If xdlc does not write this version.
            ContainerError: If a DLC of this version cannot store a part of the model.
            StorageError: If the file cannot be written; an existing file stays unchanged.
        """
        from xdlc.container import save  # the only import from above, see docs/adr/0002

        save(self, path, version=version, crc=crc)


def malformed(metadata: Mapping[str, Any]) -> str | None:
    """Return the first key of metadata whose value has a wrong form, or None."""
    return next((key for key in metadata if not fits(metadata[key], _FORMS.get(key, object))), None)
