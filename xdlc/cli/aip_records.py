"""AIP records, as plain values and as lines of ``xdlc-info``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xdlc.cli import text
from xdlc.container.aip_record import OWN_FLAVOUR, AipBuffer, AipRecord, Section, is_aip, parse_aip
from xdlc.errors import ContainerError
from xdlc.ir import Model


def aip_records(model: Model) -> list[dict[str, Any]]:
    """Return AIP records: versions, sections, and the buffers that connect them."""
    return [
        {
            "record": name,
            "bytes": data.nbytes,
            **_record(parse_aip(data.content(), where=f"entry {name!r}")),
        }
        for name, data in model.records.items()
        if is_aip(name)
    ]


def _record(record: AipRecord) -> dict[str, Any]:
    return {
        "version": record.version,
        "compiler": record.compiler,
        "flavour": record.flavour,
        "flavour_of": "xdlc" if record.flavour == OWN_FLAVOUR else "vendor",
        "unknown": record.unknown,
        "sections": [_section(section) for section in record.sections],
    }


def _section(section: Section) -> dict[str, Any]:
    return {
        "engine": section.engine.name,
        "first_layer": section.first,
        "last_layer": section.last,
        "binary_bytes": len(section.binary),
        "compiled_by": _maker(section.binary),
        **_subgraph(section.binary),
        "buffers": [_buffer(buffer) for buffer in section.buffers],
    }


def _maker(binary: bytes | memoryview) -> str | None:
    from xdlc.container.section_payload import is_subgraph

    if not binary:
        return None
    return "xdlc" if is_subgraph(binary) else "vendor"


def _subgraph(binary: bytes | memoryview) -> dict[str, Any]:
    """Return the content of a sub-graph of xdlc; the vendor's code cannot be read."""
    from xdlc.container.section_payload import read_subgraph

    if _maker(binary) != "xdlc":
        return {}
    try:
        graph = read_subgraph(binary, where="sub-graph")
    except ContainerError as error:
        return {"subgraph": {"problem": str(error)}}
    types = Counter(op.type for op in graph.ops)
    constants = [tensor for tensor in graph.tensors.values() if tensor.is_static]
    return {
        "subgraph": {
            "operations": dict(sorted(types.items())),
            "constant_bytes": sum(tensor.data.nbytes for tensor in constants if tensor.data is not None),
        }
    }


def _buffer(buffer: AipBuffer) -> dict[str, Any]:
    return {
        "name": buffer.name,
        "direction": "output" if buffer.is_output else "input",
        "layer": buffer.layer,
        "id": buffer.id,
        "dimensions": [
            {"axis": held.axis, "extent": held.size, "padded": held.padded} for held in buffer.dimensions
        ],
    }


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
