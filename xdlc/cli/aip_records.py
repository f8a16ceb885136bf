"""AIP records as lines of ``xdlc-info``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xdlc.cli import text


def aip_lines(records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines that show AIP records in full."""
    if not records:
        return
    yield ""
    yield "AIP (HTA) records"
    for record in records:
        yield f"  {text.clean(record['record'])}: {text.size(record['bytes'])}"
        facts = [(key, str(record[key])) for key in ("version", "compiler")]
        flavour = f"{record['flavour']} ({'xdlc' if record['flavour_of'] == 'xdlc' else 'the vendor'}'s)"
        yield from text.columns([*facts, ("flavour", flavour)])
        for section in record["sections"]:
            yield from _section_lines(section)


def _section_lines(section: Mapping[str, Any]) -> Iterator[str]:
    layers = f"    {section['engine']}  layers {section['first_layer']}-{section['last_layer']}"
    code = {None: "", "xdlc": ", prepared by xdlc", "vendor": ", compiled by the vendor"}
    size = f", {text.size(section['binary_bytes'])}" if section["binary_bytes"] else ""
    yield f"{layers}{size}{code[section['compiled_by']]}"
    if "subgraph" in section:
        yield from text.columns([("sub-graph", _subgraph_text(section["subgraph"]))], " " * 6)
    yield from text.columns([_buffer_row(held) for held in section["buffers"]], " " * 6)


def _subgraph_text(held: Mapping[str, Any]) -> str:
    if "problem" in held:
        return text.clean(held["problem"])
    types = held["operations"]
    counts = ", ".join(f"{text.clean(type)} {count}" for type, count in types.items())
    return f"{sum(types.values())} operations ({counts}), constants {text.size(held['constant_bytes'])}"


def _buffer_row(buffer: Mapping[str, Any]) -> tuple[str, ...]:
    memory = ", ".join(f"{dimension['axis']} {dimension['extent']}" for dimension in buffer["dimensions"])
    padded = [str(dimension["padded"]) for dimension in buffer["dimensions"]]
    shown = padded[0] if len(set(padded)) == 1 else ", ".join(padded)
    return (
        buffer["direction"],
        f"layer {buffer['layer']}",
        f"id {buffer['id']:#x}",
        text.clean(buffer["name"]),
        f"[{memory}] padded {shown}" if memory else "",
    )
