"""Facts and records of a model as titled lists of label and text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from xdlc.content.aip_records import aip_records
from xdlc.content.cache_records import NO_CLOCK, cache_records
from xdlc.content.inspection import graph_facts, other_records
from xdlc.content.udo_packages import packages
from xdlc.errors import XdlcError, size
from xdlc.ir import Model
from xdlc.opdefs.control_flow import outer_graphs
from xdlc.view.graphs import short_text

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
