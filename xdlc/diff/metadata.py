"""Differences of the metadata of two models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdlc.diff.change import Change, changes_of
from xdlc.diff.match import GraphMatch
from xdlc.ir import Model

_KINDS = {
    "version": "format",
    "properties": "properties",
    "relations": "relations",
    "layouts": "layouts",
    "preprocessing": "preprocessing",
    "symbols": "symbols",
    "states": "states",
    "nodes": "nodes",
    "modules": "modules",
    "tensors": "sources",
    "weight_factors": "factors",
    "layers": "layers",
}
"""Kind of difference by key of ``Model.metadata``."""
_CACHES = "cacheList"
_TEXTS = {"copyright": "copyright", "model_version": "model-version", "timestamp": "timestamps"}
"""Kind by a part of the last key of a place in the history or the properties."""
_TITLES = {
    "version": "format of the file",
    "properties": "property",
    "relations": "relation",
    "layouts": "layout of",
    "preprocessing": "preprocessing of",
    "symbols": "symbols of",
    "states": "state of",
    "nodes": "source node",
    "modules": "module of source node",
    "tensors": "source names of tensor",
    "weight_factors": "factors of weight",
    "layers": "layer id of op",
}

_GRAPH_TITLES = {
    "tensors": "source names of tensors of graph",
    "weight_factors": "factors of weights of graph",
}
"""Titles of a graph that has none of them in one model."""


@dataclass(slots=True)
class Names:
    """Names of the second model by those of the first, where they differ.

    Attributes:
        tensors: Names of tensors, of all graphs.
        ops: Names of ops, of all graphs.
    """

    graphs: dict[str, str] = field(default_factory=dict)
    tensors: dict[str, str] = field(default_factory=dict)
    ops: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, matches: Sequence[GraphMatch]) -> Names:
        """Return the names that differ."""
        names = cls()
        for match in matches:
            if match.before is None or match.after is None:
                continue
            if match.before.name != match.after.name:
                names.graphs[match.before.name] = match.after.name
            names.tensors |= {a.name: b.name for a, b in match.tensors.items() if a.name != b.name}
            names.ops |= {a.name: b.name for a, b in match.ops.items() if a.name != b.name}
        return names


def metadata_changes(before: Model, after: Model, names: Names) -> Iterator[Change]:
    """Yield the differences of metadata, without those of caches.

    Args:
        names: Names of graphs, tensors and ops that differ.
    """
    first, second = before.metadata, after.metadata
    omitted = {_CACHES}
    if all(str(side.get("version")).startswith("3.") for side in (first, second)):
        omitted.add("history")  # the properties of format 3 have it
    for key in first | second:
        if key in omitted:
            continue
        values = _renamed(key, first.get(key), names), second.get(key)
        if key == "history":
            yield from _history(*(value or [] for value in values))
        elif key == "nodes":
            yield from _named(key, *map(_by_node, values))
        else:
            yield from _named(key, *values)


def _renamed(key: str, value: Any, names: Names) -> Any:
    """Return metadata of the first model with the names of the second."""
    if not isinstance(value, Mapping):
        return value
    if key in ("layouts", "preprocessing", "symbols", "states"):
        return {names.tensors.get(name, name): item for name, item in value.items()}
    if key == "layers":
        return {names.ops.get(name, name): item for name, item in value.items()}
    if key in ("tensors", "weight_factors"):
        return {
            names.graphs.get(graph, graph): {
                names.tensors.get(name, name): item for name, item in tensors.items()
            }
            for graph, tensors in value.items()
        }
    return value


def _by_node(nodes: Any) -> Any:
    """Return source nodes by name, as far as names are unique."""
    by_name = {str(node[0]): {"type": node[1], "reason": node[2]} for node in nodes or ()}
    return by_name if len(by_name) == len(nodes or ()) else nodes


def _named(key: str, first: Any, second: Any) -> Iterator[Change]:
    title, kind = _TITLES.get(key, f"metadata {key!r}"), _KINDS.get(key, "other-metadata")
    if isinstance(first or {}, Mapping) and isinstance(second or {}, Mapping):
        first, second = first or {}, second or {}
    for place, pair in changes_of((first, second)):
        is_graph = key in _GRAPH_TITLES and (place in first) != (place in second)
        title_here = _GRAPH_TITLES[key] if is_graph else title
        what = f"{title_here} {place!r}" if place else title
        text_kind = _of_text(place) if key == "properties" else None
        yield Change.between(text_kind or kind, what, pair)


def _history(first: Sequence[Any], second: Sequence[Any]) -> Iterator[Change]:
    """Yield the differences of the steps that made two files."""
    for number in range(max(len(first), len(second))):
        steps = [side[number] if number < len(side) else None for side in (first, second)]
        if None in steps:
            tools = [None if step is None else str(step.get("tool", "?")) for step in steps]
            yield Change.between("history", f"step {number + 1} of the history", tools)
            continue
        for place, pair in changes_of(steps):
            what = f"{place} of step {number + 1} of the history"
            yield Change.between(_of_text(place) or "history", what, pair)


def _of_text(place: str) -> str | None:
    """Return the kind of a place in metadata by its last word."""
    word = place.rpartition(".")[2].replace("-", "_").lower()
    return next((kind for part, kind in _TEXTS.items() if part in word), None)
