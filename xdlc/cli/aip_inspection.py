"""What ``xdlc-info`` tells of AIP records, as plain values."""

from __future__ import annotations

from collections import Counter
from typing import Any

from xdlc.container.aip_record import OWN_FLAVOUR, OWN_RECORD, AipBuffer, AipRecord, Section, parse_aip
from xdlc.errors import ContainerError
from xdlc.ir import Model

_VENDORS = "aip.metadata"


def is_aip(name: str) -> bool:
    """Return whether a record is one of those that tell of HTA sections."""
    return name.startswith(_VENDORS) or name == OWN_RECORD


def aip_records(model: Model) -> list[dict[str, Any]]:
    """Return all that AIP records say: versions, sections, and the buffers that connect them."""
    return [
        {
            "record": name,
            "bytes": data.nbytes,
            **_record(parse_aip(data.numpy().tobytes(), where=f"entry {name!r}")),
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
        **_plan(section.binary),
        "buffers": [_buffer(buffer) for buffer in section.buffers],
    }


def _maker(binary: bytes) -> str | None:
    from xdlc.runtime.hta.form import is_plan

    if not binary:
        return None
    return "xdlc" if is_plan(binary) else "vendor"


def _plan(binary: bytes) -> dict[str, Any]:
    """Return what is inside a plan of xdlc; nothing is known of the vendor's code."""
    from xdlc.runtime.hta.form import decode

    if _maker(binary) != "xdlc":
        return {}
    try:
        plan = decode(binary, where="plan")
    except ContainerError as error:
        return {"plan": {"problem": error.problem}}
    kinds = Counter(step.kind for step in plan.instructions)
    return {
        "plan": {
            "instructions": dict(sorted(kinds.items())),
            "arena_bytes": plan.arena,
            "constant_bytes": len(plan.constants),
        }
    }


def _buffer(buffer: AipBuffer) -> dict[str, Any]:
    return {
        "name": buffer.name,
        "direction": "output" if buffer.is_output else "input",
        "layer": buffer.layer,
        "id": buffer.id,
        "dimensions": [
            {"axis": held.axis, "extent": held.extent, "padded": held.padded} for held in buffer.dimensions
        ],
    }
