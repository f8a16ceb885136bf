"""Differences of the records of two models, and of the files beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from xdlc.container import cache_provenance
from xdlc.container.aip_record import is_aip
from xdlc.container.caches import PREFIX, SHARED
from xdlc.container.udo import DEFINITIONS
from xdlc.content.aip_records import aip_records
from xdlc.content.cache_records import cache_records
from xdlc.content.udo_packages import packages
from xdlc.diff.change import Change, Value, changes_of
from xdlc.diff.data import same_bytes
from xdlc.errors import ContainerError, XdlcError
from xdlc.ir import Model, TensorData

_NOTED = ("noted", "verified", "hash", "source", "ops", "notes_damaged")
"""Facts about a cache that the record of their provenance has."""
_DERIVED = ("bytes", "shared_weights", "vtcm_mb", "problem")
"""Facts about a cache that follow from others or from the bytes of records."""
_READ = {
    "buildId": "build",
    "coreApiVersion": "core_api",
    "backendApiVersion": "backend_api",
    "contextBlobVersion": "blob_version",
    "contextBlobSize": "blob_bytes",
    "socModel": "soc_id",
    "timestamp": "made",
    "dspArch": "arch",
    "vtcmSize": "vtcm_mb",
    "optimizationLevel": "optimization_level",
    "numHvxThreads": "hvx_threads",
    "htpDlbc": "dlbc",
    "spillFillBufferSize": "spill_fill_bytes",
    "ioTensorSize": "io_bytes",
    "constSize": "const_bytes",
    "sharedWeightsSize": "shared_weights_bytes",
    "graphName": "name",
    "graphInputs": "inputs",
    "graphOutputs": "outputs",
    "graphs": "graphs",
    "numGraphs": "graphs",
}
"""Facts of ``cache_records`` by the fields of an entry that they come from."""

Facts = Callable[[Model], Mapping[str, Any]]


def record_changes(before: Model, after: Model) -> Iterator[Change]:
    """Yield the differences of records and files.

    Raises:
        ContainerError: If a record does not have its CRC-32.
    """
    yield from _caches(before, after)
    yield from _parsed(before, after, "aip", is_aip, _aip)
    yield from _parsed(before, after, "udo", lambda name: name.startswith(DEFINITIONS), _udo)
    for name in before.records | after.records:
        if _is_other(name):
            yield from _bytes(before, after, name, "other-records")
    for name in before.files | after.files:
        contents = [model.files.get(name) for model in (before, after)]
        if contents[0] != contents[1]:
            sizes = [None if content is None else f"{len(content)} bytes" for content in contents]
            note = "the bytes differ" if None not in contents else None
            yield Change.between("files", f"file {name!r}", sizes, note)


def _is_other(name: str) -> bool:
    is_about_caches = name.startswith((PREFIX, *SHARED)) or name == cache_provenance.RECORD
    return not (is_about_caches or is_aip(name) or name.startswith(DEFINITIONS))


def _bytes(before: Model, after: Model, name: str, kind: str) -> Iterator[Change]:
    """Yield the difference of the bytes of a record."""
    first, second = before.records.get(name), after.records.get(name)
    if first is None or second is None:
        if first is not second:
            yield Change(kind, f"record {name!r}", _size(first), _size(second))
    elif not same_bytes(first, second):
        note = "the bytes differ"
        yield Change(kind, f"content of record {name!r}", _size(first), _size(second), note)


def _size(data: TensorData | None) -> str | None:
    return None if data is None else f"{data.nbytes} bytes"


def _parsed(
    before: Model, after: Model, kind: str, is_kind: Callable[[str], bool], facts: Facts
) -> Iterator[Change]:
    """Yield the differences of facts in records, or else of their bytes."""
    sides = [facts(model) for model in (before, after)]
    for name in before.records | after.records:
        if not is_kind(name):
            continue
        changes = list(_bytes(before, after, name, kind))
        if changes and all(name in side for side in sides):
            pairs = changes_of(side[name] for side in sides)
            named = [Change.between(kind, f"{place} of record {name!r}", pair) for place, pair in pairs]
            changes = named or changes
        yield from changes


def _aip(model: Model) -> Mapping[str, Any]:
    try:
        records = aip_records(model)
    except ContainerError:  # the bytes of a damaged record can still be compared
        return {}
    return {record["record"]: _without(record, ("bytes", "record")) for record in records}


def _udo(model: Model) -> Mapping[str, Any]:
    return {
        f"{DEFINITIONS}{package['name']}": {
            **package,
            "types": {kind["type"]: _without(kind, ("count", "ops", "type")) for kind in package["types"]},
        }
        for package in packages(model)
        if package["definition"]
    }


def _without(facts: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: value for key, value in facts.items() if key not in keys}


def _caches(before: Model, after: Model) -> Iterator[Change]:
    """Yield the differences of caches: their records, descriptions and provenance."""
    sides = [{record["record"]: record for record in cache_records(model)} for model in (before, after)]
    entries = [
        {str(entry.get("cacheName")): entry for entry in model.metadata.get("cacheList", ())}
        for model in (before, after)
    ]
    for name in sides[0] | sides[1]:
        first, second = (side.get(name) for side in sides)
        if first is None or second is None:
            texts = [None if cache is None else _cache(cache) for cache in (first, second)]
            yield Change.between("caches", f"cache {name!r}", texts)
            continue
        yield from _bytes(before, after, name, "caches")
        if first["described"] != second["described"]:
            texts = ["present" if cache["described"] else None for cache in (first, second)]
            yield Change.between("caches", f"description of cache {name!r}", texts)
            continue
        for place, pair in changes_of(map(_facts, (first, second))):
            yield _change(f"{place} of cache {name!r}", pair)
        for place, pair in changes_of(side.get(name, {}) for side in entries):
            if _last(place) not in _READ:
                yield _change(f"{place} of cache {name!r}", pair)
    yield from _provenance(before, after, set(sides[0]) & set(sides[1]))
    for name in before.records | after.records:
        if name.startswith(SHARED):
            yield from _bytes(before, after, name, "caches")


def _change(what: str, pair: list[Value]) -> Change:
    kind = "timestamps" if what.startswith("made ") else "caches"
    return Change.between(kind, what, pair)


def _cache(record: Mapping[str, Any]) -> str:
    return f"{record['soc']}, {record['bytes'] or 0} bytes"


def _last(place: str) -> str:
    """Return the field of an entry that a place is inside: the last known one."""
    words = place.replace("[", ".").split(".")
    return next((word for word in reversed(words) if word in _READ), words[-1])


def _facts(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the description of a cache has."""
    facts = _without(record, (*_NOTED, *_DERIVED))
    facts["graphs"] = [_without(graph, _NOTED) for graph in record.get("graphs", ())]
    return facts


def _provenance(before: Model, after: Model, names: set[str]) -> Iterator[Change]:
    """Yield the differences of the provenance of caches that both models have."""
    data = [model.records.get(cache_provenance.RECORD) for model in (before, after)]
    if all(record is None for record in data) or (
        None not in data and same_bytes(*(record for record in data if record is not None))
    ):
        return
    try:
        sides = [
            {name: asdict(facts) for name, facts in cache_provenance.read(model).items() if name in names}
            for model in (before, after)
        ]
    except XdlcError:
        yield from _bytes(before, after, cache_provenance.RECORD, "caches")
        return
    for name in sides[0] | sides[1]:
        for place, pair in changes_of(side.get(name, {}) for side in sides):
            yield _change(f"{place} (provenance) of cache {name!r}", pair)
