"""AIP records as plain values."""

from __future__ import annotations

from collections import Counter
from typing import Any

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
