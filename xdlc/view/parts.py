"""Overlays of records: the cache part and the HTA section of each op."""

from __future__ import annotations

from collections.abc import Iterator

from xdlc.container.aip_record import is_aip
from xdlc.content.cache_parts import cache_parts
from xdlc.content.cache_records import cache_records
from xdlc.errors import ContainerError
from xdlc.ir import Model
from xdlc.runtime.section_record import find_record, placed
from xdlc.view.overlays import Overlay, part_overlay

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
