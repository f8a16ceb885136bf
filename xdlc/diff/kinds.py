"""Kinds of differences, by which callers ignore them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from xdlc.errors import UsageError, nearest_names

KINDS: Mapping[str, str] = {
    "ops": "ops of one file only",
    "order": "order of ops",
    "types": "operation types",
    "packages": "op packages",
    "inputs": "tensors that an op reads",
    "outputs": "tensors that an op writes",
    "params": "parameters of ops",
    "shapes": "shapes of tensors",
    "dynamic-axes": "axes whose dimension is open",
    "dtypes": "data types of tensors",
    "encodings": "scales, offsets and widths of tensors",
    "roles": "roles of tensors",
    "weights": "values of static tensors",
    "tensors": "tensors that no op uses",
    "op-names": "names of ops",
    "tensor-names": "names of tensors",
    "graph-names": "names of graphs",
    "origins": "source nodes of ops",
    "reasons": "reasons for inserted ops",
    "graphs": "graphs of one file only, and their order",
    "io": "inputs and outputs of graphs, and their order",
    "layouts": "layouts of inputs and outputs",
    "preprocessing": "steps that a graph does with the data of callers",
    "symbols": "symbols of open dimensions",
    "states": "inputs that keep a state between runs",
    "caches": "HTP caches and their provenance",
    "aip": "AIP records",
    "udo": "definitions of UDO packages",
    "other-records": "other records",
    "files": "files next to a DLC",
    "format": "format of the file, like 4.1",
    "history": "tools and options that made a file",
    "copyright": "the copyright text",
    "model-version": "the version text of the model",
    "timestamps": "times in the history and in caches",
    "properties": "properties of a DLC of format 3",
    "relations": "relations between records",
    "nodes": "list of source nodes",
    "modules": "modules of source nodes",
    "sources": "source names of tensors",
    "factors": "factors of weights",
    "layers": "ids of layers of format 3",
    "other-metadata": "other metadata",
    "cost": "MACs, parameters, bytes and memory",
}
"""Each kind, and what differs."""

GROUPS: Mapping[str, tuple[str, ...]] = {
    "names": ("op-names", "tensor-names", "graph-names"),
    "metadata": (
        "format",
        "history",
        "copyright",
        "model-version",
        "timestamps",
        "properties",
        "relations",
        "nodes",
        "modules",
        "sources",
        "factors",
        "layers",
        "other-metadata",
    ),
    "trace": ("origins", "reasons", "nodes", "modules", "sources", "factors", "layers"),
    "records": ("caches", "aip", "udo", "other-records", "relations"),
}
"""Names of several kinds."""


NOT_IN_SOURCE = frozenset((*GROUPS["metadata"], *GROUPS["records"], "reasons", "origins", "files"))
"""Kinds of differences that no source model has, beside its DLC."""


def named(kinds: Collection[str]) -> str:
    """Return kinds in words, by the names of groups where all of a group are there."""
    groups = [name for name, members in GROUPS.items() if name != "trace" and set(members) <= set(kinds)]
    grouped = {kind for name in groups for kind in GROUPS[name]}
    return ", ".join([*groups, *(kind for kind in KINDS if kind in kinds and kind not in grouped)])


def kinds_of(names: Iterable[str]) -> frozenset[str]:
    """Return the kinds that names of kinds or groups stand for.

    Raises:
        UsageError: If there is no such kind; the error has the nearest names.
    """
    kinds: set[str] = set()
    for name in names:
        if name not in KINDS and name not in GROUPS:
            choices = [*GROUPS, *KINDS]
            fix = nearest_names(name, choices) or f"use some of {', '.join(choices)}"
            raise UsageError(f"there is no kind of difference {name!r}", fix=fix)
        kinds.update(GROUPS.get(name, (name,)))
    return frozenset(kinds)
