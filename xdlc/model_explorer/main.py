"""Adapter of Model Explorer, which loads this module by its name."""

from __future__ import annotations

import os
from typing import Any

from model_explorer import (
    Adapter,
    AdapterMetadata,
    GetConfigEditorsResult,
    ModelExplorerGraphs,
    NodeDataProvider,
    NodeDataProviderFilter,
    NodeDataProviderMetadata,
    NodeDataProviderResult,
)
from model_explorer.graph_builder import Graph, GraphNode, IncomingEdge, KeyValue, MetadataItem
from model_explorer.node_data_builder import GradientItem, GraphNodeData, NodeDataResult, ThresholdItem

from xdlc.api.models import load
from xdlc.view.content import side
from xdlc.view.explorer import explorer_graphs, node_data

_EXTENSIONS = ["dlc"]


class DlcAdapter(Adapter):  # type: ignore[misc]
    """Adapter that shows the graphs of a DLC."""

    metadata = AdapterMetadata(
        id="xdlc",
        name="DLC (xdlc)",
        description="Show a DLC of Qualcomm's SNPE, QAIRT and QNN tools.",
        fileExts=_EXTENSIONS,
    )

    def convert(self, model_path: str, settings: dict[str, Any]) -> ModelExplorerGraphs:
        """Return the graphs of a DLC.

        Args:
            model_path: Path of the DLC.
            settings: Settings of Model Explorer, which the adapter does not use.

        Raises:
            XdlcError: If the file is no DLC, or is damaged.
        """
        return {"graphs": [_graph(graph) for graph in explorer_graphs(_side(model_path))]}


class DlcOverlays(NodeDataProvider):  # type: ignore[misc]
    """Provider of the figures of each op, such as MACs and bytes."""

    metadata = NodeDataProviderMetadata(
        id="xdlc_overlays",
        name="DLC figures (xdlc)",
        description="Show MACs, bytes, data types and backends of the ops of a DLC.",
        icon="bar_chart",
        filter=NodeDataProviderFilter(modelFileExts=_EXTENSIONS),
    )

    def get_config_editors(self, provider_id: str) -> GetConfigEditorsResult:
        """Return no settings: the figures need none."""
        return GetConfigEditorsResult(configEditors=[])

    def run(
        self, provider_id: str, model_path: str, graph_id: str, config_values: dict[str, Any], graph: Any
    ) -> NodeDataProviderResult:
        """Return the overlays of a graph.

        Args:
            provider_id: Name of the provider.
            model_path: Path of the DLC.
            graph_id: Identifier of the graph.
            config_values: Settings, which there are none of.
            graph: The graph, which the provider does not read.

        Raises:
            XdlcError: If the file is no DLC, or is damaged.
        """
        overlays = node_data(_side(model_path)).values()
        return NodeDataProviderResult([_data(each[graph_id]) for each in overlays if graph_id in each])


def _side(path: str) -> dict[str, Any]:
    """Return the content of a DLC, without statistics of weights."""
    return side(load(path), name=os.path.basename(path), nbytes=os.path.getsize(path), statistics=False)


def _data(overlay: dict[str, Any]) -> GraphNodeData:
    return GraphNodeData(
        {node: NodeDataResult(**result) for node, result in overlay["results"].items()},
        overlay["name"],
        [ThresholdItem(**item) for item in overlay.get("thresholds", ())],
        [GradientItem(**item) for item in overlay.get("gradient", ())],
    )


def _graph(graph: dict[str, Any]) -> Graph:
    """Return a graph as the objects that Model Explorer expects."""
    nodes = [_node(node) for node in graph["nodes"]]
    return Graph(graph["id"], nodes, groupNodeAttributes=graph.get("groupNodeAttributes"))


def _node(node: dict[str, Any]) -> GraphNode:
    return GraphNode(
        node["id"],
        node["label"],
        node["namespace"],
        node.get("subgraphIds", []),
        [KeyValue(**attr) for attr in node.get("attrs", ())],
        [IncomingEdge(**edge) for edge in node.get("incomingEdges", ())],
        *(
            [
                MetadataItem(item["id"], [KeyValue(**attr) for attr in item["attrs"]])
                for item in node.get(key, ())
            ]
            for key in ("outputsMetadata", "inputsMetadata")
        ),
    )
