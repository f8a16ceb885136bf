"""Content of the page: a model, or two side by side, as values of JSON."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from xdlc.container.aip_record import is_aip
from xdlc.container.metadata import NO_CLOCK
from xdlc.content.aip_records import aip_records
from xdlc.content.cache_records import cache_parts, cache_records
from xdlc.content.inspection import enumerations, graph_facts, other_records, source_nodes
from xdlc.content.udo_packages import packages
from xdlc.errors import ContainerError, XdlcError, size
from xdlc.ir import Model
from xdlc.opdefs.control_flow import outer_graphs
from xdlc.page import assemble, parts
from xdlc.page.pictures import short
from xdlc.runtime.section_record import find_record, placed
from xdlc.version import VERSION
from xdlc.view.findings import Findings
from xdlc.view.graphs import GraphContent, short_text
from xdlc.view.overlays import Overlay, basic_overlays, part_overlay
from xdlc.view.statistics import Record

SCRIPTS = (
    *("place.js", "layout.js", "net.js", "scene.js", "colors.js", "pens.js", "paint.js"),
    *("pane.js", "panel.js", "outline.js", "strip.js", "sheet.js", "app.js"),
)
LONGEST = 200
"""Characters of a text for browsers that run no scripts."""


def page(content: Mapping[str, Any]) -> str:
    """Return a page that shows the graphs of one file, or of two side by side.

    Args:
        content: What ``xdlc.view.content`` makes, as values of JSON.
    """
    packed = gzip.compress(packed_json(content), compresslevel=9, mtime=0)
    return assemble(
        parts("xdlc.view", "page/view.html"),
        style=style(),
        script=script() + parts("xdlc.view", "page/main.js"),
        data=base64.b64encode(packed).decode("ascii"),
        kind="Graph",
        name=" and ".join(short(side["file"], LONGEST) for side in content["sides"]),
        summary=_summary(content),
    )


def packed_json(content: Mapping[str, Any]) -> bytes:
    """Return a content as JSON without spaces."""
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode("ascii")


def script() -> str:
    """Return the script of the viewer: ``View.start(content)`` draws into ``#view``."""
    return parts("xdlc.page", "base.js") + parts("xdlc.view", *(f"page/{file}" for file in SCRIPTS))


def style() -> str:
    """Return the style of the viewer."""
    return parts("xdlc.page", "base.css") + parts("xdlc.view", "page/view.css")


def _summary(content: Mapping[str, Any]) -> Iterator[str]:
    for side in content["sides"]:
        yield f"{short(side['file'], LONGEST)}: {short(side['kind'], LONGEST)}, {side['bytes']:,} bytes"
        for label, text in side["facts"]:
            yield f"{short(label, LONGEST)}: {short(text, LONGEST)}"
        for graph in side["graphs"]:
            yield f"graph {short(graph['name'], LONGEST)}: {len(graph['ops']):,} operations"
    for line in (content["diff"] or {"summary": ()})["summary"]:
        yield short(line, LONGEST)


MOST_ITEMS = 40
"""Items of a list that the page shows."""
DEEPEST = 4
Fact = tuple[str, str]


def model_facts(model: Model) -> Iterator[Fact]:
    """Yield the facts of a model: inputs, outputs, totals, then its history."""
    graphs = outer_graphs(model)
    for graph in graphs:
        facts = graph_facts(graph, model)
        title = "" if len(graphs) == 1 else f" of {graph.name}"
        totals = facts["totals"]
        for side in ("input", "output"):
            for port in facts[f"{side}s"][:MOST_ITEMS]:
                shape = "x".join("?" if n is None else str(n) for n in port["shape"]) or "scalar"
                words = [port["dtype"], shape, port.get("layout", ""), port.get("preprocessing", "")]
                yield f"{side}{title}", short_text(f"{port['name']}: {' '.join(filter(None, words))}")
        yield f"ops{title}", f"{totals['ops']:,}"
        yield f"MACs{title}", f"{totals['macs']:,}"
        yield f"parameters{title}", f"{totals['parameters']:,} in {size(totals['parameter_bytes'])}"
    properties = model.metadata.get("properties", {})
    for key, value in properties.items():
        if value != "N/A":
            yield key, short_text(value)
    for step in model.metadata.get("history", ()):
        when = str(step.get("timestamp") or "")
        words = [step.get("tool", "?"), step.get("converterVersion", "")]
        words += [] if when.startswith(NO_CLOCK) else [when]
        yield "made by", short_text(" ".join(filter(None, words)))
        args = step.get("args")
        for key, value in args.items() if isinstance(args, dict) else ():
            if value not in properties.values():
                yield key, short_text(value)


def model_records(model: Model) -> tuple[list[Any], list[XdlcError]]:
    """Return the records as titled lists of facts, and the errors of damaged ones."""
    groups: list[Any] = []
    damage: list[XdlcError] = []
    kinds: tuple[tuple[str, str, Callable[[Model], Sequence[Mapping[str, Any]]]], ...] = (
        ("cache", "record", cache_records),
        ("AIP record", "record", aip_records),
        ("UDO package", "name", packages),
    )
    for title, key, read in kinds:
        try:
            records = read(model)
        except XdlcError as error:
            damage.append(error)
            continue
        for record in records:
            rest = {name: value for name, value in record.items() if name != key}
            groups.append([f"{title} {record[key]}", list(_flat(rest))])
    others = [(name, size(data.nbytes)) for name, data in other_records(model).items()]
    return groups + ([["other records", others]] if others else []), damage


def _flat(value: Any, label: str = "", depth: int = 0) -> Iterator[Fact]:
    """Yield the values in nested objects, with labels like ``graphs 1 name``."""
    if isinstance(value, Mapping) and depth < DEEPEST:
        for name, inner in value.items():
            yield from _flat(inner, f"{label} {str(name).replace('_', ' ')}".strip(), depth + 1)
    elif isinstance(value, list | tuple):
        if any(isinstance(each, Mapping) for each in value) and depth < DEEPEST:
            for number, inner in enumerate(value[:MOST_ITEMS], 1):
                yield from _flat(inner, f"{label} {number}", depth + 1)
            if len(value) > MOST_ITEMS:
                yield label, f"and {len(value) - MOST_ITEMS} more"
        elif value:
            shown = ", ".join(map(str, value[:MOST_ITEMS]))
            more = f" and {len(value) - MOST_ITEMS} more" if len(value) > MOST_ITEMS else ""
            yield label, short_text(shown + more)
    elif value not in (None, "", {}):
        is_number = isinstance(value, int) and not isinstance(value, bool)
        yield label, short_text(f"{value:,}" if is_number else value)


MOST_CACHES = 8


def record_overlays(model: Model) -> Iterator[Overlay]:
    """Yield the overlays of a model's caches and of its AIP record.

    Raises:
        ContainerError: If the AIP record is damaged, after all overlays of caches.
    """
    graphs = list(model.graphs.values())
    for record in cache_records(model)[:MOST_CACHES]:
        parts = cache_parts(model, record)
        if parts:
            name = record["record"]
            text = "Graph of the compiled cache that runs the op; the host runs ops without one."
            yield part_overlay(graphs, f"cache:{name}", f"cache {record['soc']}", text, parts)
    if any(map(is_aip, model.records)) and graphs:
        name, aip = find_record(model.records)
        sections = {
            op: f"{section.section.engine.name} {section.section.first}-{section.section.last}"
            for section in placed(model, name, aip)
            for op in section.ops
        }
        text = "Section of the AIP record that runs the op, with its layers."
        yield part_overlay(graphs, "hta", "HTA section", text, sections)


def readable_overlays(model: Model) -> tuple[list[Overlay], list[ContainerError]]:
    """Return the overlays of records that can be read, and the errors of others."""
    overlays: list[Overlay] = []
    try:
        overlays.extend(record_overlays(model))
    except ContainerError as error:
        return overlays, [error]
    return overlays, []


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
