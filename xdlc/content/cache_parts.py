"""Ops that the graphs of a cache have; the host runs the others."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from xdlc.content.cache_records import cache_records
from xdlc.ir import Graph, Model, Op
from xdlc.page.pictures.partition import Run


def cache_parts(model: Model, record: Mapping[str, Any]) -> dict[Op, str]:
    """Return for each op in a cache the name of the cache's graph that has it.

    Args:
        model: The model.
        record: The cache, as ``cache_records`` describes it.
    """
    parts: dict[Op, str] = {}
    for cached in record.get("graphs", ()):
        graph = model.graphs.get(cached.get("source") or cached["name"] or "")
        names = cached.get("ops")
        inside = None if names is None else set(names)
        for op in graph.ops if graph is not None else ():
            if inside is None or op.name in inside:
                parts[op] = cached["name"]
    return parts


def partition_maps(model: Model) -> list[tuple[str, list[Run]]]:
    """Return where each graph runs by each cache: a title, and the runs of its ops."""
    maps = []
    for record in cache_records(model):
        parts = cache_parts(model, record)
        for graph in model.graphs.values():
            if any(op in parts for op in graph.ops):
                maps.append((f"{graph.name} on {record['soc'].lower()}", _runs(graph, parts)))
    return maps


def _runs(graph: Graph, parts: Mapping[Op, str]) -> list[Run]:
    groups = groupby(graph.ops, key=lambda op: (op in parts, parts.get(op, "")))
    return [Run("HTP" if is_htp else "CPU", [op.name for op in ops], part) for (is_htp, part), ops in groups]
