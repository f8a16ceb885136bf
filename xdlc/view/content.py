"""Content of the page: a model, or two side by side, as values of JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from xdlc.content.inspection import enumerations, source_nodes
from xdlc.content.udo_packages import packages
from xdlc.errors import XdlcError
from xdlc.ir import Model
from xdlc.version import VERSION
from xdlc.view.findings import Findings
from xdlc.view.graphs import GraphContent
from xdlc.view.overlays import Overlay, basic_overlays
from xdlc.view.parts import readable_overlays
from xdlc.view.records import model_facts, model_records
from xdlc.view.statistics import Record

SCHEMA = 1
MOST_NODES = 500
"""Source nodes without ops that the page lists."""
Side = Record


def assembled(
    *sides: Side, diff: Mapping[str, Any] | None = None, link: list[list[int]] | None = None
) -> Record:
    """Return the content of the page of one side or two.

    Args:
        sides: One file, or the earlier and the later.
        diff: Differences of two files.
        link: Pairs of ops of a source model and of its DLC: graph and op of each.
    """
    return {"schema": SCHEMA, "tool": f"xdlc {VERSION}", "sides": list(sides), "diff": diff, "link": link}


def side(
    model: Model,
    *,
    name: str = "",
    kind: str = "",
    nbytes: int = 0,
    findings: Sequence[Findings] = (),
    statistics: bool = True,
) -> Side:
    """Return one side of the page.

    Args:
        model: The model.
        name: Name of its file.
        kind: What the file is.  Default: a DLC of its version.
        nbytes: Size of the file in bytes; 0: there is no file.
        findings: What reports and judges say about the model.
        statistics: Whether static tensors have statistics, which reads all weights.
    """
    graphs = list(model.graphs.values())
    numbers = {graph_name: number for number, graph_name in enumerate(model.graphs)}
    records, damage = model_records(model)
    parts, broken = readable_overlays(model)
    try:
        definitions = enumerations(packages(model))
    except XdlcError:  # among the damage
        definitions = {}
    activations: dict[int, dict[str, Record]] = {}
    for finding in findings:
        for number, by_name in finding.activations.items():
            activations.setdefault(number, {}).update(by_name)
    flags = [[0] * len(graph) for graph in graphs]
    for (number, place), flag in chain.from_iterable(finding.flags.items() for finding in findings):
        flags[number][place] |= flag
    overlays = chain(
        (each for finding in findings for each in finding.overlays), basic_overlays(graphs), parts
    )
    return {
        "file": name,
        "kind": kind or f"DLC {model.metadata.get('version', '')}".strip(),
        "bytes": nbytes,
        "facts": list(chain(*(finding.facts for finding in findings), model_facts(model))),
        "records": [*records, *vanished(source_nodes(model))],
        "problems": [
            *([text, None, None] for text in dict.fromkeys(map(_damage, (*damage, *broken)))),
            *chain.from_iterable(finding.problems for finding in findings),
        ],
        "graphs": [
            GraphContent(
                graph,
                numbers,
                definitions=definitions,
                modules=model.metadata.get("modules", {}),
                activations=activations.get(number, {}),
                statistics=statistics,
            ).as_dict(flags[number])
            for number, graph in enumerate(graphs)
        ],
        "overlays": [overlay.as_dict() for overlay in _apart(overlays) if not overlay.is_empty],
    }


def _apart(overlays: Iterable[Overlay]) -> Iterator[Overlay]:
    """Yield overlays, with other keys and titles for those of a second report."""
    keys: set[str] = set()
    for number, overlay in enumerate(overlays):
        if overlay.key in keys:
            title = f"{overlay.title}, {overlay.source}"
            overlay = replace(overlay, key=f"{overlay.key}:{number}", title=title)
        keys.add(overlay.key)
        yield overlay


def _damage(error: XdlcError) -> str:
    return f"{error.where}: {error.problem}" if error.where else error.problem


def vanished(nodes: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    """Return the list of source nodes without ops, with reasons; none if all have ops.

    Args:
        nodes: Source nodes as ``source_nodes`` returns them.
    """
    facts = [
        (f"{node['name']} ({node['type']})", node.get("reason", "no op came from it"))
        for node in nodes
        if not node["ops"]
    ]
    more = [("and more", f"{len(facts) - MOST_NODES:,}")] if len(facts) > MOST_NODES else []
    return [["source nodes without ops", facts[:MOST_NODES] + more]] if facts else []
